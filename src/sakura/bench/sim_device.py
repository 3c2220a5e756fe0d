"""A device under a simulated clock: how long blocks take, and a run that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.sim_clock import SimClock
from sakura.errors import InputError
from sakura.format import Manifest
from sakura.models.base import BlockState
from sakura.play.deadlines import Mode
from sakura.play.ledger import free_level

Array = NDArray[Any]
NO_STATE = BlockState(np.empty(0), np.empty(0))
FIXED_SHARE = 0.4
"""Part of a block that does not depend on the active tokens: in the mini model the tokens of text
and reference picture, which are always computed, and calls (see `benchmarks/bench_latency.py`)."""


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """How long things take.

    Args:
        compute_s: of each block, with all tokens.
        inject_s: of each block, with the active ones.
        shard_s: of decoding a shard, whatever its size.
        byte_s: of decoding a byte.
    """

    compute_s: tuple[float, ...]
    inject_s: tuple[float, ...]
    shard_s: float = 0.0
    byte_s: float = 0.0

    def __post_init__(self) -> None:
        times = (*self.compute_s, *self.inject_s)
        if len(self.compute_s) != len(self.inject_s) or not all(t > 0 for t in times):
            raise InputError("every block takes time, with all tokens and with the active ones")

    @classmethod
    def of_step(cls, step_s: float, num_blocks: int, mask_ratio: float) -> DeviceModel:
        """A device that takes `step_s` for a step with all tokens.

        Args:
            step_s: seconds.
            num_blocks: blocks of a step; they are alike.
            mask_ratio: share of the tokens that are active.
        """
        block_s = step_s / num_blocks
        active_s = block_s * (FIXED_SHARE + (1 - FIXED_SHARE) * mask_ratio)
        return cls((block_s,) * num_blocks, (active_s,) * num_blocks)

    def block_s(self, block: int, mode: Mode) -> float:
        """Of one block."""
        return self.inject_s[block] if mode == "inject" else self.compute_s[block]

    def edit_s(self, num_steps: int) -> float:
        """Of an edit that is computed."""
        return num_steps * sum(self.compute_s)


class SimRun:
    """Takes the time of a run and makes no picture."""

    def __init__(self, clock: SimClock, device: DeviceModel) -> None:
        self._clock, self._device = clock, device

    def begin_step(self, step: int, *, active_only: bool) -> None:
        """See `Run.begin_step`."""

    def slot(self, block: int) -> BlockState:
        """See `Run.slot`."""
        return NO_STATE

    def run_block(self, block: int, state: BlockState | None) -> None:
        """See `Run.run_block`."""
        mode: Mode = "compute" if state is None else "inject"
        self._clock.pass_until(self._clock.now_s + self._device.block_s(block, mode))

    def end_step(self) -> None:
        """See `Run.end_step`."""

    def rotate_keys(self, keys: Array) -> Array:
        """See `Run.rotate_keys`."""
        return keys

    def image(self) -> Array:
        """See `Run.image`."""
        return np.empty((0, 0, 3), np.uint8)


class SimStore:
    """Knows levels and holds no state.

    Args:
        manifest: shards.
        step_basis: (B, 2, S, C), see `CodecProfile`.
    """

    def __init__(self, manifest: Manifest, step_basis: Array) -> None:
        shape = manifest.geometry.num_blocks, manifest.num_components
        self.levels = np.full(shape, -1, np.intp)
        for shard in manifest.shards:
            self.levels[shard.block, shard.component] = free_level(shard)
        self._used = (step_basis[..., : manifest.num_components] != 0).any(1)

    def block_state(self, step: int, block: int, out: BlockState) -> BlockState:
        """See `StateSource.block_state`."""
        return out

    def level_of(self, step: int, block: int) -> int:
        """See `StateSource.level_of`."""
        return max(0, int(self.levels[block][self._used[block, step]].min(initial=1 << 30)))
