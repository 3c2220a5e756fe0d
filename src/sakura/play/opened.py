"""The bytes of a bundle that are here when an edit begins, wherever they are from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import SupportsBytes

from sakura.play.flash_entry import Snapshot
from sakura.play.ranges import Chunk, Place


@dataclass(frozen=True, slots=True)
class CachedChunk:
    """A chunk on flash, read when its bytes are asked for."""

    snapshot: Snapshot
    place: Place

    def __bytes__(self) -> bytes:
        return self.snapshot.read(self.place)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """See the module.

    Args:
        prefix: first bytes of the object, which came with its head.
        leftover: chunks that an earlier edit fetched and did not come to decode.
        snapshot: chunks in the flash cache.
    """

    prefix: bytes = b""
    leftover: Mapping[Place, bytes] = field(default_factory=dict)
    snapshot: Snapshot = field(default_factory=Snapshot)

    @property
    def places(self) -> frozenset[Place]:
        """The chunks, except those that lie in the prefix."""
        return self.snapshot.places | self.leftover.keys()

    def data(self, chunk: Chunk) -> SupportsBytes:
        """A chunk's bytes, not checked."""
        if chunk.place in self.leftover:
            return self.leftover[chunk.place]
        if self.is_cached(chunk):
            return CachedChunk(self.snapshot, chunk.place)
        return self.prefix[chunk.start : chunk.stop]

    def is_cached(self, chunk: Chunk) -> bool:
        """Whether a chunk comes from the flash cache."""
        return chunk.place in self.snapshot.records and chunk.place not in self.leftover
