"""Which bytes come next: the chunks of a bundle in order of worth, joined into ranges. Pure.

The order is base layers, then each level of refinements, inside a level by component and block.
Writers lay the data out like that, so ranges ascend; chunks that are not neighbours in the object
are never joined. Policies that choose a level for each shard have shard after shard instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.format import Head, Manifest, Shard
from sakura.play.plan import Layer

Array = NDArray[Any]
Place = tuple[int, int, int, int]
"""(block, component, level, index) of a chunk."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One checksummed run of bytes [start, stop) of the object: chunk `index` of a layer."""

    block: int
    component: int
    level: int
    index: int
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start

    @property
    def layer(self) -> Layer:
        return self.block, self.component, self.level

    @property
    def place(self) -> Place:
        return self.block, self.component, self.level, self.index


class FetchList:
    """The chunks that are still to be asked for.

    Args:
        head: manifest and data start.
        levels_BC: what is decoded already; layers up to it are left out.
        opened_bytes: opening the object brought so many of its first bytes.
        held: further chunks that are here already.
        is_whole: all layers of a shard before the next shard.

    Attributes:
        opened: chunks that are here already and are never asked for.
    """

    def __init__(
        self,
        head: Head,
        levels_BC: Array,
        opened_bytes: int = 0,
        held: Set[Place] = frozenset(),
        is_whole: bool = False,
    ) -> None:
        self.layers: list[Layer] = []
        self._chunks: list[Chunk] = []
        self._next = 0
        self._again: deque[Chunk] = deque()
        sizes = []
        for shard, level in _in_order(head.manifest, is_whole):
            if level > levels_BC[shard.block, shard.component]:
                start, _ = head.span(shard.layers[level])
                key = shard.block, shard.component, level
                self.layers.append(key)
                self._chunks += _chunks(key, start, shard.layers[level].chunks)
                sizes.append(shard.layers[level].num_bytes)
        is_here = [c.stop <= opened_bytes or c.place in held for c in self._chunks]
        self.opened = tuple(compress(self._chunks, is_here))
        self._chunks = [c for c, here in zip(self._chunks, is_here, strict=True) if not here]
        self.shards = frozenset(chunk.layer[:2] for chunk in self._chunks)
        """(block, component) of all that is to be asked for."""
        self.num_passed_bytes = sum(chunk.num_bytes for chunk in self.opened)
        self.num_passed_layers = 0
        self.ends = np.cumsum(sizes, dtype=np.int64)
        """Bytes to fetch until each of `layers` is there."""

    @property
    def num_bytes(self) -> int:
        """Of all layers, whether here already or not."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def first(self, is_wanted: Callable[[Chunk], bool]) -> Chunk | None:
        """What `take` would begin with."""
        while (chunk := self._peek()) is not None and not is_wanted(chunk):
            self._pass_over(chunk)
        return chunk

    def take(self, most_bytes: int, is_wanted: Callable[[Chunk], bool]) -> tuple[Chunk, ...]:
        """The next neighbours, together at most `most_bytes` long, but at least one chunk.

        Chunks that are not wanted are passed over and never offered again. Empty at the end.
        """
        taken: list[Chunk] = []
        num_bytes = 0
        while (chunk := self._peek()) is not None:
            wanted = is_wanted(chunk)
            if wanted and taken:
                joins = chunk.start == taken[-1].stop
                if not joins or num_bytes + chunk.num_bytes > most_bytes:
                    break
            if wanted:
                self._pop()
                taken.append(chunk)
                num_bytes += chunk.num_bytes
            else:
                self._pass_over(chunk)
        return tuple(taken)

    def put_back(self, chunk: Chunk) -> None:
        """Offer a chunk again, before all others."""
        self._again.append(chunk)

    def bytes_until(self, layer: Layer, given_up: Container[tuple[int, int]] = ()) -> int | None:
        """Bytes still to be taken until a layer is; None if it was taken already.

        Shards (block, component) that were given up will be passed over.
        """
        num_bytes, found = 0, None
        for chunk in chain(self._again, islice(self._chunks, self._next, None)):
            if chunk.layer[:2] in given_up:
                continue
            num_bytes += chunk.num_bytes
            if chunk.layer == layer:
                found = num_bytes
            elif found is not None:
                break
        return found

    @property
    def is_empty(self) -> bool:
        return self._peek() is None

    def _peek(self) -> Chunk | None:
        if self._again:
            return self._again[0]
        return self._chunks[self._next] if self._next < len(self._chunks) else None

    def _pass_over(self, chunk: Chunk) -> None:
        self._pop()
        self.num_passed_bytes += chunk.num_bytes
        self.num_passed_layers += chunk.index == 0

    def _pop(self) -> None:
        if self._again:
            self._again.popleft()
        else:
            self._next += 1


def _in_order(manifest: Manifest, is_whole: bool) -> Iterator[tuple[Shard, int]]:
    shards = sorted(manifest.shards, key=lambda shard: (shard.component, shard.block))
    levels = range(manifest.num_levels)
    if is_whole:
        return ((shard, level) for shard in shards for level in levels)
    return ((shard, level) for level in levels for shard in shards)


def _chunks(layer: Layer, start: int, lengths: Sequence[int]) -> list[Chunk]:
    chunks = []
    for index, length in enumerate(lengths):
        chunks.append(Chunk(*layer, index, start, start + length))
        start += length
    return chunks
