"""A thread that turns chunks into components: digest, codec, inverse transform, RoPE, publish.

It takes shards in the order their chunks came and decodes all that is there of a shard at once. The
heavy parts run in native code without the interpreter lock.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from sakura.codec import Codec, ShardDecoder, ShardSpec, TilePlan, inverse_channels
from sakura.codec.profile import CodecProfile
from sakura.errors import CodecError, DigestError, PlayError
from sakura.format import Manifest, Shard, verify_chunk
from sakura.play.ranges import Chunk
from sakura.play.state import StateStore

Array = NDArray[Any]
Key = tuple[int, int]
"""(block, component)"""

JOIN_S = 5.0


class DecodeSink(Protocol):
    """Who is told; called in the decoder's thread."""

    def now(self) -> float:
        """Seconds since the edit began."""
        ...

    def decoded(self, shard: Key, level: int, start_s: float) -> None:
        """A shard stands at a level; decoding began at `start_s`."""
        ...

    def chunk_refused(self, chunk: Chunk, reason: str) -> None:
        """The bytes of a chunk do not match their digest."""
        ...

    def shard_refused(self, shard: Key, reason: str) -> None:
        """Nothing more of a shard can be decoded."""
        ...


@dataclass(slots=True)
class ShardStream:
    """One shard's chunks and decoder: layers go in as soon as they and those below are whole."""

    shard: Shard
    decoder: ShardDecoder
    _chunks: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def add(self, chunk: Chunk, data: bytes) -> None:
        """Take a chunk in. Raises DigestError where it is damaged."""
        verify_chunk(self.shard.layers[chunk.level], chunk.index, data)
        self._chunks[chunk.level, chunk.index] = data

    def advance(self) -> int:
        """Decode all whole layers that are next; returns how many layers are decoded in all.

        Raises:
            CodecError: the codec refuses a layer.
        """
        while (level := self.decoder.level) < len(self.shard.layers):
            places = [(level, n) for n in range(len(self.shard.layers[level].chunks))]
            if not all(place in self._chunks for place in places):
                break
            data = b"".join(self._chunks.pop(place) for place in places)
            self.decoder.feed_layer(level, data, complete=True)
        return self.decoder.level


class Decoder:
    """Decodes into a store between `start` and `close`."""

    def __init__(self, manifest: Manifest, codec: Codec, profile: CodecProfile, store: StateStore):
        self._manifest, self._codec, self._profile = manifest, codec, profile
        self._store = store
        self._shards = {(shard.block, shard.component): shard for shard in manifest.shards}
        self._streams: dict[Key, ShardStream] = {}
        self._refused: dict[Key, str] = {}
        self._changed = threading.Condition()
        self._waiting: dict[Key, list[tuple[DecodeSink, Chunk, bytes]]] = {}
        self._order: deque[Key] = deque()
        self._is_closed = False
        self._thread = threading.Thread(target=self._main, name="sakura-decode", daemon=True)

    def start(self) -> None:
        """Start the thread; it sets its tables up before the first chunk comes."""
        self._thread.start()

    def submit(self, sink: DecodeSink, chunk: Chunk, data: bytes) -> None:
        """Queue a chunk; returns at once. Safe from any thread."""
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
        """End the thread. Raises PlayError if it does not end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
            if self._thread.is_alive():
                raise PlayError("the decode thread does not end")

    def _main(self) -> None:
        for key in sorted(self._shards, key=lambda key: (key[1], key[0])):
            if self._order or self._is_closed:
                break  # the rest is set up when it comes
            self._stream(key)
        while (batch := self._next_batch()) is not None:
            self._decode(batch)

    def _next_batch(self) -> list[tuple[DecodeSink, Chunk, bytes]] | None:
        """All that is queued of the next shard; None to end."""
        with self._changed:
            while not self._order and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._waiting.pop(self._order.popleft())

    def _decode(self, batch: list[tuple[DecodeSink, Chunk, bytes]]) -> None:
        sink, last, _ = batch[-1]
        key, start_s = (last.block, last.component), sink.now()
        try:
            if key in self._refused:
                raise CodecError(self._refused[key])
            self._advance(key, batch, start_s)
        except Exception as error:  # a dead thread would leave an edit waiting for ever
            self._refused[key] = str(error)
            sink.shard_refused(key, str(error))

    def _advance(
        self, key: Key, batch: list[tuple[DecodeSink, Chunk, bytes]], start_s: float
    ) -> None:
        sink, stream = batch[-1][0], self._stream(key)
        for _, chunk, data in batch:
            try:
                stream.add(chunk, data)
            except DigestError as error:
                sink.chunk_refused(chunk, str(error))
        try:
            stream.advance()
        finally:
            level = stream.decoder.level - 1
            if level > self._store.levels[key]:
                coefficients = stream.decoder.coefficients()
                values = inverse_channels(self._profile, key[0], coefficients)
                self._store.publish(*key, values, level)
            if level >= min(chunk.level for _, chunk, _ in batch):
                sink.decoded(key, level, start_s)

    def _stream(self, key: Key) -> ShardStream:
        if key not in self._streams:
            shard, tiles = self._shards[key], self._manifest.tiles
            plan = TilePlan(tiles.widths, tiles.gains[shard.block])
            spec = ShardSpec(shard.block, shard.component, shard.delta, plan)
            self._streams[key] = ShardStream(shard, self._codec.decoder(spec))
        return self._streams[key]
