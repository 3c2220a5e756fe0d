"""A fluid link under a simulated clock: ranges in flight share what a trace lets through.

Every range gets an equal part of the rate, as of a fair bottleneck; its first byte takes a round
trip, and one more on a connection that has yet to be opened. Slow start is that of TCP in rounds: a
connection carries its window in a round trip at most, and the window doubles when it was used up.
Lost are what the shaper (`sakura.store.shaper`) has and this has not: queues, and bytes of a
dropped range that still use the link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sakura.bench.sim_clock import SimClock
from sakura.store.link import LinkModel

PIECE_BYTES = 16384
IDLE_RTTS = 4
"""A connection that idles for longer starts slow again."""


@dataclass(slots=True, eq=False)
class Flow:
    """One range in flight.

    Args:
        num_bytes: its length.
        marks: offsets at which bytes are reported at once, rising, the last one its length.
        deliver: told how many more bytes came.
        window: bytes that its connection carries in a round trip.
    """

    num_bytes: int
    marks: Sequence[int]
    deliver: Callable[[int], None]
    window: float
    came: float = 0.0
    num_told: int = 0
    next_mark: int = 0
    room: float = 0.0  # bytes that this round may still carry
    round_s: float = 0.0  # when it began
    is_open: bool = True


class FluidLink:
    """Carries ranges; time passes in its clock.

    Args:
        clock: simulated.
        model: trace, round trip, and first window for slow start.
        num_warm: connections that are open already.
        start_s: how far into the trace it is now.
        tick_s: bytes that came are reported at least so often.
    """

    def __init__(
        self,
        clock: SimClock,
        model: LinkModel,
        num_warm: int = 0,
        start_s: float = 0.0,
        tick_s: float = 0.005,
    ) -> None:
        self._clock, self._model, self._tick_s = clock, model, tick_s
        self._most = float(model.window_bytes) if model.initial_window is not None else math.inf
        # Bytes take half a round trip from the bottleneck to here.
        self._start_s = clock.now_s + model.rtt_s / 2 - start_s
        self._flows: list[Flow] = []
        self._since_s, self._served = clock.now_s, 0.0  # when `came` of all flows was brought up
        self._ticked_s = clock.now_s
        self._turn = 0  # what was scheduled for an earlier one is void
        self._idle: list[tuple[float, float]] = [(self._first_window, clock.now_s)] * num_warm

    def open(
        self,
        num_bytes: int,
        marks: Sequence[int],
        deliver: Callable[[int], None],
        is_fresh: bool = False,
    ) -> Flow:
        """Ask for a range; `is_fresh` takes no connection that is open already."""
        delay_s, window = self._model.rtt_s, self._first_window
        if self._idle and not is_fresh:
            window, idle_s = self._idle.pop()
            if self._clock.now_s - idle_s > IDLE_RTTS * self._model.rtt_s:
                window = self._first_window
        else:
            delay_s *= 2
        flow = Flow(num_bytes, marks, deliver, window)
        self._clock.at(self._clock.now_s + delay_s, self._begin, flow)
        return flow

    def drop(self, flow: Flow) -> None:
        """Nothing more of it comes, and its connection is closed."""
        flow.is_open = False
        if flow in self._flows:
            self._serve()
            self._flows.remove(flow)
            self._schedule()

    @property
    def _first_window(self) -> float:
        first = self._model.initial_window
        return math.inf if first is None else float(min(first, self._model.window_bytes))

    def _begin(self, flow: Flow) -> None:
        """Its first byte is here, or a round after one that used its window up."""
        if not flow.is_open:
            return
        self._serve()
        flow.room, flow.round_s = flow.window, self._clock.now_s
        self._flows.append(flow)
        self._schedule()

    def _serve(self) -> None:
        """Share out what the link has carried since the last time."""
        now_s, flows = self._clock.now_s, self._flows
        served = self._bytes_by(now_s) if flows else 0.0
        if flows and now_s > self._since_s:
            each = (served - self._served) / len(flows)
            for flow in flows:
                flow.came = min(flow.came + each, float(flow.num_bytes))
                flow.room -= each
        self._since_s, self._served = now_s, served

    def _schedule(self) -> None:
        """Come back when the first flow has something to report."""
        self._turn += 1
        if not self._flows:
            return
        if not self._served:
            self._served = self._bytes_by(self._clock.now_s)
        count = len(self._flows)
        nearest = min(min(self._target(flow) - flow.came, flow.room) for flow in self._flows)
        due_s = self._time_of(self._served + max(0.0, nearest) * count)
        tick_s = self._ticked_s + self._tick_s
        if tick_s < due_s:  # bytes that trickle are told of, once there is a whole one
            byte = min(max(0.0, flow.num_told + 1 - flow.came) for flow in self._flows)
            due_s = min(due_s, max(tick_s, self._time_of(self._served + byte * count)))
        due_s = max(due_s, self._clock.now_s)
        self._clock.at(due_s, self._report, self._turn)

    def _report(self, turn: int) -> None:
        if turn != self._turn:
            return
        now_s = self._clock.now_s
        self._serve()
        told, is_tick = list[tuple[Flow, int]](), now_s >= self._ticked_s + self._tick_s
        self._ticked_s = now_s if is_tick else self._ticked_s
        for flow in list(self._flows):
            came = self._whole(flow)
            is_due = is_tick or came >= self._target(flow) or flow.room <= 0.5
            if is_due and came > flow.num_told:
                told.append((flow, came - flow.num_told))
                flow.num_told = came
                while flow.next_mark < len(flow.marks) and flow.marks[flow.next_mark] <= came:
                    flow.next_mark += 1
            if came >= flow.num_bytes:
                self._finish(flow)
            elif flow.room <= 0.5:
                self._pause(flow)
        self._schedule()
        for flow, num_bytes in told:
            if flow.is_open or flow.num_told >= flow.num_bytes:
                flow.deliver(num_bytes)

    def _finish(self, flow: Flow) -> None:
        self._flows.remove(flow)
        flow.is_open = False
        self._idle.append((flow.window, self._clock.now_s))

    def _pause(self, flow: Flow) -> None:
        """The window is used up: it doubles with the next round."""
        self._flows.remove(flow)
        flow.window = min(self._most, 2 * flow.window)
        self._clock.at(flow.round_s + self._model.rtt_s, self._begin, flow)

    def _target(self, flow: Flow) -> int:
        """Offset at which it reports next."""
        mark = flow.marks[flow.next_mark] if flow.next_mark < len(flow.marks) else flow.num_bytes
        return min(mark, flow.num_told + PIECE_BYTES)

    @staticmethod
    def _whole(flow: Flow) -> int:
        """Bytes that came; a last one counts that is whole but for rounding."""
        return min(flow.num_bytes, int(flow.came + 1e-3))

    def _bytes_by(self, time_s: float) -> float:
        return self._model.trace.bytes_by(max(0.0, time_s - self._start_s), self._model.loop)

    def _time_of(self, num_bytes: float) -> float:
        return self._start_s + self._model.trace.time_of(num_bytes, self._model.loop)
