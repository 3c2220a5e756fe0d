"""What is decoded of a template's state, and a step's K and V made from it.

Keys are kept after RoPE and the profile's means are part of the components, so a step is one
matrix-vector product per K and V. Components are replaced whole: a reader sees the old one or the
new one.
"""

from __future__ import annotations

import threading
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
MOST = 1 << 30
"""More than any level."""


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
        self._rotate = rotate
        basis = profile.step_basis[..., :num_components]  # (B, 2, S, C)
        self._weights = torch.from_numpy(basis.copy())
        self._used = (basis != 0).any(1)  # (B, S, C)
        self._shape = num_tokens, num_heads, head_dim
        self.levels = np.full((num_blocks, num_components), NOTHING, np.intp)
        # Means in terms of components: mean[s] = sum over c of basis[s, c] means[c].
        back = profile.step_analysis[:, :, :num_components]
        self._means = np.einsum("bkcs,bkshd->bckhd", back, profile.mean)
        self._locks = [threading.Lock() for _ in range(num_blocks)]
        # (2, C, N * H * Dh) of each block; nothing decoded is the mean.
        num_values = num_tokens * num_heads * head_dim
        self._parts = [torch.zeros(2, num_components, num_values) for _ in range(num_blocks)]
        self._out = torch.empty(2, num_values)
        for block, component in np.argwhere(self._means.any((2, 3, 4))).tolist():
            self._write(block, component, np.zeros((2, *self._shape), np.float32))

    def skip_empty(self, shards: Iterable[Shard]) -> None:
        """Shards whose first layers have no bytes stand at that level already: all is zero."""
        for shard in shards:
            lengths = [layer.num_bytes for layer in shard.layers]
            num_empty = next((n for n, length in enumerate(lengths) if length), len(lengths))
            self.levels[shard.block, shard.component] = num_empty - 1

    def publish(self, block: int, component: int, values_2NHD: Array, level: int) -> None:
        """Replace a component by its values (2, N, H, Dh) at a level; keys are before RoPE."""
        self._write(block, component, values_2NHD)
        self.levels[block, component] = level

    def block_state(self, step: int, block: int) -> BlockState:
        """K and V of a block at a step, from what is decoded now; valid until the next call."""
        parts, (used,) = self._parts[block], np.nonzero(self._used[block, step])
        with self._locks[block]:
            for kv in range(2):
                out, weights = self._out[kv], self._weights[block, kv, step]
                if len(used) == 1:
                    torch.mul(parts[kv, used[0]], weights[used[0]], out=out)
                else:
                    torch.mv(parts[kv].T, weights, out=out)
        keys, values = self._out.view(2, *self._shape).numpy()
        return BlockState(keys, values, rotated=True)

    def level_of(self, step: int, block: int) -> int:
        """Lowest level among the components that a block uses at a step; 0 where one is missing."""
        return max(0, int(self.levels[block][self._used[block, step]].min(initial=MOST)))

    def _write(self, block: int, component: int, values_2NHD: Array) -> None:
        values = values_2NHD + self._means[block, component][:, None]
        values[0] = self._rotate(values[0])
        rows = torch.from_numpy(values.reshape(2, -1))
        with self._locks[block]:
            self._parts[block][:, component] = rows
