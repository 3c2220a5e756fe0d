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
        self, place: tuple[int, int], encoded: EncodedShard, corrections: Array
    ) -> ShardData:
        """A shard with its predicted contributions to the edit's MSE.

        Args:
            place: block and component.
            encoded: its layers.
            corrections: measured over predicted MSE of this template's edits, with nothing decoded
                and at each level. A level is never said to be worse than those below it.
        """
        block, component = place
        errors = np.minimum.accumulate(corrections * self._errors(place, encoded))
        return ShardData(
            block=block,
            component=component,
            delta=self.spec(block, component).delta,
            energy=float(errors[0]),
            layers=tuple(
                LayerData(data, float(error))
                for data, error in zip(encoded.layers, errors[1:], strict=True)
            ),
        )

    def predicted_errors(self, shards: dict[tuple[int, int], EncodedShard]) -> Array:
        """The edit's MSE by the error model with nothing decoded and at each level."""
        return np.sum([self._errors(place, encoded) for place, encoded in shards.items()], axis=0)

    def _errors(self, place: tuple[int, int], encoded: EncodedShard) -> Array:
        """One shard's part of `predicted_errors`."""
        block, component = place
        weighted = [encoded.weighted_energy, *(stats.weighted for stats in encoded.stats)]
        return np.array(weighted) @ self.worth[block, :, component]


def coefficients(profile: CodecProfile, state: Array) -> Array:
    """(B, C, 2, N, H*Dh) of a state (B, 2, S, N, H, Dh)."""
    return np.stack([forward(profile, block, state[block]) for block in range(len(state))])


def state_of(profile: CodecProfile, coefs: Sequence[Sequence[Array]] | Array) -> Array:
    """Inverse of `coefficients`."""
    states = []
    for block, coded in enumerate(coefs):
        comps = np.stack([inverse_channels(profile, block, coef) for coef in coded])
        steps = [synthesise(profile, block, comps, step) for step in range(profile.dims[1])]
        states.append(np.stack(steps, axis=1))
    return np.stack(states)


def decoded_levels(ladder: Ladder, shards: dict[tuple[int, int], EncodedShard]) -> Iterator[Array]:
    """The state (B, 2, S, N, H, Dh) with nothing decoded, then at level 0, 1, ..., by real decoders
    from the layers' bytes."""
    decoders = {place: ladder.codec.decoder(ladder.spec(*place)) for place in shards}
    num_levels = len(next(iter(shards.values())).layers)
    num_blocks, _, num_components = ladder.steps.shape
    for level in range(-1, num_levels):
        if level >= 0:
            for place, decoder in decoders.items():
                decoder.feed_layer(level, shards[place].layers[level], complete=True)
        coded = [
            [decoders[block, component].coefficients() for component in range(num_components)]
            for block in range(num_blocks)
        ]
        yield state_of(ladder.profile, coded)
