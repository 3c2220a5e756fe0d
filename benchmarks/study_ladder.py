"""One template's shards as the packager codes them, for studies that change one thing at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from study_material import Material

from sakura.codec import CodecProfile, EncodedShard, SakuraCodec
from sakura.pack.allocate import base_steps, coefficient_worth, component_shares, scale_at
from sakura.pack.describe import step_share
from sakura.pack.importance import rank_tokens
from sakura.pack.ladder import Ladder, coefficients, decoded_levels

Array = NDArray[Any]
Shards = dict[tuple[int, int], EncodedShard]
NUM_LEVELS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A template with everything but the scale settled.

    Args:
        one: the template, its tokens and state in importance order.
        ladder: steps of scale 1.
        coefs: (B, C, 2, N, H*Dh).
    """

    one: Material
    ladder: Ladder
    coefs: Array

    def at(self, scale: int, num_layers: int = NUM_LEVELS, level: int = 0) -> tuple[Ladder, Shards]:
        """Shards at a scale index; `level` divides the steps by three as often."""
        steps = base_steps(self.ladder.worth, scale_at(scale)) / 3**level
        ladder = dataclasses.replace(self.ladder, steps=steps)
        encode = ladder.codec.encode_shard
        shards = {p: encode(ladder.spec(*p), self.coefs[p], num_layers) for p in ladder.shards}
        return ladder, shards


def coded(
    one: Material, profile: CodecProfile, *, has_gains: bool = True, is_even: bool = False
) -> Coded:
    """A template under a profile.

    Args:
        one: the template, in canvas order.
        profile: the codec's.
        has_gains: whether tokens are weighted by the attention on them.
        is_even: whether all blocks and components have the same worth.
    """
    importance = rank_tokens(one.mass if has_gains else np.ones_like(one.mass))
    rows = importance.order
    state = np.ascontiguousarray(one.state[:, :, :, rows])
    ordered = dataclasses.replace(one, tokens=one.tokens[rows], state=state)
    shares = component_shares(profile.step_basis, step_share(profile))
    worth = coefficient_worth(profile.sensitivity, shares)
    worth = np.full_like(worth, worth.mean()) if is_even else worth
    ladder = Ladder(SakuraCodec(profile), profile, importance, worth, np.ones_like(worth))
    return Coded(ordered, ladder, coefficients(profile, state))


def points(made: Coded, scale: int) -> Iterator[tuple[int, float]]:
    """Bytes down to each level, and PSNR of the unseen edit there."""
    ladder, shards = made.at(scale)
    states = decoded_levels(ladder, shards)
    next(states)  # nothing decoded
    num_bytes = 0
    for level, state in enumerate(states):
        num_bytes += sum(len(shard.layers[level]) for shard in shards.values())
        yield num_bytes, made.one.psnr_db(state)


def one_shot_points(made: Coded, scale: int) -> Iterator[tuple[int, float]]:
    """The same with each level coded anew, without refinement."""
    for level in range(NUM_LEVELS):
        ladder, shards = made.at(scale, 1, level)
        *_, state = decoded_levels(ladder, shards)
        yield sum(len(s.layers[0]) for s in shards.values()), made.one.psnr_db(state)
