"""What is decoded, and what injecting would cost now: kept up to date, so that asking is cheap.

Pure. A shard's levels only rise. Costs are those of the error model in plan.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.format import Shard
from sakura.play.plan import NOTHING, ErrorModel

Array = NDArray[Any]


class Ledger:
    """Levels of all shards (B, C) and what follows from them for every (step, block)."""

    def __init__(self, model: ErrorModel, levels_BC: Array) -> None:
        self._model = model
        self.levels = levels_BC.copy()
        steps = range(len(model.share_SBC))
        self._costs_SB = np.stack([model.block_costs(step, levels_BC) for step in steps])
        self._needed_SBC = model.share_SBC > 0
        is_there = self._needed_SBC & (levels_BC > NOTHING)
        self._num_there_SB = is_there.sum(-1)
        # The component that costs most while nothing is decoded: without it there is no state.
        self._main_SB = (model.share_SBC * model.distortion_BCL[..., 0]).argmax(-1)
        has_main_SB = np.take_along_axis(is_there, self._main_SB[..., None], -1)[..., 0]
        # Asked before every block: bytes answer ten times sooner than arrays.
        self._has_main = [bytearray(row) for row in has_main_SB.astype(np.uint8)]
        self._num_needed_SB = self._needed_SBC.sum(-1)

    def raise_level(self, block: int, component: int, level: int) -> int:
        """A shard is decoded up to a level; returns how many levels it rose."""
        before = int(self.levels[block, component])
        if level <= before:
            return 0
        self.levels[block, component] = level
        distortion = self._model.distortion_BCL[block, component]
        fall = distortion[before + 1] - distortion[level + 1]
        self._costs_SB[:, block] -= self._model.share_SBC[:, block, component] * fall
        if before == NOTHING:
            self._num_there_SB[:, block] += self._needed_SBC[:, block, component]
            for step in np.flatnonzero(self._main_SB[:, block] == component):
                self._has_main[step][block] = True
        return level - before

    def cost(self, step: int, block: int) -> float:
        """Predicted error of injecting one block at a step."""
        return max(0.0, float(self._costs_SB[step, block]))

    def rest_cost(self, step: int, block: int) -> float:
        """Predicted error of injecting a step from a block on."""
        return max(0.0, float(self._costs_SB[step, block:].sum()))

    def needed(self, step: int, block: int) -> list[int]:
        """Components that matter in a block at a step."""
        return [int(component) for component in np.flatnonzero(self._needed_SBC[step, block])]

    def is_complete(self, step: int, block: int) -> bool:
        """Whether every component that matters in a block at a step is decoded."""
        return bool(self._num_there_SB[step, block] == self._num_needed_SB[step, block])

    def has_state(self, step: int, block: int) -> bool:
        """Whether the main component of a block, and of each later one of the step, is decoded."""
        return 0 not in self._has_main[step][block:]

    def missing_main(self, step: int, block: int) -> list[tuple[int, int]]:
        """(block, main component) of the blocks from `block` on that lack it."""
        has_main = self._has_main[step]
        bare = (b for b in range(block, len(has_main)) if not has_main[b])
        return [(b, int(self._main_SB[step, b])) for b in bare]

    def missing(self, step: int, block: int) -> list[int]:
        """Components that matter in a block at a step and are not decoded."""
        levels = self.levels[block]
        return [c for c in self.needed(step, block) if levels[c] == NOTHING]


def free_level(shard: Shard) -> int:
    """The level at which a shard stands before any byte of it came: its first layers with bytes
    are what is missing; what has no bytes is all zero.
    """
    lengths = [layer.num_bytes for layer in shard.layers]
    return next((n for n, length in enumerate(lengths) if length), len(lengths)) - 1
