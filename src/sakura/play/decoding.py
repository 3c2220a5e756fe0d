"""What is with the decoder, and how long it takes. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable

from sakura.format import Manifest
from sakura.play.messages import Command, Decode, ShardDecoded
from sakura.play.plan import Layer

DECODE_WEIGHT = 0.2


class Decoding:
    """Layers that are with the decoder.

    Attributes:
        num_decoded: layers that it has decoded.
        layer_s: its time for a layer, 0 where nothing is known.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.num_decoded, self.layer_s = 0, 0.0
        # Chunks of each layer that are with the decoder, and how many it needs.
        self._chunks: dict[Layer, set[int]] = {}
        self._num_chunks = {
            (shard.block, shard.component, level): len(layer.chunks)
            for shard in manifest.shards
            for level, layer in enumerate(shard.layers)
        }

    def note(self, commands: Iterable[Command]) -> None:
        """Chunks go to the decoder."""
        for command in commands:
            if isinstance(command, Decode):
                chunk = command.chunk
                self._chunks.setdefault(chunk.layer, set()).add(chunk.index)

    def refuse(self, layer: Layer, index: int) -> None:
        """It does not take a chunk."""
        self._chunks.get(layer, set()).discard(index)

    def finish(self, event: ShardDecoded, num_layers: int) -> None:
        """A shard rose by so many levels."""
        shard = event.block, event.component
        for layer in [layer for layer in self._chunks if layer[:2] == shard]:
            if layer[2] <= event.level:
                del self._chunks[layer]
        self.num_decoded += num_layers
        if num_layers and event.duration_s > 0:
            each_s = event.duration_s / num_layers
            old_s = self.layer_s or each_s
            self.layer_s = old_s + DECODE_WEIGHT * (each_s - old_s)

    def shards(self) -> list[tuple[int, int]]:
        """(block, component) of what it has."""
        return [layer[:2] for layer in self._chunks]

    def is_whole(self, layer: Layer, given_up: Container[tuple[int, int]]) -> bool:
        """Whether it has all of a layer, and may still decode it."""
        if layer[:2] in given_up or layer not in self._chunks:
            return False
        return len(self._chunks[layer]) == self._num_chunks[layer]
