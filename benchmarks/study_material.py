"""What a study of the codec needs of a template: its state, an unseen edit, what its queries do.

Records the attention calls of one edit on uncompressed state, so that the attention outputs which
another state would give can be computed without running the model. Needs the `train` extra.

Shape legend: A active tokens, M keys of active, text and reference tokens, N cached tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_model import unseen_pairs
from numpy.typing import NDArray

from sakura.models.base import BlockState, Request, Template
from sakura.models.mini import MiniAdapter
from sakura.models.mini_attention import Observer, rotate
from sakura.models.mini_net import NUM_TEXT
from sakura.pack.capture import capture
from sakura.pack.edits import Injection, run_injected
from sakura.pack.neutral import neutral_reference

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One block's attention at one step, keys after RoPE.

    Args:
        query: (A, H, D) of the active tokens.
        keys: (M, H, D) of every key that is no cached token's.
        values: (M, H, D).
    """

    query: Array
    keys: Array
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """One template with one edit.

    Args:
        adapter: the model.
        template: the public part.
        request: an edit by an unseen user.
        tokens: (N,) canvas index of each row of the state.
        state: (B, 2, S, N, H, D) uncompressed, in canvas order.
        mass: (B, N) squared attention weight, as the packager sees it.
        calls: (step, block) to attention call.
        expected: the edited pixels on uncompressed state, not rounded.
    """

    adapter: MiniAdapter
    template: Template
    request: Request
    tokens: Array
    state: Array
    mass: Array
    calls: dict[tuple[int, int], Call]
    expected: Array

    def edit(self, state: Array) -> Array:
        """The edited pixels with another state, range 1, not rounded."""
        return pixels(self, state)

    def psnr_db(self, state: Array) -> float:
        """PSNR of the edit with another state."""
        return float(-10 * np.log10(max(np.square(self.edit(state) - self.expected).mean(), 1e-12)))

    def rotated(self, keys: Array) -> Array:
        """Keys (N, H, D) after RoPE."""
        return self.adapter.rotate_keys(np.ascontiguousarray(keys), self.tokens)


def pixels(one: Any, state: Array) -> Array:
    """Run an edit to its end on a state; the pixels as they are before rounding."""
    injection = Injection(one.tokens, np.ascontiguousarray(state))
    return pixels_of(run_injected(one.adapter, one.template, one.request, injection))


def pixels_of(run: Any) -> Array:
    """The edited pixels of a run that is through, as they are before rounding."""
    return np.asarray(run._latent_BNP.numpy().astype(np.float64) / 2)


def prepare(adapter: MiniAdapter, template: Template, request: Request) -> Material:
    """Capture a template and record its edit."""
    made = capture(adapter, template, [neutral_reference("mean", template)])
    draft = Material(
        adapter, template, request, made.tokens, made.state, made.mass, {}, np.empty(0)
    )
    calls, expected = _recorded(draft)
    return dataclasses.replace(draft, calls=calls, expected=expected)


def _recorded(one: Material) -> tuple[dict[tuple[int, int], Call], Array]:
    adapter, state = one.adapter, np.ascontiguousarray(one.state)
    queries: dict[int, torch.Tensor] = {}
    for block, processor in enumerate(adapter.processors):
        processor.observer = _keep_query(queries, block)
    run: Any = adapter.prepare(one.template, one.request, one.tokens)
    calls = {}
    try:
        for step in range(adapter.schedule.num_steps):
            run.begin_step(step, active_only=True)
            for block in range(adapter.geometry.num_blocks):
                keys, values = state[block, :, step]
                run.run_block(block, BlockState(keys=keys, values=values))
                calls[step, block] = _call_of(run, block, queries[block], len(one.tokens))
            run.end_step()
    finally:
        for processor in adapter.processors:
            processor.observer = None
    return calls, pixels_of(run)


def _keep_query(queries: dict[int, torch.Tensor], block: int) -> Observer:
    def observe(query: torch.Tensor, _key: torch.Tensor, _value: torch.Tensor) -> None:
        queries[block] = query.clone()

    return observe


@torch.inference_mode()
def _call_of(run: Any, block: int, query: torch.Tensor, num_cached: int) -> Call:
    """A block's attention, from its buffer: reference, cached and own rows."""
    rope, buffer, first = run.tokens.rope, run._buffers[block], len(run.reference_keys(block))
    own = slice(first + num_cached, first + num_cached + len(rope))
    rotate(query, rope, query)
    keys, values = (torch.cat([rows[:first], rows[own]]) for rows in (buffer.keys, buffer.values))
    return Call(query[NUM_TEXT:].numpy(), keys.numpy(), values.numpy())


def weights_of(call: Call, keys: Array) -> Array:
    """Attention weights (H, A, N + M) of a call, cached tokens first; keys (N, H, D) after RoPE."""
    every = np.concatenate([keys, call.keys])
    logits = np.einsum("qhd,khd->hqk", call.query, every, optimize=True) / keys.shape[-1] ** 0.5
    logits -= logits.max(-1, keepdims=True)
    weights = np.exp(logits)
    return weights / weights.sum(-1, keepdims=True)


def output_of(call: Call, keys: Array, values: Array) -> Array:
    """Attention outputs (A, H, D) with keys and values (N, H, D) of the cached tokens."""
    weights = weights_of(call, keys)
    return np.einsum("hqk,khd->qhd", weights, np.concatenate([values, call.values]), optimize=True)


def projection(adapter: MiniAdapter, block: int) -> Array:
    """The block's output projection, (H, D, width)."""
    net, geometry = adapter.net.transformer, adapter.geometry
    if block < geometry.num_double:
        matrix = net.transformer_blocks[block].attn.to_out[0].weight
    else:
        matrix = net.single_transformer_blocks[block - geometry.num_double].attn.to_out.weight
    width = geometry.num_heads * geometry.head_dim
    return matrix[:, :width].numpy().T.reshape(geometry.num_heads, geometry.head_dim, -1)


def attention_snr_db(one: Material, state: Array, step_share: Array) -> float:
    """Signal to error of projected attention outputs, mean over blocks, steps by their share."""
    total = 0.0
    for (step, block), call in one.calls.items():
        out = projection(one.adapter, block)
        exact, found = (
            output_of(call, one.rotated(s[block, 0, step]), s[block, 1, step])
            for s in (one.state, state)
        )
        error = np.einsum("qhd,hdo->qo", found - exact, out, optimize=True)
        signal = np.einsum("qhd,hdo->qo", exact, out, optimize=True)
        total += step_share[step] * np.square(error).sum() / np.square(signal).sum()
    return float(-10 * np.log10(max(total / state.shape[0], 1e-12)))


def test_materials(adapter: MiniAdapter, count: int, pool: Path | None) -> list[Material]:
    """Unseen templates and users, the tasks in turn."""
    pairs = unseen_pairs(count, pool)
    return [
        prepare(adapter, pair.template, Request(pair.reference, seed=100 + i))
        for i, pair in enumerate(pairs)
    ]


def train_materials(
    adapter: MiniAdapter, edits: Iterator[tuple[Template, Request]]
) -> Sequence[Material]:
    """Templates and users of the training split."""
    return [prepare(adapter, template, request) for template, request in edits]
