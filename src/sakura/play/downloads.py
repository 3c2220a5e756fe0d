"""The bytes of one edit: what to ask for next, what is in flight, what is damaged. Pure.

No byte is asked for twice, except a chunk whose first copy was damaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sakura.play.messages import (
    Abandon,
    ChunkRefused,
    Command,
    Decode,
    Fetch,
    FetchFailed,
    FetchProgress,
)
from sakura.play.plan import Layer
from sakura.play.ranges import Chunk, FetchList
from sakura.play.throughput import Throughput
from sakura.units import BITS_PER_BYTE, KIB

MAX_GIVEN_UP = 3
"""After so many shards with damage that a second fetch did not mend, the origin is given up."""
SMALLEST, NUM_RANGES = 2 * KIB, 32
"""A small bundle is cut into about so many ranges, none shorter: what is lost when a link stalls
should be a small part of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is asked for at once.

    Args:
        num_fetches: ranges in flight.
        most_fetches: ranges in flight where the round trip is long for the throughput.
        min_bytes: shortest range, where chunks allow.
        max_bytes: longest range.
        first_bytes: longest range while the throughput is unknown.
        range_s: how long a range should take.
        max_total_bytes: bytes to ask for in this edit, None for as many as there are.
    """

    num_fetches: int = 3
    most_fetches: int = 8
    min_bytes: int = 8 * KIB
    max_bytes: int = 64 * KIB
    first_bytes: int = 16 * KIB
    range_s: float = 0.04
    max_total_bytes: int | None = None


@dataclass(slots=True)
class _InFlight:
    fetch: Fetch
    num_bytes: int = 0
    num_chunks: int = 0


class Downloads:
    """Fetches in flight, and the chunks that are still to be asked for."""

    def __init__(self, fetch_list: FetchList, throughput: Throughput, limits: Limits) -> None:
        self._list, self._throughput, self._limits = fetch_list, throughput, limits
        self._in_flight: dict[int, _InFlight] = {}
        self._num_started = 0
        self._num_asked_bytes = 0
        self._num_received_bytes = 0
        self._damaged: set[Chunk] = set()
        self._cut: set[Layer] = set()  # asked for, and never to be whole
        self.given_up: set[tuple[int, int]] = set()
        self.stop_reason: str | None = None

    def next_fetches(
        self,
        now_s: float,
        is_wanted: Callable[[Chunk], bool],
        is_late: Callable[[Chunk, int], bool],
    ) -> list[Fetch]:
        """Fill the places in flight.

        Args:
            now_s: the present time.
            is_wanted: what is not wanted will never be.
            is_late: whether not to ask for a chunk now, which would be the last of so many bytes.
        """
        fetches: list[Fetch] = []
        if self.stop_reason is not None or self._list.is_empty:
            return fetches
        limits, num_places = self._limits, self._num_places(now_s)
        while self.stop_reason is None and len(self._in_flight) < num_places:
            first = self._list.first(is_wanted)
            if first is None or is_late(first, self._num_bytes_ahead + first.num_bytes):
                break
            chunks = self._list.take(self._range_bytes(now_s), is_wanted)
            num_bytes = chunks[-1].stop - chunks[0].start
            most = limits.max_total_bytes
            if most is not None and self._num_asked_bytes + num_bytes > most:
                self.stop_reason = "the edit's byte limit is reached"
                break
            fetch = Fetch(self._num_started, chunks[0].start, chunks[-1].stop, chunks)
            self._num_started += 1
            self._num_asked_bytes += num_bytes
            self._in_flight[fetch.fetch] = _InFlight(fetch)
            self._throughput.started(fetch.fetch, now_s)
            fetches.append(fetch)
        return fetches

    def on_progress(self, event: FetchProgress, now_s: float) -> list[Command]:
        """Count bytes; chunks that are complete now go to the decoder."""
        flight = self._in_flight.get(event.fetch)
        if flight is None:  # abandoned
            return []
        flight.num_bytes += event.num_bytes
        self._num_received_bytes += event.num_bytes
        self._throughput.arrived(event.fetch, event.num_bytes, now_s)
        fetch, commands = flight.fetch, list[Command]()
        received = fetch.start + flight.num_bytes
        while flight.num_chunks < len(fetch.chunks):
            chunk = fetch.chunks[flight.num_chunks]
            if chunk.stop > received:
                break
            flight.num_chunks += 1
            commands.append(Decode(fetch.fetch, chunk))
        if received >= fetch.stop:
            del self._in_flight[event.fetch]
            self._throughput.ended(event.fetch, now_s)
        return commands

    def on_failure(self, event: FetchFailed, now_s: float) -> list[Command]:
        """A fetch has failed although it was tried again: so will the others."""
        flight = self._in_flight.pop(event.fetch, None)
        if flight is None:
            return []
        self._cut |= {chunk.layer for chunk in flight.fetch.chunks[flight.num_chunks :]}
        self._throughput.ended(event.fetch, now_s)
        return self.stop(event.reason, now_s)

    def on_damage(self, event: ChunkRefused, now_s: float) -> list[Command]:
        """Ask for a damaged chunk once more; then do without its shard."""
        chunk = event.chunk
        if chunk not in self._damaged:
            self._damaged.add(chunk)
            self._num_received_bytes -= chunk.num_bytes  # they come again
            self._list.put_back(chunk)
            return []
        return self.give_up(chunk.block, chunk.component, event.reason, now_s)

    def give_up(self, block: int, component: int, reason: str, now_s: float) -> list[Command]:
        """Fetch nothing more of a shard; after a few of them, nothing at all."""
        self.given_up.add((block, component))
        return self.stop(reason, now_s) if len(self.given_up) >= MAX_GIVEN_UP else []

    def stop(self, reason: str, now_s: float) -> list[Command]:
        """Fetch nothing more in this edit and drop what is in flight."""
        if self.stop_reason is None:
            self.stop_reason = reason
        abandoned = list(self._in_flight)
        for flight in self._in_flight.values():
            self._cut |= {chunk.layer for chunk in flight.fetch.chunks[flight.num_chunks :]}
        self._in_flight.clear()
        for fetch in abandoned:
            self._throughput.ended(fetch, now_s)
        return [Abandon(fetch, reason) for fetch in abandoned]

    @property
    def can_arrive(self) -> bool:
        """Whether more bytes are in flight or will be asked for."""
        return bool(self._in_flight) or (self.stop_reason is None and not self._list.is_empty)

    @property
    def num_settled_bytes(self) -> int:
        """Bytes of the list that came or were passed over."""
        return self._num_received_bytes + self._list.num_passed_bytes

    def bytes_until(self, layer: Layer) -> float:
        """Bytes that the link will carry until a layer is there; infinite if it will not be.

        Fetches in flight share the link evenly.
        """
        if layer[:2] in self.given_up or layer in self._cut:
            return math.inf
        left = [f.fetch.stop - f.fetch.start - f.num_bytes for f in self._in_flight.values()]
        for flight in self._in_flight.values():
            stops = [chunk.stop for chunk in flight.fetch.chunks if chunk.layer == layer]
            if stops:
                own = stops[-1] - flight.fetch.start - flight.num_bytes
                return float(sum(min(own, other) for other in left)) if own > 0 else 0.0
        ahead = self._list.bytes_until(layer, self.given_up)
        if ahead is None:
            return 0.0
        return float(sum(left) + ahead) if self.stop_reason is None else math.inf

    @property
    def _num_bytes_ahead(self) -> int:
        return sum(f.fetch.stop - f.fetch.start - f.num_bytes for f in self._in_flight.values())

    def _num_places(self, now_s: float) -> int:
        """Ranges in flight: enough to carry 1.5 times what a round trip holds.

        The factor lets the estimate grow until the link, not the number of ranges, is the limit.
        """
        limits, ttfb_s = self._limits, self._throughput.least_ttfb_s
        rate_bps = self._throughput.estimate_bps(now_s)
        if rate_bps is None or ttfb_s is None:
            return limits.num_fetches
        wanted = 1.5 * rate_bps / BITS_PER_BYTE * ttfb_s / self._range_bytes(now_s)
        most = max(limits.num_fetches, limits.most_fetches)
        return min(most, max(limits.num_fetches, math.ceil(wanted)))

    def _range_bytes(self, now_s: float) -> int:
        limits, small = self._limits, max(SMALLEST, self._list.num_bytes // NUM_RANGES)
        rate_bps = self._throughput.estimate_bps(now_s)
        if rate_bps is None:
            return min(limits.first_bytes, small)
        wanted = int(rate_bps * limits.range_s / BITS_PER_BYTE)
        return min(limits.max_bytes, max(min(limits.min_bytes, small), wanted))
