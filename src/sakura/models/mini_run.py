"""One edit of the mini model, block by block, through diffusers' blocks and `kv_cache` arguments.

Reference K/V are extracted once a request by a reference-only pass (exact: reference tokens attend
only to themselves). A step then runs [text | canvas] tokens; injected template state joins the
reference in the block's `Flux2KVLayerCache`.

Shape legend: B batch (1), L text + canvas tokens, N canvas tokens, R reference tokens, H heads, D
head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_flux2 import Flux2KVCache, Flux2KVLayerCache

from sakura.models.base import BlockState, Request, Template
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
    reference_ids,
    text_ids,
    unpatchify,
)
from sakura.models.noise import gaussian, gaussian_rows

if TYPE_CHECKING:
    from sakura.models.mini import MiniAdapter

TEMPLATE_STREAM, REQUEST_STREAM = 1, 2
Rope = tuple[torch.Tensor, torch.Tensor]


@dataclass
class _Tokens:
    """The tokens that a step still computes, text first."""

    canvas: np.ndarray  # canvas indices
    text: torch.Tensor | None  # separate stream in double blocks, None once joined
    hidden: torch.Tensor
    rope: Rope


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
        self.placement = placement_of(template)
        self._canvas_rope, self._text_rope = adapter.ropes()
        self.reference_cache = self._extract_reference(fit_reference(request.reference))
        self._keep: np.ndarray | None = None
        self._cached = cached
        if cached is not None:
            self._keep = np.flatnonzero(~mask.bits.reshape(-1)[cached])
            self._keep_all = len(self._keep) == len(cached)
            index = torch.from_numpy(cached[self._keep].astype(np.int64))
            self._cached_rope = (self._canvas_rope[0][index], self._canvas_rope[1][index])
        self.step = -1

    @torch.inference_mode()
    def _extract_reference(self, reference: np.ndarray) -> Flux2KVCache:
        """K/V of the reference tokens in every block, by a pass over the reference alone."""
        hidden = self._net.reference_input(image_tokens(reference))
        _, cache = self._net.transformer(
            hidden,
            self._text[:, :0],
            torch.zeros(1),
            reference_ids(self.placement),
            text_ids()[:0],
            return_dict=False,
            kv_cache_mode="extract",
            num_ref_tokens=hidden.shape[1],
        )
        return cache

    def _rope(self, canvas: np.ndarray) -> Rope:
        index = torch.from_numpy(canvas)
        text, rest = self._text_rope, self._canvas_rope
        return torch.cat([text[0], rest[0][index]]), torch.cat([text[1], rest[1][index]])

    @cached_property
    def _template_noise(self) -> torch.Tensor:
        """Noise of the cached tokens; a run that only injects never needs it."""
        shape = (1, GRID * GRID, PATCH_DIM)
        return torch.from_numpy(gaussian(shape, self._template.noise_seed, TEMPLATE_STREAM))

    def _noisy_canvas(self, sigma: float) -> torch.Tensor:
        """Template noised to sigma, with the request's own latent in the active tokens."""
        noisy = (1 - sigma) * self._template_BNP + sigma * self._template_noise
        noisy[:, self.active] = self._latent_BNP
        return noisy

    @torch.inference_mode()
    def begin_step(self, step: int, *, active_only: bool) -> None:
        """See `Run.begin_step`."""
        self.step = step
        transformer = self._net.transformer
        self._modulation = self._adapter.modulation(step)
        canvas = self.active if active_only else np.arange(GRID * GRID)
        noisy = (
            self._latent_BNP
            if active_only
            else self._noisy_canvas(self._adapter.schedule.sigmas[step])
        )
        hidden = self._net.canvas_input(
            noisy, self._template_BNP[:, canvas], self._mask_N1[canvas][None]
        )
        self.tokens = _Tokens(
            canvas,
            transformer.context_embedder(self._text),
            transformer.x_embedder(hidden),
            self._rope(canvas),
        )

    def _drop_cached(self) -> None:
        """Keep text and active tokens only, for the rest of this step."""
        tokens = self.tokens
        index = torch.from_numpy(self.active)
        if tokens.text is None:
            index = torch.cat([torch.arange(NUM_TEXT), index + NUM_TEXT])
        self.tokens = _Tokens(
            self.active, tokens.text, tokens.hidden[:, index], self._rope(self.active)
        )

    def _reference_layer(self, block: int) -> Flux2KVLayerCache:
        num_double = self._adapter.geometry.num_double
        if block < num_double:
            return self.reference_cache.get_double(block)
        return self.reference_cache.get_single(block - num_double)

    def reference_keys(self, block: int) -> torch.Tensor:
        """Keys of the reference tokens after RoPE, (1, R, H, D)."""
        return self._reference_layer(block).get()[0]

    def _layer_cache(self, block: int, state: BlockState | None) -> Flux2KVLayerCache:
        """Keys and values that attention sees besides its own tokens'."""
        reference = self._reference_layer(block)
        if state is None:
            return reference
        assert self._keep is not None, "prepare() was not told which tokens states will hold"
        keys, values = torch.from_numpy(state.keys), torch.from_numpy(state.values)
        if not self._keep_all:
            keys, values = keys[self._keep], values[self._keep]
        if not state.rotated:
            keys = apply_rotary_emb(keys[None], self._cached_rope, sequence_dim=1)[0]
        k_ref, v_ref = reference.get()
        joined = Flux2KVLayerCache()
        joined.store(torch.cat([k_ref, keys[None]], 1), torch.cat([v_ref, values[None]], 1))
        return joined

    @torch.inference_mode()
    def run_block(self, block: int, state: BlockState | None) -> None:
        """See `Run.run_block`."""
        if state is not None and len(self.tokens.canvas) != len(self.active):
            self._drop_cached()
        kwargs: dict[str, Any] = {
            "kv_cache": self._layer_cache(block, state),
            "kv_cache_mode": "cached",
        }
        transformer, tokens = self._net.transformer, self.tokens
        num_double = self._adapter.geometry.num_double
        if block < num_double:
            tokens.text, tokens.hidden = transformer.transformer_blocks[block](
                hidden_states=tokens.hidden,
                encoder_hidden_states=tokens.text,
                temb_mod_img=self._modulation.image,
                temb_mod_txt=self._modulation.text,
                image_rotary_emb=tokens.rope,
                joint_attention_kwargs=kwargs,
            )
            return
        if tokens.text is not None:
            tokens.hidden, tokens.text = torch.cat([tokens.text, tokens.hidden], 1), None
        tokens.hidden = transformer.single_transformer_blocks[block - num_double](
            hidden_states=tokens.hidden,
            encoder_hidden_states=None,
            temb_mod=self._modulation.single,
            image_rotary_emb=tokens.rope,
            joint_attention_kwargs={**kwargs, "num_txt_tokens": NUM_TEXT},
        )

    @torch.inference_mode()
    def end_step(self) -> None:
        """See `Run.end_step`."""
        hidden = self.tokens.hidden[:, NUM_TEXT:]
        if len(self.tokens.canvas) != len(self.active):
            hidden = hidden[:, self.active]
        transformer = self._net.transformer
        change = transformer.proj_out(transformer.norm_out(hidden, self._modulation.temb))
        clean = self._template_BNP[:, self.active] + change
        sigmas = self._adapter.schedule.sigmas
        ratio = sigmas[self.step + 1] / sigmas[self.step]
        self._latent_BNP = clean + (self._latent_BNP - clean) * ratio

    def rotate_keys(self, keys: np.ndarray) -> np.ndarray:
        """See `Run.rotate_keys`."""
        assert self._cached is not None, "prepare() was not told which tokens states will hold"
        return self._adapter.rotate_keys(keys, self._cached)

    def image(self) -> np.ndarray:
        """See `Run.image`."""
        tokens = self._template_BNP.clone()
        tokens[:, self.active] = self._latent_BNP
        pixels = unpatchify(tokens, GRID, GRID)[0].permute(1, 2, 0)
        return ((pixels + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()
