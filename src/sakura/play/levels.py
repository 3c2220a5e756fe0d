"""Up to which level each shard is fetched, where the policy chooses one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.format import Manifest
from sakura.play.plan import ErrorModel
from sakura.play.policy import Offer, Policy
from sakura.play.ranges import Chunk

Array = NDArray[Any]
Key = tuple[int, int]
"""(block, component)"""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the run goes; see `Offer`."""

    rate_bps: float | None
    buffer_s: float
    play_s: float | None


class LevelChooser:
    """Asks the policy once for every shard, when its first byte could be asked for.

    Args:
        policy: who chooses, if it does.
        manifest: sizes.
        model: what levels cost.
        shards: those of which something is to be fetched.
    """

    def __init__(
        self, policy: Policy, manifest: Manifest, model: ErrorModel, shards: Iterable[Key]
    ) -> None:
        self._policy, self._shards = policy, frozenset(shards)
        self._chosen: dict[Key, int] = {}
        if policy.chooses_levels:
            self._floor_level = floor_level(model)
            ordered = sorted(manifest.shards, key=lambda shard: (shard.component, shard.block))
            sizes = [np.cumsum([layer.num_bytes for layer in shard.layers]) for shard in ordered]
            rests = np.cumsum(sizes[::-1], 0)[::-1]
            keys = [(shard.block, shard.component) for shard in ordered]
            self._bytes = {
                key: (tuple(size.tolist()), tuple(rest.tolist()))
                for key, size, rest in zip(keys, sizes, rests, strict=True)
            }

    def takes(self, chunk: Chunk, pace: Callable[[], Pace]) -> bool:
        """Whether a chunk is to be fetched."""
        if not self._policy.chooses_levels:
            return True
        key = chunk.block, chunk.component
        if key not in self._chosen:
            now, (level_bytes, rest_bytes) = pace(), self._bytes[key]
            self._chosen[key] = self._policy.choose_level(
                Offer(
                    level_bytes=level_bytes,
                    rest_bytes=rest_bytes,
                    floor_level=self._floor_level,
                    rate_bps=now.rate_bps,
                    buffer_s=now.buffer_s,
                    play_s=now.play_s,
                )
            )
        return chunk.level <= self._chosen[key]

    def is_ready(self, block: int, components: Iterable[int], levels_BC: Array) -> bool:
        """Whether these components of a block are decoded as chosen."""
        for component in components:
            key = block, component
            chosen = self._chosen.get(key)
            if chosen is None and key in self._shards:
                return False
            if chosen is not None and levels_BC[key] < chosen:
                return False
        return True


def floor_level(model: ErrorModel) -> int:
    """The lowest level that keeps the floor where every block of every step is injected at it."""
    share_BC = model.share_SBC.sum(0)
    num_levels = model.distortion_BCL.shape[-1] - 1
    for level in range(num_levels):
        if (share_BC * model.distortion_BCL[..., level + 1]).sum() <= model.budget:
            return level
    return num_levels - 1
