"""Reads K, V and Q of every block while a mini run computes all tokens.

K and Q are read behind their norms and before RoPE, V behind its projection, as the attention
processors show them to an observer. Observers are set when the recorder is made and taken away by
`close`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from sakura.models.mini_attention import Observer, rotate
from sakura.models.mini_net import GRID, NUM_TEXT

if TYPE_CHECKING:
    from sakura.models.mini import MiniAdapter
    from sakura.models.mini_run import MiniRun


class MiniRecorder:
    """See `models.base.Recorder`. Asserts when a step drops cached tokens."""

    def __init__(self, adapter: MiniAdapter, run: MiniRun) -> None:
        self._adapter, self._run = adapter, run
        geometry = adapter.geometry
        self._shape = (geometry.num_heads, geometry.head_dim)
        num_tokens = GRID * GRID
        self._states = np.zeros(
            (geometry.num_blocks, 2, adapter.schedule.num_steps, num_tokens, *self._shape),
            np.float32,
        )
        self._mass = np.zeros((geometry.num_blocks, num_tokens))
        for block, processor in enumerate(adapter.processors):
            processor.observer = self._observer(block)

    def close(self) -> None:
        """Take every observer away."""
        for processor in self._adapter.processors:
            processor.observer = None

    def states(self) -> np.ndarray:
        """See `Recorder.states`."""
        return self._states

    def attention_mass(self) -> np.ndarray:
        """See `Recorder.attention_mass`; mean over the steps recorded."""
        return self._mass / self._adapter.schedule.num_steps

    def _observer(self, block: int) -> Observer:
        def observe(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
            self._store(block, query, key, value)

        return observe

    def _store(
        self, block: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Keep one block's state; all three carry text tokens first."""
        run = self._run
        assert len(run.canvas) == GRID * GRID, "cannot capture a step that drops tokens"
        self._states[block, 0, run.step] = key[NUM_TEXT:].numpy()
        self._states[block, 1, run.step] = value[NUM_TEXT:].numpy()
        query, key = query.clone(), key.clone()
        for rows in (query, key):
            rotate(rows, run.tokens.rope, rows)
        query = query[torch.from_numpy(run.active) + NUM_TEXT]
        key = torch.cat([key, run.reference_keys(block)])
        logits = torch.einsum("qhd,khd->hqk", query, key) / self._shape[1] ** 0.5
        weights = torch.softmax(logits, -1)[..., NUM_TEXT : NUM_TEXT + GRID * GRID]
        self._mass[block] += weights.pow(2).mean((0, 1)).numpy()
