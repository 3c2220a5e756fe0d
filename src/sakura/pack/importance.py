"""What the active tokens will do with each cached token, as an order, tiles and gains. Pure.

An error in a token's state reaches the edit through the attention weights on it, so its worth is
the squared weight and its precision goes with the root of that (reverse water-filling; Cover and
Thomas, "Elements of Information Theory", 10.3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import TilePlan

Array = NDArray[Any]

TILE_TOKENS = 64
LOWEST, HIGHEST = 1 / 3, 3.0
"""Bounds of a weight: one capture's attention says little about a token that it hardly saw."""
GAINS_PER_OCTAVE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """Tiles and precision of the cached tokens.

    Args:
        order: (N,) rows of the capture, tile by tile, the most important tile first; rising within.
        widths: tokens of each tile.
        gains: per block, the gain of each tile in quarter octaves.
    """

    order: Array
    widths: tuple[int, ...]
    gains: tuple[tuple[int, ...], ...]

    def tiles(self, block: int) -> TilePlan:
        """The tiles of one block's shards."""
        return TilePlan(self.widths, self.gains[block])

    @property
    def precision(self) -> Array:
        """(B, N) factor by which each token's step is finer, in that order."""
        return np.repeat(2.0 ** (np.array(self.gains) / GAINS_PER_OCTAVE), self.widths, axis=1)


def rank_tokens(mass: Array, tile_tokens: int = TILE_TOKENS) -> Importance:
    """Order tokens by their mean weight over the blocks, and give each block's tiles their gain.

    Args:
        mass: (B, N) mean squared attention weight of each cached token.
        tile_tokens: most tokens in a tile, 1..64; tiles are equal to within one token.
    """
    weights = token_weights(mass)
    widths = even_widths(mass.shape[1], tile_tokens)
    starts = np.cumsum((0, *widths[:-1]))
    ranked = np.argsort(-weights.mean(0), kind="stable")
    order = np.concatenate([np.sort(tile) for tile in np.split(ranked, starts[1:])])
    square = np.add.reduceat(np.square(weights[:, order]), starts, axis=1) / widths
    gains = np.rint(GAINS_PER_OCTAVE * np.log2(square) / 2).astype(int)
    return Importance(order, widths, tuple(tuple(row) for row in gains.tolist()))


def token_weights(mass: Array) -> Array:
    """(B, N) weights from the attention mass: its root relative to the block's mean, bounded."""
    mean = mass.mean(1, keepdims=True)
    relative = np.divide(mass, mean, out=np.ones_like(mass, float), where=mean > 0)
    return np.clip(np.sqrt(relative), LOWEST, HIGHEST)


def even_widths(num_tokens: int, most: int) -> tuple[int, ...]:
    """The fewest tiles of at most `most` tokens, wider ones first."""
    count = -(-num_tokens // most)
    small, wider = divmod(num_tokens, count)
    return (small + 1,) * wider + (small,) * (count - wider)
