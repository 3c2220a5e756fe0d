"""When each byte leaves a bottleneck link that several flows share round robin.

Pure: time is an argument, flows are opaque keys. The sockets are in `sakura.store.shaper`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from sakura.store.trace import Trace
from sakura.units import BITS_PER_BYTE

_CHUNK_BYTES = (256, 16384)
_MIN_WINDOW_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LinkModel:
    """What a link does to the bytes on it.

    Attributes:
        trace: rate over time; the rate is that of payload, headers are not charged.
        rtt_s: round trip of an empty link, half of it each way.
        loop: repeat the trace; otherwise its last rate holds on.
        queue_s: seconds of the mean rate that the bottleneck buffers; None is one rtt_s.
        initial_window: bytes a fresh or idle connection sends before the first acknowledgement (10
            * 1448 in real TCP); None leaves slow start out.
    """

    trace: Trace
    rtt_s: float
    loop: bool = True
    queue_s: float | None = None
    initial_window: int | None = None

    @property
    def window_bytes(self) -> int:
        """Most bytes in flight per connection: the pipe at its widest, the queue, and two chunks.

        Without these, a short pipe would hold one chunk and idle until that is acknowledged.
        """
        queue_s = self.rtt_s if self.queue_s is None else self.queue_s
        widest_s = self.rtt_s + 2 * self.quantum_s
        bits = max(self.trace.rates_bps) * widest_s + self.trace.mean_bps * queue_s
        return max(_MIN_WINDOW_BYTES, math.ceil(bits / BITS_PER_BYTE))

    @property
    def quantum_s(self) -> float:
        """Length of a chunk: a fiftieth of a trace step, at most 2 ms; compressed traces stay
        smooth.
        """
        step_s = self.trace.duration_s / len(self.trace.times_s)
        return min(2e-3, max(1e-4, step_s / 50))


@dataclass(frozen=True, slots=True)
class Departure:
    """A chunk on the wire: its last byte leaves at `time_s`."""

    flow: Hashable
    num_bytes: int
    start_s: float
    time_s: float


class Bottleneck:
    """One serialiser: follows the trace's integral while bytes wait; idle time is lost."""

    def __init__(self, model: LinkModel, start_s: float) -> None:
        self._model = model
        self._start_s = start_s
        self._free_s = start_s
        self._sent_bytes = 0.0  # position on the trace's byte axis at _free_s
        self._waiting: dict[Hashable, int] = {}
        self._turns: deque[Hashable] = deque()
        self._current: Departure | None = None

    @property
    def current(self) -> Departure | None:
        """The chunk being sent, or None on an idle link. Its time is infinite on a dead one."""
        return self._current

    def offer(self, flow: Hashable, num_bytes: int, at_s: float) -> None:
        """Queue bytes of `flow` that reach the link at `at_s`."""
        has_turn = flow in self._waiting or (self._current and self._current.flow == flow)
        if not has_turn:
            self._turns.append(flow)
        self._waiting[flow] = self._waiting.get(flow, 0) + num_bytes
        if self._current is None:
            self._begin(max(at_s, self._free_s))

    def depart(self) -> Departure:
        """End the current chunk and begin the next one."""
        assert self._current is not None
        gone, self._current = self._current, None
        self._free_s = gone.time_s
        if gone.flow in self._waiting:
            self._turns.append(gone.flow)  # behind whoever came while its chunk was on the wire
        if self._turns:
            self._begin(gone.time_s)
        return gone

    def _begin(self, at_s: float) -> None:
        trace, loop = self._model.trace, self._model.loop
        if at_s > self._free_s:
            self._sent_bytes = trace.bytes_by(at_s - self._start_s, loop)
        flow = self._turns.popleft()
        rate_bps = trace.rate_at(at_s - self._start_s, loop)
        least, most = _CHUNK_BYTES
        wanted = int(rate_bps * self._model.quantum_s / BITS_PER_BYTE)
        num_bytes = min(self._waiting[flow], max(least, min(most, wanted)))
        self._waiting[flow] -= num_bytes
        if not self._waiting[flow]:
            del self._waiting[flow]
        self._sent_bytes += num_bytes
        finish_s = self._start_s + trace.time_of(self._sent_bytes, loop)
        self._current = Departure(flow, num_bytes, at_s, max(finish_s, at_s))
