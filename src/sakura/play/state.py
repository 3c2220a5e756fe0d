"""What is decoded of a template's state, and a step's K and V made from it.

Keys are kept after RoPE and the profile's means are part of the components, so a step is one
weighted sum. Components are replaced whole: a reader sees the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sakura.codec import CodecProfile
from sakura.format import Shard
from sakura.models.base import BlockState

Array = NDArray[Any]

NOTHING = -1


class StateStore:
    """Components of every block.

    Args:
        profile: step bases and means.
        num_tokens: cached tokens N.
        num_components: C, at most the profile's steps.
        rotate: RoPE for keys (N, H, Dh) of the cached tokens.
    """

    def __init__(
        self,
        profile: CodecProfile,
        num_tokens: int,
        num_components: int,
        rotate: Callable[[Array], Array],
    ) -> None:
        num_blocks, _, num_heads, head_dim = profile.dims
        self._basis, self._rotate = profile.step_basis, rotate
        self.shape = (2, num_tokens, num_heads, head_dim)
        self.levels = np.full((num_blocks, num_components), NOTHING, np.intp)
        # Means in terms of components: mean[s] = sum over c of basis[s, c] means[c].
        self._means = np.einsum("bksc,bkshd->bckhd", profile.step_basis, profile.mean)
        self._parts = [
            [self._blank(block, component) for component in range(num_components)]
            for block in range(num_blocks)
        ]
        self._out = torch.empty(self.shape)

    def skip_empty(self, shards: Iterable[Shard]) -> None:
        """Shards whose first layers have no bytes stand at that level already: all is zero."""
        for shard in shards:
            lengths = [layer.num_bytes for layer in shard.layers]
            num_empty = next((n for n, length in enumerate(lengths) if length), len(lengths))
            self.levels[shard.block, shard.component] = num_empty - 1

    def publish(self, block: int, component: int, values_2NHD: Array, level: int) -> None:
        """Replace a component by its values (2, N, H, Dh) at a level; keys are before RoPE."""
        values = values_2NHD + self._means[block, component][:, None]
        values[0] = self._rotate(values[0])
        self._parts[block][component] = torch.from_numpy(values)
        self.levels[block, component] = level

    def block_state(self, step: int, block: int) -> BlockState:
        """K and V of a block at a step, from what is decoded now; valid until the next call."""
        parts = self._parts[block]
        for kv in range(2):
            out = self._out[kv].zero_()
            for weight, part in zip(self._basis[block, kv, step], parts, strict=False):
                if weight:
                    out.add_(part[kv], alpha=float(weight))
        return BlockState(self._out[0].numpy(), self._out[1].numpy(), rotated=True)

    def level_of(self, step: int, block: int) -> int:
        """Lowest level among the components that a block uses at a step; 0 where one is missing."""
        used = (self._basis[block, :, step, : self.levels.shape[1]] != 0).any(0)
        return int(max(0, self.levels[block][used].min(initial=np.iinfo(np.intp).max)))

    def _blank(self, block: int, component: int) -> torch.Tensor:
        """A component of which nothing is decoded: its mean."""
        mean = self._means[block, component][:, None]
        if not mean.any():
            return torch.zeros(1, 1, 1, 1).expand(self.shape)
        values = np.array(np.broadcast_to(mean, self.shape), np.float32)
        values[0] = self._rotate(values[0])
        return torch.from_numpy(values)
