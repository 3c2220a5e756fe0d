"""Forward hooks that read K, V and Q of every block while a mini run computes all tokens.

K and Q are read behind their norms and before RoPE, V behind its projection. Hooks sit on
submodules, are registered when the recorder is made and removed by `close`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from diffusers.models.embeddings import apply_rotary_emb

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
        self._seen: dict[str, torch.Tensor] = {}
        self._handles: list[Any] = []
        transformer = adapter.net.transformer
        for index, double in enumerate(transformer.transformer_blocks):
            self._watch_double(index, double)
        for index, single in enumerate(transformer.single_transformer_blocks):
            self._watch_single(geometry.num_double + index, single)

    def close(self) -> None:
        """Remove every hook."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def states(self) -> np.ndarray:
        """See `Recorder.states`."""
        return self._states

    def attention_mass(self) -> np.ndarray:
        """See `Recorder.attention_mass`; mean over the steps recorded."""
        return self._mass / self._adapter.schedule.num_steps

    def _keep(self, name: str) -> Any:
        def hook(_module: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            self._seen[name] = output

        return hook

    def _watch_double(self, index: int, block: torch.nn.Module) -> None:
        attn: Any = block.attn
        parts = {"q": "norm_q", "k": "norm_k", "v": "to_v"}
        parts |= {"q_text": "norm_added_q", "k_text": "norm_added_k"}
        for name, module in parts.items():
            handle = getattr(attn, module).register_forward_hook(self._keep(name))
            self._handles.append(handle)

        def done(_module: Any, _inputs: Any, _output: Any) -> None:
            seen = self._seen
            value = seen["v"].unflatten(-1, self._shape)
            query = torch.cat([seen["q_text"], seen["q"]], 1)
            key = torch.cat([seen["k_text"], seen["k"]], 1)
            self._store(index, query, key, value)

        self._handles.append(block.register_forward_hook(done))

    def _watch_single(self, index: int, block: torch.nn.Module) -> None:
        attn: Any = block.attn
        for name, module in {"q": "norm_q", "k": "norm_k", "qkv": "to_qkv_mlp_proj"}.items():
            handle = getattr(attn, module).register_forward_hook(self._keep(name))
            self._handles.append(handle)
        width = self._shape[0] * self._shape[1]

        def done(_module: Any, _inputs: Any, _output: Any) -> None:
            value = self._seen["qkv"][..., 2 * width : 3 * width].unflatten(-1, self._shape)
            self._store(index, self._seen["q"], self._seen["k"], value[:, NUM_TEXT:])

        self._handles.append(block.register_forward_hook(done))

    def _store(
        self, block: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> None:
        """Keep one block's state; query and key carry text tokens first, value the canvas only."""
        run = self._run
        assert len(run.tokens.canvas) == GRID * GRID, "cannot capture a step that drops tokens"
        self._states[block, 0, run.step] = key[0, NUM_TEXT:].numpy()
        self._states[block, 1, run.step] = value[0].numpy()
        rope = run.tokens.rope
        active = torch.from_numpy(run.active) + NUM_TEXT
        query = apply_rotary_emb(query, rope, sequence_dim=1)[0, active]
        key = apply_rotary_emb(key, rope, sequence_dim=1)[0]
        key = torch.cat([key, run.reference_keys(block)[0]])
        logits = torch.einsum("qhd,khd->hqk", query, key) / self._shape[1] ** 0.5
        weights = torch.softmax(logits, -1)[..., NUM_TEXT : NUM_TEXT + GRID * GRID]
        self._mass[block] += weights.pow(2).mean((0, 1)).numpy()
