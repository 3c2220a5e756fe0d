"""Adapter of mini model A: runs, captures and injects through diffusers' own blocks and `kv_cache`
arguments.

Reference K/V are extracted once a request by a reference-only pass (exact: reference tokens attend
only to themselves). A step then runs [text | canvas] tokens block by block; injected template state
joins the reference in the block's `Flux2KVLayerCache`. Capture reads pre-RoPE K, V and Q with
forward hooks.

Shape legend: B batch (1), L text + canvas tokens, N canvas tokens, R reference tokens, H heads, D
head_dim.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_flux2 import Flux2KVCache, Flux2KVLayerCache
from PIL import Image
from safetensors.torch import load_file

from sakura.errors import InputError
from sakura.grid import TokenGrid
from sakura.models import mini_net
from sakura.models.base import BlockState, Geometry, Identity, Request, Schedule, Template
from sakura.models.capture_hooks import MiniRecorder
from sakura.models.mini_net import (
    GRID,
    NUM_TEXT,
    PATCH_DIM,
    PROMPTS,
    REFERENCE_GRID,
    MiniFlux2,
    canvas_ids,
    patchify,
    reference_ids,
    text_ids,
    unpatchify,
)
from sakura.models.noise import gaussian

NUM_STEPS = 8
TEMPLATE_STREAM, REQUEST_STREAM = 1, 2
WEIGHTS = "mini_a.safetensors"
Rope = tuple[torch.Tensor, torch.Tensor]


def _tokens(image: np.ndarray) -> torch.Tensor:
    """(H, W, 3) uint8 to (1, N, 192) in [-1, 1]."""
    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()
    return patchify(x / 127.5 - 1)


def fit_reference(image: np.ndarray) -> np.ndarray:
    """Centre-crop to a square and resize to the model's reference size, (64, 64, 3) uint8."""
    side = min(image.shape[:2])
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    square = Image.fromarray(image[top : top + side, left : left + side])
    size = REFERENCE_GRID * mini_net.PATCH_PX
    if side != size:
        square = square.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(square)


def default_placement(template: Template) -> tuple[int, int, int, int]:
    """Where the reference's content belongs: a square of tokens around the mask.

    The mini model's tasks relate mask and person as its training pairs do: a face mask is the upper
    three quarters of the person's square, a garment mask the lower third, a scene mask all of it.

    Returns:
        (top, left, height, width) in tokens; may reach beyond the canvas.
    """
    ys, xs = np.divmod(template.mask.active, GRID)
    top, left = int(ys.min()), int(xs.min())
    height, width = int(ys.max()) - top + 1, int(xs.max()) - left + 1
    if template.task == "face-swap":
        side = max(round(height / 0.78), round(width / 0.76))
        return top, left + (width - side) // 2, side, side
    if template.task == "try-on":
        return top + height - width, left, width, width
    side = max(height, width)
    return top + height - side, left + (width - side) // 2, side, side


@dataclass(frozen=True, slots=True)
class _Modulation:
    """What a step's noise level does to the blocks; the same for every request."""

    temb: torch.Tensor
    image: torch.Tensor
    text: torch.Tensor
    single: torch.Tensor


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
        mask = request.active_mask(template)
        self.active = np.asarray(mask.active)
        self._mask_N1 = torch.from_numpy(mask.bits.reshape(-1, 1).astype(np.float32))
        self._template_BNP = _tokens(template.image)
        shape = (1, GRID * GRID, PATCH_DIM)
        self._noise_BNP = torch.from_numpy(gaussian(shape, template.noise_seed, TEMPLATE_STREAM))
        own_noise = torch.from_numpy(gaussian(shape, request.seed, REQUEST_STREAM))
        self._latent_BNP = own_noise[:, self.active]
        self._text = self._net.text(torch.tensor([adapter.prompt_index(template, request)]))
        self.placement = adapter.placement(template)
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
        hidden = self._net.reference_input(_tokens(reference))
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

    def _noisy_canvas(self, sigma: float) -> torch.Tensor:
        """Template noised to sigma, with the request's own latent in the active tokens."""
        noisy = (1 - sigma) * self._template_BNP + sigma * self._noise_BNP
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


class MiniAdapter:
    """Mini model A; see `models.base.Adapter`."""

    family = "mini-a"
    geometry = Geometry(num_double=2, num_single=4, num_heads=4, head_dim=48)
    schedule = Schedule(
        "flow-match-euler", tuple(float(s) for s in np.linspace(1, 0, NUM_STEPS + 1))
    )
    tasks = PROMPTS
    canvas_px = GRID * mini_net.PATCH_PX
    patch_px = mini_net.PATCH_PX
    token_grid = TokenGrid(GRID, GRID, mini_net.PATCH_PX)

    def __init__(self, net: MiniFlux2, weights_digest: str) -> None:
        self.net = net.eval().requires_grad_(False)
        self._weights_digest = weights_digest
        self._modulations: dict[int, _Modulation] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> MiniAdapter:
        """Load committed weights (float16 safetensors), computed in float32."""
        source = path or Path(str(files("sakura").joinpath("assets", WEIGHTS)))
        net = MiniFlux2()
        net.load_state_dict({k: v.float() for k, v in load_file(source).items()})
        return cls(net, hashlib.sha256(source.read_bytes()).hexdigest())

    @torch.inference_mode()
    def modulation(self, step: int) -> _Modulation:
        """The modulation of a step, computed once."""
        if step not in self._modulations:
            transformer = self.net.transformer
            timestep = torch.tensor([self.schedule.sigmas[step] * 1000.0])
            temb = transformer.time_guidance_embed(timestep, None)
            self._modulations[step] = _Modulation(
                temb,
                transformer.double_stream_modulation_img(temb),
                transformer.double_stream_modulation_txt(temb),
                transformer.single_stream_modulation(temb),
            )
        return self._modulations[step]

    @lru_cache(maxsize=1)  # noqa: B019  (an adapter lives as long as the process)
    def ropes(self) -> tuple[Rope, Rope]:
        """RoPE of all canvas tokens and of the text."""
        embed = self.net.transformer.pos_embed
        return embed(canvas_ids()), embed(text_ids())

    @torch.inference_mode()
    def rotate_keys(self, keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """See `Adapter.rotate_keys`."""
        (cos, sin), _ = self.ropes()
        index = torch.from_numpy(tokens.astype(np.int64))
        rotated = apply_rotary_emb(
            torch.from_numpy(keys)[None], (cos[index], sin[index]), sequence_dim=1
        )
        return rotated[0].numpy()

    def prompt_index(self, template: Template, request: Request) -> int:
        """Map the prompt to the model's prompt table.

        Raises:
            InputError: the model does not know the prompt.
        """
        prompt = template.task if request.prompt is None else request.prompt
        if prompt not in PROMPTS:
            raise InputError(
                f"unknown prompt {prompt!r} for the mini model",
                hint=f"it knows: {', '.join(PROMPTS)}",
            )
        return PROMPTS.index(prompt)

    def placement(self, template: Template) -> tuple[int, int, int, int]:
        """The placement from the template's conditioning, or the task's default."""
        given = template.conditioning.get("placement")
        if given is None:
            return default_placement(template)
        if len(given) != 4 or not all(isinstance(v, int) and abs(v) <= 4 * GRID for v in given):
            raise InputError(f"placement must be four small integers, found {given!r}")
        top, left, height, width = given
        return top, left, height, width

    @lru_cache(maxsize=1)  # noqa: B019  (an adapter lives as long as the process)
    def identity(self) -> Identity:
        """See `Adapter.identity`."""
        config = {**mini_net.CONFIG, "position_scale": mini_net.POSITION_SCALE}
        canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
        return Identity(
            family=self.family,
            class_name=type(self.net.transformer).__name__,
            config_digest=hashlib.sha256(canonical.encode()).hexdigest()[:32],
            weights_digest=self._weights_digest[:32],
            canary=self._canary(),
        )

    @torch.inference_mode()
    def _canary(self) -> np.ndarray:
        """K/V of a fixed pseudo-reference: 4 tokens, 8 channels of head 0, every block."""
        hidden = torch.from_numpy(gaussian((1, 16, 2 * PATCH_DIM + 1), 0, 99))
        _, cache = self.net.transformer(
            hidden,
            torch.zeros(1, 0, mini_net.TEXT_DIM),
            torch.zeros(1),
            reference_ids((0, 0, 8, 8))[:16],
            text_ids()[:0],
            return_dict=False,
            kv_cache_mode="extract",
            num_ref_tokens=16,
        )
        layers = [*cache.double_block_caches, *cache.single_block_caches]
        sample = [t[0, :4, 0, :8] for layer in layers for t in layer.get()]
        return torch.stack(sample).numpy().astype(np.float16).reshape(-1)

    def prepare(
        self, template: Template, request: Request, cached_tokens: np.ndarray | None = None
    ) -> MiniRun:
        """See `Adapter.prepare`.

        Raises:
            InputError: a picture, mask, task or prompt that this model cannot use.
        """
        self.check_template(template)
        return MiniRun(self, template, request, cached_tokens)

    def check_template(self, template: Template) -> None:
        """Raise InputError unless the template fits this model's canvas and tasks."""
        side = self.canvas_px
        if template.image.shape != (side, side, 3) or template.image.dtype != np.uint8:
            raise InputError(
                f"template is {template.image.shape} {template.image.dtype}, "
                f"expected ({side}, {side}, 3) uint8"
            )
        if template.task not in self.tasks:
            raise InputError(
                f"unknown task {template.task!r}", hint=f"tasks: {', '.join(self.tasks)}"
            )
        if template.mask.bits.shape != (GRID, GRID):
            raise InputError(f"mask has {template.mask.bits.shape} tokens, expected (16, 16)")

    @contextmanager
    def capture(self, run: MiniRun) -> Iterator[MiniRecorder]:
        """See `Adapter.capture`."""
        recorder = MiniRecorder(self, run)
        try:
            yield recorder
        finally:
            recorder.close()
