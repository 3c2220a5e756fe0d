"""One edit of the mini model, block by block, through diffusers' blocks.

Reference K/V are extracted once a request by a pass over the reference alone (exact: reference
tokens attend only to themselves). A step then runs [text | canvas] tokens, which attend to the
reference, to injected template state and to themselves.

Shape legend: B batch (1), L text tokens, N canvas tokens, R reference tokens, H heads, D head_dim,
P values of a patch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch

from sakura.models.base import BlockState, Request, Template
from sakura.models.mini_attention import KVBuffer, KVPlace, rotate
from sakura.models.mini_inputs import (
    check_seed,
    fit_reference,
    image_tokens,
    placement_of,
    prompt_index,
)
from sakura.models.mini_net import (
    GRID,
    NUM_TEXT,
    PATCH_DIM,
    TEXT_DIM,
    reference_ids,
    unpatchify,
)
from sakura.models.noise import gaussian, gaussian_rows

if TYPE_CHECKING:
    from sakura.models.mini import MiniAdapter, Modulation

TEMPLATE_STREAM, REQUEST_STREAM = 1, 2
NUM_CANVAS = GRID * GRID
REFERENCE_SIGMA = 0.0


@dataclass(slots=True)
class Pass:
    """Tokens on their way through the blocks, text first.

    Args:
        hidden: (1, ..., C), text included once `text` is None.
        text: (1, L, C) in double blocks.
        rope: of text and others.
        modulation: of their noise level.
    """

    hidden: torch.Tensor
    text: torch.Tensor | None
    rope: torch.Tensor
    modulation: Modulation


def run_block(adapter: MiniAdapter, block: int, tokens: Pass, place: KVPlace) -> None:
    """Move a pass through one block."""
    transformer = adapter.net.transformer
    num_double = adapter.geometry.num_double
    if block < num_double:
        tokens.text, tokens.hidden = transformer.transformer_blocks[block](
            hidden_states=tokens.hidden,
            encoder_hidden_states=tokens.text,
            temb_mod_img=tokens.modulation.image,
            temb_mod_txt=tokens.modulation.text,
            image_rotary_emb=place,
        )
        return
    if tokens.text is not None:
        tokens.hidden, tokens.text = torch.cat([tokens.text, tokens.hidden], 1), None
    tokens.hidden = transformer.single_transformer_blocks[block - num_double](
        hidden_states=tokens.hidden,
        encoder_hidden_states=None,
        temb_mod=tokens.modulation.single,
        image_rotary_emb=place,
    )


def reference_pass(
    adapter: MiniAdapter, reference_BRI: torch.Tensor, ids: torch.Tensor, num_more: int
) -> list[KVBuffer]:
    """Buffers of all blocks that begin with the reference's K and V and have `num_more` rows."""
    geometry, num_tokens = adapter.geometry, len(ids)
    tokens = Pass(
        adapter.net.transformer.x_embedder(reference_BRI),
        adapter.net.transformer.context_embedder(torch.zeros(1, 0, TEXT_DIM)),
        adapter.rope(ids),
        adapter.modulation(REFERENCE_SIGMA),
    )
    buffers = []
    for block in range(geometry.num_blocks):
        buffers.append(KVBuffer(num_tokens + num_more, geometry.num_heads, geometry.head_dim))
        run_block(adapter, block, tokens, buffers[-1].place(0, tokens.rope))
    return buffers


class _CachedRows:
    """Where state of cached tokens goes.

    Args:
        tokens: canvas index of each row of a state.
        keep: rows that stay cached in this edit.
        rope: of the rows kept.
    """

    def __init__(self, tokens: np.ndarray, is_active_N: np.ndarray, rope: torch.Tensor) -> None:
        self.tokens = tokens
        self.keep = np.flatnonzero(~is_active_N[tokens])
        self.keep_all = len(self.keep) == len(tokens)
        self.rope = rope[torch.from_numpy(tokens[self.keep].astype(np.int64))]


class MiniRun:
    """One edit of mini model A; see `models.base.Run`."""

    def __init__(
        self, adapter: MiniAdapter, template: Template, request: Request, cached: np.ndarray | None
    ) -> None:
        self._adapter, self._net = adapter, adapter.net
        self._template = template
        check_seed(request.seed)
        mask = request.active_mask(template)
        self.active = np.asarray(mask.active)
        self._mask_N1 = torch.from_numpy(mask.bits.reshape(-1, 1).astype(np.float32))
        self._template_BNP = image_tokens(template.image)
        noise = gaussian_rows(self.active, PATCH_DIM, request.seed, REQUEST_STREAM)
        self._latent_BNP = torch.from_numpy(noise)[None]
        self._text = self._net.text(torch.tensor([prompt_index(template, request.prompt)]))
        reference = image_tokens(fit_reference(request.reference))
        self._num_reference = reference.shape[1]
        with torch.inference_mode():
            self._buffers = reference_pass(
                adapter,
                self._net.reference_input(reference),
                reference_ids(placement_of(template)),
                NUM_TEXT + NUM_CANVAS,
            )
        self._cached: _CachedRows | None = None
        if cached is not None:
            self._cached = _CachedRows(cached, mask.bits.reshape(-1), adapter.canvas_rope)
            self._slots = [self._slot(buffer, self._cached) for buffer in self._buffers]
        self.step = -1

    def _slot(self, buffer: KVBuffer, cached: _CachedRows) -> BlockState:
        """Arrays for the rows of a state: the buffer's own where all of them stay cached."""
        if cached.keep_all:
            rows = slice(self._num_reference, self._num_reference + len(cached.keep))
            return BlockState(buffer.keys[rows].numpy(), buffer.values[rows].numpy())
        shape = (len(cached.tokens), *buffer.keys.shape[1:])
        return BlockState(np.empty(shape, np.float32), np.empty(shape, np.float32))

    @cached_property
    def _template_noise(self) -> torch.Tensor:
        """Noise of the cached tokens; a run that only injects never needs it."""
        shape = (1, NUM_CANVAS, PATCH_DIM)
        return torch.from_numpy(gaussian(shape, self._template.noise_seed, TEMPLATE_STREAM))

    def _noisy_canvas(self, sigma: float) -> torch.Tensor:
        """Template noised to sigma, with the request's own latent in the active tokens."""
        noisy = (1 - sigma) * self._template_BNP + sigma * self._template_noise
        noisy[:, self.active] = self._latent_BNP
        return noisy

    def _rope(self, canvas: np.ndarray) -> torch.Tensor:
        adapter = self._adapter
        if len(canvas) == NUM_CANVAS:
            return torch.cat([adapter.text_rope, adapter.canvas_rope])
        return torch.cat([adapter.text_rope, adapter.canvas_rope[torch.from_numpy(canvas)]])

    @cached_property
    def _active_rope(self) -> torch.Tensor:
        return self._rope(self.active)

    @torch.inference_mode()
    def begin_step(self, step: int, *, active_only: bool) -> None:
        """See `Run.begin_step`."""
        self.step = step
        sigma = self._adapter.schedule.sigmas[step]
        self.canvas = self.active if active_only else np.arange(NUM_CANVAS)
        noisy = self._latent_BNP if active_only else self._noisy_canvas(sigma)
        hidden = self._net.canvas_input(
            noisy, self._template_BNP[:, self.canvas], self._mask_N1[self.canvas][None]
        )
        transformer = self._net.transformer
        self.tokens = Pass(
            transformer.x_embedder(hidden),
            transformer.context_embedder(self._text),
            self._active_rope if active_only else self._rope(self.canvas),
            self._adapter.modulation(sigma),
        )

    def _drop_cached(self) -> None:
        """Keep text and active tokens only, for the rest of this step."""
        tokens, index = self.tokens, torch.from_numpy(self.active)
        if tokens.text is None:
            index = torch.cat([torch.arange(NUM_TEXT), index + NUM_TEXT])
        tokens.hidden, tokens.rope = tokens.hidden[:, index], self._active_rope
        self.canvas = self.active

    def reference_keys(self, block: int) -> torch.Tensor:
        """Keys of the reference tokens after RoPE, (R, H, D)."""
        return self._buffers[block].keys[: self._num_reference]

    def slot(self, block: int) -> BlockState:
        """See `Run.slot`."""
        assert self._cached is not None, "prepare() was not told which tokens states will hold"
        return self._slots[block]

    def _inject(self, block: int, state: BlockState) -> None:
        """Bring K and V of cached tokens into the block's buffer, keys after RoPE."""
        cached, buffer = self._cached, self._buffers[block]
        assert cached is not None, "prepare() was not told which tokens states will hold"
        rows = slice(self._num_reference, self._num_reference + len(cached.keep))
        is_there = cached.keep_all and state.keys is self._slots[block].keys
        if not is_there:
            keep = slice(None) if cached.keep_all else cached.keep
            buffer.keys[rows] = torch.from_numpy(state.keys[keep])
            buffer.values[rows] = torch.from_numpy(state.values[keep])
        if not state.rotated:
            rotate(buffer.keys[rows], cached.rope, buffer.keys[rows])

    @torch.inference_mode()
    def run_block(self, block: int, state: BlockState | None) -> None:
        """See `Run.run_block`."""
        start = self._num_reference
        if state is not None:
            self._inject(block, state)
            assert self._cached is not None
            start += len(self._cached.keep)
            if len(self.canvas) != len(self.active):
                self._drop_cached()
        place = self._buffers[block].place(start, self.tokens.rope)
        run_block(self._adapter, block, self.tokens, place)

    @torch.inference_mode()
    def end_step(self) -> None:
        """See `Run.end_step`."""
        hidden = self.tokens.hidden[:, NUM_TEXT:]
        if len(self.canvas) != len(self.active):
            hidden = hidden[:, self.active]
        transformer = self._net.transformer
        change = transformer.proj_out(transformer.norm_out(hidden, self.tokens.modulation.temb))
        clean = self._template_BNP[:, self.active] + change
        sigmas = self._adapter.schedule.sigmas
        ratio = sigmas[self.step + 1] / sigmas[self.step]
        self._latent_BNP = clean + (self._latent_BNP - clean) * ratio

    def rotate_keys(self, keys: np.ndarray) -> np.ndarray:
        """See `Run.rotate_keys`."""
        assert self._cached is not None, "prepare() was not told which tokens states will hold"
        return self._adapter.rotate_keys(keys, self._cached.tokens)

    def image(self) -> np.ndarray:
        """See `Run.image`."""
        tokens = self._template_BNP.clone()
        tokens[:, self.active] = self._latent_BNP
        pixels = unpatchify(tokens, GRID, GRID)[0].permute(1, 2, 0)
        return ((pixels + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()
