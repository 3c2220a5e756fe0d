"""What injecting costs in fidelity, and whether it, computing or a short wait is best. Pure.

The error model is in docs/decisions/0003-never-wait.md: a shard's predicted share of the edit's
mean squared error is spread over the steps, a step may be injected while the sum over all steps
stays inside the budget, and of several steps the cheapest go first.

Dimensions: S steps, B blocks, C components, L levels; level -1 means nothing decoded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sakura.format import Manifest

Array = NDArray[Any]
Action = Literal["inject", "compute", "wait"]
Layer = tuple[int, int, int]
"""(block, component, level)"""

NOTHING = -1
SAFETY = 1.5
"""A wait is begun only if it pays even when it takes this many times longer than predicted."""
MIN_SAVING_S = 0.0005
MOST_LOSS = 0.02
"""Part of the edit's time on the device that a wait in vain may cost."""
MARGIN = 0.03
"""Part of the rest of an edit by which a deadline is met early."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a block, and why. A wait ends after `timeout_s` at the latest."""

    action: Action
    reason: str
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ErrorModel:
    """Predicted error of an edit, as mean squared error of the edited pixels (range 1).

    Args:
        share_SBC: part of a shard's error that a step brings about; sums to 1 over the steps.
        distortion_BCL: error of a whole edit with the shard at level l - 1; index 0 is nothing.
        budget: what the floor allows for all steps together.
    """

    share_SBC: Array
    distortion_BCL: Array
    budget: float

    def block_costs(self, step: int, levels_BC: Array) -> Array:
        """Predicted error (B,) of injecting each block at one step."""
        index = (levels_BC + 1)[..., None]
        distortion = np.take_along_axis(self.distortion_BCL, index, -1)[..., 0]
        costs: Array = (self.share_SBC[step] * distortion).sum(-1)
        return costs

    def gains(self, layers: Sequence[Layer]) -> Array:
        """Predicted error (S, len(layers)) that each layer takes away, given those before it."""
        block, component, level = np.array(layers, np.intp).reshape(-1, 3).T
        before = self.distortion_BCL[block, component, level]
        after = self.distortion_BCL[block, component, level + 1]
        gains: Array = self.share_SBC[:, block, component] * np.maximum(before - after, 0)
        return gains


def budget_of(floor_db: float) -> float:
    """Mean squared error at a PSNR of `floor_db`, for pixels of range 1."""
    return 10.0 ** (-floor_db / 10)


def error_model(manifest: Manifest, step_basis: Array, floor_db: float) -> ErrorModel:
    """The error model of a bundle.

    Args:
        manifest: distortions and, in `codec.parameters`, the weight of each step (`step_share`).
        step_basis: (B, 2, S, C) from the codec profile: how much of a component is in each step.
        floor_db: PSNR that the edit should keep against uncompressed state.
    """
    num_steps, num_blocks = manifest.schedule.num_steps, manifest.geometry.num_blocks
    given = manifest.codec.parameters.get("step_share")
    weight_S = np.full(num_steps, 1 / num_steps)
    if isinstance(given, list) and len(given) == num_steps:
        weight_S = np.maximum(np.asarray(given, np.float64), 0)
    mixing_BSC = np.square(step_basis.astype(np.float64)).mean(1)[:, :num_steps]
    share = (weight_S[:, None, None] * mixing_BSC.transpose(1, 0, 2))[
        :, :, : manifest.num_components
    ]
    total = share.sum(0)
    even = np.full_like(share, 1 / num_steps)
    share = np.where(total > 0, share / np.where(total > 0, total, 1), even)
    shape = (num_blocks, manifest.num_components, manifest.num_levels + 1)
    distortion = np.empty(shape)
    for shard in manifest.shards:
        distortion[shard.block, shard.component] = [
            shard.energy,
            *(layer.distortion for layer in shard.layers),
        ]
    return ErrorModel(share, distortion, budget_of(floor_db))


def fits(cost: float, gain: float, later_costs: Iterable[float], budget: float) -> bool:
    """Whether injecting now leaves room for every later step that is a better use of the budget.

    Greedy solution of the fractional knapsack: cheapest error per step saved goes first.

    Args:
        cost: predicted error of injecting the rest of this step.
        gain: part of the step that this saves, 0 to 1.
        later_costs: predicted error of injecting each later step whole.
        budget: error that is left to spend.
    """
    density = cost / gain
    better = sum(later for later in later_costs if later < density)
    return cost + better <= budget


@dataclass(frozen=True, slots=True)
class Haste:
    """What a deadline asks for.

    Args:
        left_s: seconds until the deadline.
        rest_s: seconds until the edit is done if all that is left is computed.
        step_saving_s: what injecting a whole step saves; 0 where that is not known yet.
    """

    left_s: float
    rest_s: float
    step_saving_s: float

    @property
    def missing_s(self) -> float:
        """Seconds that injecting must still save, with a margin."""
        return self.rest_s * (1 + MARGIN) - self.left_s


def is_in_time(haste: Haste, density: float, later_costs: Iterable[float], budget: float) -> bool:
    """Whether later steps that are cheaper can save all the time that is missing.

    Args:
        haste: the deadline.
        density: predicted error, per part of a step saved, of injecting now.
        later_costs: predicted error of injecting each later step whole.
        budget: error that is left to spend.
    """
    missing_s, spent = haste.missing_s, 0.0
    for cost in sorted(later for later in later_costs if later < density):
        spent += cost
        if missing_s <= 0 or spent > budget:
            break
        missing_s -= haste.step_saving_s
    return missing_s <= 0


@dataclass(frozen=True, slots=True)
class Wait:
    """What is known about waiting before a block.

    Args:
        arrival_s: predicted seconds until the missing layers are decoded.
        full_s: duration of the block with all tokens.
        active_s: duration of the block with the active tokens alone.
        num_blocks: blocks of this step that are left, this one included.
        most_s: what may be lost if it is in vain.
    """

    arrival_s: float
    full_s: float
    active_s: float
    num_blocks: int
    most_s: float = math.inf

    @property
    def saving_s(self) -> float:
        """What computing all tokens costs more, in the blocks that would run until the arrival."""
        if not (self.full_s > 0 and math.isfinite(self.arrival_s)):
            return 0.0
        num_lost = min(self.num_blocks, max(1, math.ceil(self.arrival_s / self.full_s)))
        return num_lost * (self.full_s - self.active_s)

    @property
    def pays(self) -> bool:
        """Whether waiting is sooner done than computing, with a margin, and little can be lost."""
        if self.saving_s < MIN_SAVING_S:
            return False
        return SAFETY * self.arrival_s + MIN_SAVING_S < min(self.saving_s, self.most_s)

    @property
    def timeout_s(self) -> float:
        """When it ends, whatever comes."""
        return min(self.saving_s, self.most_s)
