"""One edit from request to picture, whoever guides it; and the guide that computes everything."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sakura.events import Event, EventLog
from sakura.models.base import Adapter, BlockState, Request, Template
from sakura.models.threads import one_thread
from sakura.play.deadlines import Mode
from sakura.play.execute import Guide, execute
from sakura.play.report import RunReport, make_report

Array = NDArray[Any]
Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True, eq=False)
class EditResult:
    """An edited picture (H, W, 3) uint8, and how it came about."""

    image: Array
    report: RunReport
    events: EventLog


class Job:
    """What one edit works on.

    Args:
        model: adapter.
        template: public part.
        request: private part.
        listener: called with every event. If it raises, it hears no more, and the error comes out
            of `end`: an edit must not hang because a display failed in a helper thread.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        model: Adapter,
        template: Template,
        request: Request,
        listener: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.template, self.request = model, template, request
        self._listener = listener
        self._listener_error: Exception | None = None
        self.log = EventLog(clock, self._tell if listener else None)

    def begin(self, policy: str, **facts: Any) -> None:
        """Log what is to be done; `facts` are further fields of `run_start`."""
        self.log.add(
            "run_start",
            policy=policy,
            task=self.template.task,
            num_steps=self.model.schedule.num_steps,
            num_blocks=self.model.geometry.num_blocks,
            mask_ratio=self.request.active_mask(self.template).ratio,
            **facts,
        )

    def render(self, guide: Guide, cached_tokens: Array | None = None) -> Array:
        """Execute the edit on one core: the others belong to fetching and decoding."""
        with one_thread(), short_turns():
            run = self.model.prepare(self.template, self.request, cached_tokens)
            num_blocks = self.model.geometry.num_blocks
            execute(run, guide, self.log, self.model.schedule.num_steps, num_blocks)
            return run.image()

    def end(self, image: Array, latency_s: float) -> EditResult:
        """Close the log and sum it up."""
        self.log.add("run_end", latency_s=latency_s)
        if self._listener_error is not None:
            raise self._listener_error
        return EditResult(image, make_report(self.log), self.log)

    def _tell(self, event: Event) -> None:
        if self._listener is not None and self._listener_error is None:
            try:
                self._listener(event)
            except Exception as error:
                self._listener_error = error


class DeviceGuide:
    """Computes every block with all tokens."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def begin_step(self, step: int) -> None:
        """See `Guide.begin_step`."""

    def choose(self, step: int, block: int) -> Mode:
        """See `Guide.choose`."""
        return "compute"

    def state(self, step: int, block: int, slot: BlockState) -> BlockState:
        """Never asked for."""
        raise AssertionError("a device guide injects nothing")

    def end_block(self, step: int, block: int, mode: Mode, start_s: float) -> None:
        """See `Guide.end_block`."""
        self._log.add("block", step=step, block=block, mode=mode, level=-1, start_s=start_s)

    def end_step(self, step: int, start_s: float) -> None:
        """See `Guide.end_step`."""
        self._log.add("step", step=step, start_s=start_s, mse=0.0)


def edit_on_device(
    model: Adapter, template: Template, request: Request, listener: Listener | None = None
) -> EditResult:
    """Plain on-device generation: no bundle, no network, every token computed.

    Raises:
        InputError: a picture, prompt or mask that cannot be used.
    """
    job = Job(model, template, request, listener)
    job.begin("device")
    image = job.render(DeviceGuide(job.log))
    return job.end(image, job.log.now())


TURN_S = 0.0002


@contextmanager
def short_turns() -> Iterator[None]:
    """Python threads take short turns: the executor gives the interpreter up in every tensor
    operation, and must not wait the usual 5 ms for a decoder thread to hand it back.
    """
    turn_s = sys.getswitchinterval()
    sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(turn_s)
