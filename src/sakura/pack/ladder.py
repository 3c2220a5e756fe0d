"""Shards as layers, what each layer is worth, and the state that a level decodes to.

Works on one template's coefficients with any codec. Knows neither model nor bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import (
    Codec,
    CodecProfile,
    EncodedShard,
    ShardSpec,
    forward,
    inverse_channels,
    synthesise,
)
from sakura.format import LayerData, ShardData
from sakura.pack.importance import Importance

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """How one template's shards are coded.

    Args:
        codec: encoder and decoder.
        profile: the codec's.
        importance: order, tiles and gains of the tokens.
        worth: (B, 2, C), see `allocate`.
        steps: (B, 2, C) base steps.
    """

    codec: Codec
    profile: CodecProfile
    importance: Importance
    worth: Array
    steps: Array

    @property
    def shards(self) -> Iterator[tuple[int, int]]:
        """(block, component) of every shard, in the order of the data."""
        num_blocks, _, num_components = self.steps.shape
        return ((b, c) for c in range(num_components) for b in range(num_blocks))

    def spec(self, block: int, component: int) -> ShardSpec:
        """What a shard's streams mean."""
        delta_k, delta_v = self.steps[block, :, component].tolist()
        return ShardSpec(block, component, (delta_k, delta_v), self.importance.tiles(block))

    def shard_data(
        self, place: tuple[int, int], encoded: EncodedShard, correction: float
    ) -> ShardData:
        """A shard with its predicted contributions to the edit's MSE.

        Args:
            place: block and component.
            encoded: its layers.
            correction: measured over predicted MSE of this template's edits.
        """
        block, component = place
        worth = correction * self.worth[block, :, component]
        layers = zip(encoded.layers, encoded.stats, strict=True)
        return ShardData(
            block=block,
            component=component,
            delta=self.spec(block, component).delta,
            energy=float(worth @ encoded.weighted_energy),
            layers=tuple(LayerData(data, float(worth @ s.weighted)) for data, s in layers),
        )

    def predicted_mse(self, shards: dict[tuple[int, int], EncodedShard], level: int) -> float:
        """The edit's MSE at a level by the error model, not corrected."""
        return sum(
            float(self.worth[b, :, c] @ shards[b, c].stats[level].weighted) for b, c in shards
        )


def coefficients(profile: CodecProfile, state: Array) -> Array:
    """(B, C, 2, N, H*Dh) of a state (B, 2, S, N, H, Dh)."""
    return np.stack([forward(profile, block, state[block]) for block in range(len(state))])


def decoded_levels(ladder: Ladder, shards: dict[tuple[int, int], EncodedShard]) -> Iterator[Array]:
    """The state (B, 2, S, N, H, Dh) at level 0, 1, ..., by real decoders from the layers' bytes."""
    decoders = {place: ladder.codec.decoder(ladder.spec(*place)) for place in shards}
    num_levels = len(next(iter(shards.values())).layers)
    num_components = ladder.steps.shape[2]
    for level in range(num_levels):
        for place, decoder in decoders.items():
            decoder.feed_layer(level, shards[place].layers[level], complete=True)
        states = []
        for block in range(ladder.steps.shape[0]):
            coded = (decoders[block, c].coefficients() for c in range(num_components))
            states.append(_block_state(ladder.profile, block, list(coded)))
        yield np.stack(states)


def _block_state(profile: CodecProfile, block: int, coded: Sequence[Array]) -> Array:
    """(2, S, N, H, Dh) of one block from its components' coefficients."""
    comps = np.stack([inverse_channels(profile, block, coef) for coef in coded])
    steps = [synthesise(profile, block, comps, step) for step in range(profile.dims[1])]
    return np.stack(steps, axis=1)
