"""A thread that turns chunks into components: it hands them to an engine and publishes the outcome.

It takes shards in the order their chunks came, and all that is there of a shard at once.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import SupportsBytes

from sakura.errors import PlayError, SakuraError
from sakura.play.engine import Engine, Key, Piece
from sakura.play.ranges import Chunk
from sakura.play.state import StateStore
from sakura.play.workers import DecodeSink

JOIN_S = 5.0


class Decoder:
    """Decodes into a store between `start` and `close`."""

    def __init__(self, engine: Engine, store: StateStore) -> None:
        self._engine, self._store = engine, store
        self._refused: dict[Key, str] = {}
        self._changed = threading.Condition()
        self._waiting: dict[Key, list[tuple[DecodeSink, Chunk, SupportsBytes]]] = {}
        self._order: deque[Key] = deque()
        self._is_closed = False
        self._thread = threading.Thread(target=self._main, name="sakura-decode", daemon=True)

    def start(self) -> None:
        """Start the thread; it sets its tables up before the first chunk comes."""
        self._thread.start()

    def submit(self, sink: DecodeSink, chunk: Chunk, data: SupportsBytes) -> None:
        """Queue a chunk, whose bytes may be read later; returns at once. Safe from any thread."""
        key = chunk.block, chunk.component
        with self._changed:
            if key not in self._waiting:
                self._order.append(key)
            self._waiting.setdefault(key, []).append((sink, chunk, data))
            self._changed.notify()

    def drop(self) -> None:
        """Forget what is queued, for instance because the edit is over. Safe from any thread."""
        with self._changed:
            self._waiting.clear()
            self._order.clear()

    def close(self) -> None:
        """End thread and engine. Raises PlayError if the thread does not end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._engine.close()
        if self._thread.is_alive():
            raise PlayError("the decode thread does not end")

    def _main(self) -> None:
        # What cannot be set up ahead is refused when its first chunk comes.
        with suppress(SakuraError):
            self._engine.prepare(lambda: not (self._order or self._is_closed))
        while (batch := self._next_batch()) is not None:
            self._decode(batch)

    def _next_batch(self) -> list[tuple[DecodeSink, Chunk, SupportsBytes]] | None:
        """All that is queued of the next shard; None to end."""
        with self._changed:
            while not self._order and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._waiting.pop(self._order.popleft())

    def _decode(self, batch: list[tuple[DecodeSink, Chunk, SupportsBytes]]) -> None:
        sink, last, _ = batch[-1]
        key = last.block, last.component
        try:
            if key not in self._refused:
                self._advance(key, batch)
        except Exception as error:  # a dead thread would leave an edit waiting for ever
            self._refused[key] = f"{type(error).__name__}: {error}"
        if key in self._refused and not self._is_closed:
            sink.shard_refused(key, self._refused[key])

    def _advance(self, key: Key, batch: list[tuple[DecodeSink, Chunk, SupportsBytes]]) -> None:
        sink, start_s = batch[-1][0], batch[-1][0].now()
        chunks = {(chunk.level, chunk.index): chunk for _, chunk, _ in batch}
        pieces = [Piece(chunk.level, chunk.index, bytes(data)) for _, chunk, data in batch]
        outcome = self._engine.advance(key, pieces)
        for level, index, reason in outcome.damaged:
            sink.chunk_refused(chunks[level, index], reason)
        if outcome.values is not None:
            self._store.publish(*key, outcome.values, outcome.level)
        if outcome.level >= min(level for level, _ in chunks):
            sink.decoded(key, outcome.level, start_s)
        if outcome.refused is not None:
            self._refused[key] = outcome.refused
