"""Adapter of mini model A: its weights, identity and what all runs share.

`mini_run.py` executes an edit, `capture_hooks.py` records its state, `mini_inputs.py` prepares
pictures and prompts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from sakura.grid import TokenGrid
from sakura.models import mini_net
from sakura.models.base import Geometry, Identity, Request, Schedule, Template
from sakura.models.capture_hooks import MiniRecorder
from sakura.models.mini_inputs import check_template
from sakura.models.mini_net import (
    GRID,
    PATCH_DIM,
    PROMPTS,
    MiniFlux2,
    canvas_ids,
    reference_ids,
    text_ids,
)
from sakura.models.mini_run import MiniRun, Rope
from sakura.models.noise import gaussian

NUM_STEPS = 8
WEIGHTS = "mini_a.safetensors"


@dataclass(frozen=True, slots=True)
class Modulation:
    """What a step's noise level does to the blocks; the same for every request."""

    temb: torch.Tensor
    image: torch.Tensor
    text: torch.Tensor
    single: torch.Tensor


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
        self._modulations: dict[int, Modulation] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> MiniAdapter:
        """Load committed weights (float16 safetensors), computed in float32."""
        source = path or Path(str(files("sakura").joinpath("assets", WEIGHTS)))
        net = MiniFlux2()
        net.load_state_dict({k: v.float() for k, v in load_file(source).items()})
        return cls(net, hashlib.sha256(source.read_bytes()).hexdigest())

    @torch.inference_mode()
    def modulation(self, step: int) -> Modulation:
        """The modulation of a step, computed once."""
        if step not in self._modulations:
            transformer = self.net.transformer
            timestep = torch.tensor([self.schedule.sigmas[step] * 1000.0])
            temb = transformer.time_guidance_embed(timestep, None)
            self._modulations[step] = Modulation(
                temb,
                transformer.double_stream_modulation_img(temb),
                transformer.double_stream_modulation_txt(temb),
                transformer.single_stream_modulation(temb),
            )
        return self._modulations[step]

    def ropes(self) -> tuple[Rope, Rope]:
        """RoPE of all canvas tokens and of the text."""
        return self._ropes

    @cached_property
    def _ropes(self) -> tuple[Rope, Rope]:
        embed = self.net.transformer.pos_embed
        return embed(canvas_ids()), embed(text_ids())

    def rotate_keys(self, keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """See `Adapter.rotate_keys`. In numpy: a decoder thread must not enter torch's pool."""
        (cos, sin), _ = self.ropes()
        cos_N1D, sin_N1D = cos.numpy()[tokens, None], sin.numpy()[tokens, None]
        turned = np.empty_like(keys)
        turned[..., 0::2], turned[..., 1::2] = -keys[..., 1::2], keys[..., 0::2]
        turned *= sin_N1D
        turned += keys * cos_N1D
        return turned

    def identity(self) -> Identity:
        """See `Adapter.identity`."""
        return self._identity

    @cached_property
    def _identity(self) -> Identity:
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
        check_template(template)
        return MiniRun(self, template, request, cached_tokens)

    @contextmanager
    def capture(self, run: MiniRun) -> Iterator[MiniRecorder]:
        """See `Adapter.capture`."""
        recorder = MiniRecorder(self, run)
        try:
            yield recorder
        finally:
            recorder.close()
