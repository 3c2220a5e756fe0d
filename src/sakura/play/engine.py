"""Decodes shards: chunks in, components out. Knows no thread and no network; needs no torch, so
that it also runs in a small process of its own (decode_process.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sakura.codec import (
    CodecProfile,
    ShardDecoder,
    ShardSpec,
    TilePlan,
    create_codec,
)
from sakura.errors import CodecError, DigestError
from sakura.format import Manifest, Shard, verify_chunk

Array = NDArray[Any]
Key = tuple[int, int]
"""(block, component)"""


@dataclass(frozen=True, slots=True)
class Piece:
    """The bytes of a chunk: number `index` of layer `level`."""

    level: int
    index: int
    data: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of some pieces of a shard.

    Args:
        level: the level it stands at now, -1 for none.
        values: (2, N, H, Dh) float32 of the component, keys before RoPE; None if unchanged.
        damaged: (level, index, reason) of pieces that do not match their digest.
        refused: why the codec refuses the shard, if it does.
    """

    level: int
    values: Array | None = None
    damaged: tuple[tuple[int, int, str], ...] = ()
    refused: str | None = None


class Engine(Protocol):
    """Decodes the shards of one bundle, one call at a time."""

    def prepare(self, is_needed: Callable[[], bool]) -> None:
        """Set up ahead of the first piece, as long as `is_needed`."""
        ...

    def advance(self, key: Key, pieces: Sequence[Piece]) -> Outcome:
        """Take pieces of one shard in and decode all layers that are whole."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


@dataclass(slots=True)
class ShardStream:
    """One shard's chunks and decoder: layers go in as soon as they and those below are whole."""

    shard: Shard
    decoder: ShardDecoder
    given_level: int = -1
    _chunks: dict[tuple[int, int], bytes] = field(default_factory=dict)

    @property
    def level(self) -> int:
        return self.decoder.level - 1

    def add(self, piece: Piece) -> None:
        """Take a chunk in. Raises DigestError where it is damaged."""
        verify_chunk(self.shard.layers[piece.level], piece.index, piece.data)
        self._chunks[piece.level, piece.index] = piece.data

    def advance(self) -> None:
        """Decode all whole layers that are next. Raises CodecError where the codec refuses one."""
        while (level := self.decoder.level) < len(self.shard.layers):
            places = [(level, n) for n in range(len(self.shard.layers[level].chunks))]
            if not all(place in self._chunks for place in places):
                break
            data = b"".join(self._chunks.pop(place) for place in places)
            self.decoder.feed_layer(level, data, complete=True)


class LocalEngine:
    """Decodes where it is called."""

    def __init__(self, manifest: Manifest, profile: CodecProfile) -> None:
        self._manifest, self._profile = manifest, profile
        self._codec = create_codec(manifest.codec.id, profile)
        self._shards = {(shard.block, shard.component): shard for shard in manifest.shards}
        self._streams: dict[Key, ShardStream] = {}

    def prepare(self, is_needed: Callable[[], bool]) -> None:
        """See `Engine.prepare`."""
        for key in sorted(self._shards, key=lambda key: (key[1], key[0])):
            if not is_needed():
                break
            self._stream(key)

    def advance(self, key: Key, pieces: Sequence[Piece]) -> Outcome:
        """See `Engine.advance`."""
        stream, damaged, refused = self._stream(key), [], None
        for piece in pieces:
            try:
                stream.add(piece)
            except DigestError as error:
                damaged.append((piece.level, piece.index, str(error)))
        try:
            stream.advance()
        except CodecError as error:
            refused = str(error)
        values = None
        if stream.level > stream.given_level:
            stream.given_level = stream.level
            _, _, num_heads, head_dim = self._profile.dims
            shape = 2, sum(self._manifest.tiles.widths), num_heads, head_dim
            values = np.empty(shape, np.float32)
            stream.decoder.reconstruct(values)
        return Outcome(stream.level, values, tuple(damaged), refused)

    def close(self) -> None:
        """Nothing to release."""

    def _stream(self, key: Key) -> ShardStream:
        if key not in self._streams:
            shard, tiles = self._shards[key], self._manifest.tiles
            plan = TilePlan(tiles.widths, tiles.gains[shard.block])
            spec = ShardSpec(shard.block, shard.component, shard.delta, plan)
            self._streams[key] = ShardStream(shard, self._codec.decoder(spec))
        return self._streams[key]
