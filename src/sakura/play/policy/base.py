"""What a policy sees before a block, and what it answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sakura.play.plan import Decision, Wait


@dataclass(frozen=True, slots=True)
class View:
    """The state of a run before one block.

    Args:
        step: the step under way.
        block: the block to execute next.
        num_blocks: blocks of a step.
        is_dropped: an earlier block of this step was injected, so cached tokens are gone.
        has_state: the main component of this block and of each later one of the step is decoded.
        is_complete: all that this block needs is decoded at least at its base layer.
        can_arrive: bytes are still on their way.
        cost: predicted error of injecting this step from this block on; infinite without state.
        later_costs: the same for each later step, with what will have arrived by then.
        budget: predicted error that is left to spend.
        wait: what waiting would take; None where it cannot be told.
        wait_left_s: seconds until a wait that has begun must end; None where none has.
    """

    step: int
    block: int
    num_blocks: int
    is_dropped: bool
    has_state: bool
    is_complete: bool
    can_arrive: bool
    cost: float
    later_costs: tuple[float, ...]
    budget: float
    wait: Wait | None = None
    wait_left_s: float | None = None


class Policy(Protocol):
    """Decides before every block; knows no clock, no bytes and no model."""

    name: str
    is_streaming: bool
    """Whether anything is fetched at all."""

    def decide(self, view: View) -> Decision:
        """Inject this block, compute it with all tokens, or wait.

        Where `view.is_dropped`, compute means: do the whole step again on the device.
        """
        ...
