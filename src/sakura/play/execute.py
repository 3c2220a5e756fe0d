"""The step and block loop of an edit. It asks before every block and never looks at the network.

`streamed_step` is the step that overlaps with the network; `device_step` is its twin without.
"""

from __future__ import annotations

from typing import Protocol

from sakura.events import EventLog
from sakura.models.base import BlockState, Run
from sakura.play.deadlines import Mode


class Guide(Protocol):
    """Decides how blocks run, supplies their state, and hears how long they took."""

    def begin_step(self, step: int) -> None:
        """A step begins, perhaps for the second time."""
        ...

    def choose(self, step: int, block: int) -> Mode:
        """How to run the next block. May wait, if that is the policy."""
        ...

    def state(self, step: int, block: int, slot: BlockState) -> BlockState:
        """State to inject into a block; the arrays of `slot` are there to be filled with it."""
        ...

    def end_block(self, step: int, block: int, mode: Mode, start_s: float) -> None:
        """A block was executed."""
        ...

    def end_step(self, step: int, start_s: float) -> None:
        """A step was executed."""
        ...


def execute(run: Run, guide: Guide, log: EventLog, num_steps: int, num_blocks: int) -> None:
    """Run all steps of an edit."""
    for step in range(num_steps):
        start_s = log.now()
        if not streamed_step(run, guide, log, step, num_blocks):
            device_step(run, guide, log, step, num_blocks)
        guide.end_step(step, start_s)


def streamed_step(run: Run, guide: Guide, log: EventLog, step: int, num_blocks: int) -> bool:
    """Compute all tokens until the rest of the step can be injected; then the active ones.

    Returns:
        False if the state ran out after cached tokens were dropped: the step must be done again.
    """
    guide.begin_step(step)
    mode = guide.choose(step, 0)
    run.begin_step(step, active_only=mode == "inject")
    has_injected = False
    for block in range(num_blocks):
        if block:
            mode = guide.choose(step, block)
        if mode == "compute" and has_injected:
            return False
        start_s = log.now()
        has_injected = mode == "inject"
        state = guide.state(step, block, run.slot(block)) if has_injected else None
        run.run_block(block, state)
        guide.end_block(step, block, mode, start_s)
    run.end_step()
    return True


def device_step(run: Run, guide: Guide, log: EventLog, step: int, num_blocks: int) -> None:
    """Compute all tokens in every block."""
    guide.begin_step(step)
    run.begin_step(step, active_only=False)
    for block in range(num_blocks):
        start_s = log.now()
        run.run_block(block, None)
        guide.end_block(step, block, "compute", start_s)
    run.end_step()
