"""What is decoded of a template's state, and a step's K and V made from it.

Keys are kept after RoPE, so a step is the profile's mean plus a weighted sum of the components that
carry data. Components are replaced whole: a reader sees the old one or the new one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sakura.codec import CodecProfile
from sakura.format import Shard
from sakura.models.base import BlockState
from sakura.play.ledger import free_level

Array = NDArray[Any]

NOTHING = -1
MOST = 1 << 30
"""More than any level."""
MOST_MEAN_BYTES = 1 << 26
"""Mean keys after RoPE are kept up to this size, and made anew for every block beyond it."""


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
        num_blocks, num_steps, num_heads, head_dim = profile.dims
        self._rotate = rotate
        basis = profile.step_basis[..., :num_components]  # (B, 2, S, C)
        self._weights = torch.from_numpy(basis.copy())
        self._used = (basis != 0).any(1)  # (B, S, C)
        shape = num_tokens, num_heads, head_dim
        self.levels = np.full((num_blocks, num_components), NOTHING, np.intp)
        self._has_data = np.zeros((num_blocks, num_components), bool)
        self._means, self._shape = torch.from_numpy(profile.mean.copy()), shape
        num_bytes = profile.mean[:, 0, ..., :1, :1].size * 4 * math.prod(shape)
        self._mean_keys: dict[tuple[int, int], torch.Tensor] = {}
        if num_bytes <= MOST_MEAN_BYTES:
            places = np.ndindex(num_blocks, num_steps)
            self._mean_keys = {place: self._mean_key(*place) for place in places}
        self._locks = [threading.Lock() for _ in range(num_blocks)]
        self._parts = [torch.zeros(2, num_components, *shape) for _ in range(num_blocks)]

    def skip_empty(self, shards: Iterable[Shard]) -> None:
        """Shards whose first layers have no bytes stand at that level already: all is zero."""
        for shard in shards:
            self.levels[shard.block, shard.component] = free_level(shard)

    def publish(self, block: int, component: int, values_2NHD: Array, level: int) -> None:
        """Replace a component by its values (2, N, H, Dh) at a level; keys are before RoPE."""
        has_data = bool(values_2NHD.any())
        if has_data or self._has_data[block, component]:
            keys = torch.from_numpy(self._rotate(values_2NHD[0]))
            values = torch.from_numpy(values_2NHD[1])
            with self._locks[block]:
                self._parts[block][0, component] = keys
                self._parts[block][1, component] = values
                self._has_data[block, component] = has_data
        self.levels[block, component] = level

    def block_state(self, step: int, block: int, out: BlockState) -> BlockState:
        """K and V of a block at a step from what is decoded now, written to the arrays of `out`."""
        with self._locks[block]:
            (live,) = np.nonzero(self._used[block, step] & self._has_data[block])
            for kv, array in enumerate((out.keys, out.values)):
                rows = torch.from_numpy(array).view(-1)
                parts, weights = self._parts[block][kv], self._weights[block, kv, step]
                if len(live) > 1:
                    run = slice(int(live[0]), int(live[-1]) + 1)
                    torch.mv(parts[run].flatten(1).T, weights[run], out=rows)
                elif len(live):
                    torch.mul(parts[live[0]].flatten(), weights[live[0]], out=rows)
                else:
                    rows.zero_()
            mean_key = self._mean_keys.get((block, step))
            torch.from_numpy(out.keys).add_(
                self._mean_key(block, step) if mean_key is None else mean_key
            )
            torch.from_numpy(out.values).add_(self._means[block, 1, step])
        return BlockState(out.keys, out.values, rotated=True)

    def level_of(self, step: int, block: int) -> int:
        """Lowest level among the components that a block uses at a step; 0 where one is missing."""
        return max(0, int(self.levels[block][self._used[block, step]].min(initial=MOST)))

    def _mean_key(self, block: int, step: int) -> torch.Tensor:
        """Mean K after RoPE of all tokens, (N, H, Dh)."""
        mean_NHD = np.broadcast_to(self._means[block, 0, step].numpy(), self._shape)
        return torch.from_numpy(self._rotate(np.ascontiguousarray(mean_NHD)))
