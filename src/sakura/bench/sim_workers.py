"""A fetcher and a decoder under a simulated clock, in place of the player's threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import SupportsBytes

from sakura.bench.sim_clock import SimClock
from sakura.bench.sim_device import DeviceModel, SimStore
from sakura.bench.sim_link import Flow, FluidLink
from sakura.format import Manifest
from sakura.play.messages import Fetch
from sakura.play.ranges import Chunk
from sakura.play.retry import Retry
from sakura.play.workers import DecodeSink, FetchSink

Key = tuple[int, int]
"""(block, component)"""


class SimDecoder:
    """Takes one shard after the other, and all that is there of it, as the player's decoder."""

    def __init__(
        self, clock: SimClock, device: DeviceModel, manifest: Manifest, store: SimStore
    ) -> None:
        self._clock, self._device, self._store = clock, device, store
        self._missing = {
            (shard.block, shard.component): [len(layer.chunks) for layer in shard.layers]
            for shard in manifest.shards
        }
        self._waiting: dict[Key, list[tuple[DecodeSink, Chunk]]] = {}
        self._order: deque[Key] = deque()
        self._is_busy = False

    def submit(self, sink: DecodeSink, chunk: Chunk, data: SupportsBytes) -> None:
        """See `DecodeWorker.submit`."""
        key = chunk.block, chunk.component
        if key not in self._waiting:
            self._order.append(key)
        self._waiting.setdefault(key, []).append((sink, chunk))
        if not self._is_busy:
            self._begin()

    def drop(self) -> None:
        """See `DecodeWorker.drop`."""
        self._waiting.clear()
        self._order.clear()

    def _begin(self) -> None:
        key = self._order.popleft()
        batch = self._waiting.pop(key)
        num_bytes = sum(chunk.num_bytes for _, chunk in batch)
        self._is_busy = True
        took_s = self._device.shard_s + num_bytes * self._device.byte_s
        self._clock.at(self._clock.now_s + took_s, self._end, key, batch, batch[-1][0].now())

    def _end(self, key: Key, batch: list[tuple[DecodeSink, Chunk]], start_s: float) -> None:
        missing, level = self._missing[key], int(self._store.levels[key])
        for _, chunk in batch:
            missing[chunk.level] -= 1
        while level + 1 < len(missing) and not missing[level + 1]:
            level += 1
        self._store.levels[key] = level
        self._is_busy = False
        if level >= min(chunk.level for _, chunk in batch):
            batch[-1][0].decoded(key, level, start_s)
        if self._order and not self._is_busy:
            self._begin()


class SimFetcher:
    """Carries fetches out over a fluid link; reconnects after silence as the player's fetcher.

    Args:
        clock: simulated.
        link: carries the bytes.
        retry: when a silent fetch is asked for again, and when it has failed.
    """

    def __init__(self, clock: SimClock, link: FluidLink, retry: Retry) -> None:
        self._clock, self._link, self._retry = clock, link, retry
        self._transfers: dict[int, _Transfer] = {}

    def fetch(self, sink: FetchSink, command: Fetch) -> None:
        """See `FetchWorker.fetch`."""
        transfer = _Transfer(sink, command)
        self._transfers[command.fetch] = transfer
        self._open(transfer, is_fresh=False)

    def abandon(self, sink: FetchSink, fetch: int) -> None:
        """See `FetchWorker.abandon`."""
        transfer = self._transfers.pop(fetch, None)
        if transfer is not None and transfer.flow is not None:
            self._link.drop(transfer.flow)

    def _open(self, transfer: _Transfer, is_fresh: bool) -> None:
        command, done = transfer.command, transfer.num_bytes
        stops = [chunk.stop - command.start - done for chunk in command.chunks]
        num_bytes = command.stop - command.start - done
        marks = [stop for stop in stops if stop > 0]
        deliver: Callable[[int], None] = partial(self._arrived, transfer)
        transfer.flow = self._link.open(num_bytes, marks, deliver, is_fresh)
        transfer.heard_s = self._clock.now_s
        self._watch(transfer)

    def _watch(self, transfer: _Transfer) -> None:
        patience_s = self._retry.silence_s * 2**transfer.num_silences
        self._clock.at(transfer.heard_s + patience_s, self._check, transfer, transfer.flow)

    def _check(self, transfer: _Transfer, flow: Flow) -> None:
        fetch = transfer.command.fetch
        if self._transfers.get(fetch) is not transfer or transfer.flow is not flow:
            return
        patience_s = self._retry.silence_s * 2**transfer.num_silences
        if self._clock.now_s < transfer.heard_s + patience_s:
            self._watch(transfer)
            return
        self._link.drop(flow)
        transfer.num_silences += 1
        if transfer.num_silences > self._retry.num_silences:
            del self._transfers[fetch]
            transfer.sink.failed(fetch, "no byte came for too long")
            return
        self._open(transfer, is_fresh=True)

    def _arrived(self, transfer: _Transfer, num_bytes: int) -> None:
        command = transfer.command
        if self._transfers.get(command.fetch) is not transfer:
            return
        transfer.num_bytes += num_bytes
        transfer.num_silences, transfer.heard_s = 0, self._clock.now_s
        if transfer.num_bytes >= command.stop - command.start:
            del self._transfers[command.fetch]
        transfer.sink.arrived(command.fetch, bytes(num_bytes))


@dataclass(slots=True, eq=False)
class _Transfer:
    sink: FetchSink
    command: Fetch
    num_bytes: int = 0
    num_silences: int = 0
    heard_s: float = 0.0
    flow: Flow | None = None
