"""A player's side of the flash cache: a thread that adds what arrives, while edits go on.

The cache is a convenience: where it fails, edits go on without it, and `error` says why.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sakura.errors import DigestError, SakuraError
from sakura.format import verify_chunk
from sakura.play.bundle import Bundle
from sakura.play.flash import FlashCache, as_cache
from sakura.play.flash_entry import Snapshot
from sakura.play.ranges import Chunk
from sakura.units import KIB, MIB

JOIN_S = 5.0
GATHER_S, GATHER_BYTES = 0.02, 256 * KIB
"""A batch is written after so long, or once there is so much: taking the lock costs a little."""
MOST_WAITING_BYTES = 16 * MIB
"""What comes while so much waits for a slow disk is not kept."""

Batch = list[tuple[Chunk, bytes]]


class Shelf:
    """A bundle's place in a cache, between `start` and `close`; its template was asked for."""

    def __init__(self, bundle: Bundle, cache: FlashCache) -> None:
        self._cache, self._kept, self._source = cache, bundle.kept(), bundle.source
        shards = bundle.manifest.shards
        self._layers = {(shard.block, shard.component): shard.layers for shard in shards}
        self._changed = threading.Condition()
        self._waiting: Batch = []
        self._num_waiting_bytes = 0
        self._is_used, self._is_closed = False, False
        self._thread = threading.Thread(target=self._main, name="sakura-flash", daemon=True)
        self.snapshot = Snapshot()
        """What was there at the start. What comes later, the player has anyway."""
        self.error: str | None = None
        """Why nothing more is kept, if so."""

    def start(self) -> None:
        """Note that the bundle is used, look what is there, and start the thread."""
        self._touch(self._source)
        self.snapshot = self._cache.snapshot(self._kept)
        self._thread.start()

    def used(self) -> None:
        """An edit begins; returns at once."""
        with self._changed:
            self._is_used = True
            self._changed.notify()

    def keep(self, chunk: Chunk, data: bytes) -> None:
        """Queue a chunk that arrived; returns at once. Safe from any thread."""
        with self._changed:
            has_room = self._num_waiting_bytes + len(data) <= MOST_WAITING_BYTES
            if has_room and self.error is None and not self._is_closed:
                self._waiting.append((chunk, data))
                self._num_waiting_bytes += len(data)
                self._changed.notify()

    def close(self) -> None:
        """Write what waits and end the thread; a disk that hangs is left to it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self.snapshot.close()
        if not self._thread.is_alive():
            self._cache.close()

    def _main(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                self._put(batch)
            else:
                self._touch(None)

    def _next_batch(self) -> Batch | None:
        """What waits; nothing where the bundle is to be touched; None to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_used or self._is_closed)
            if self._is_used:
                self._is_used = False
                return []
            self._changed.wait_for(
                lambda: self._num_waiting_bytes >= GATHER_BYTES or self._is_closed, GATHER_S
            )
            batch, self._waiting = self._waiting, []
            self._num_waiting_bytes = 0
            return batch or None

    def _put(self, batch: Batch) -> None:
        good = [(chunk.place, data) for chunk, data in batch if self._is_intact(chunk, data)]
        try:
            self._cache.put(self._kept, good)
        except SakuraError as error:
            self.error = str(error)

    def _touch(self, source: str | None) -> None:
        if self.error is None:
            try:
                self._cache.touch(self._kept, source)
            except SakuraError as error:
                self.error = str(error)

    def _is_intact(self, chunk: Chunk, data: bytes) -> bool:
        layer = self._layers[chunk.block, chunk.component][chunk.level]
        try:
            verify_chunk(layer, chunk.index, data)
        except DigestError:  # the decoder finds that too, and asks for it again
            return False
        return True


def shelf_for(bundle: Bundle, cache: FlashCache | str | Path | None) -> Shelf | None:
    """A bundle's place in a cache or its folder; None without one."""
    return None if cache is None else Shelf(bundle, as_cache(cache))
