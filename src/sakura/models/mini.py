"""Adapter of mini model A: its weights, identity and what all runs share.

`mini_run.py` executes an edit, `mini_recorder.py` records its state, `mini_inputs.py` prepares
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
from sakura.models.mini_attention import complex_rope, set_processors
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
from sakura.models.mini_recorder import MiniRecorder
from sakura.models.mini_run import MiniRun, reference_pass
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
        self.processors = set_processors(net.transformer)
        self._weights_digest = weights_digest
        self._modulations: dict[float, Modulation] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> MiniAdapter:
        """Load committed weights (float16 safetensors), computed in float32."""
        source = path or Path(str(files("sakura").joinpath("assets", WEIGHTS)))
        net = MiniFlux2()
        net.load_state_dict({k: v.float() for k, v in load_file(source).items()})
        return cls(net, hashlib.sha256(source.read_bytes()).hexdigest())

    @torch.inference_mode()
    def modulation(self, sigma: float) -> Modulation:
        """The modulation of a noise level, computed once."""
        if sigma not in self._modulations:
            transformer = self.net.transformer
            temb = transformer.time_guidance_embed(torch.tensor([sigma * 1000.0]), None)
            self._modulations[sigma] = Modulation(
                temb,
                transformer.double_stream_modulation_img(temb),
                transformer.double_stream_modulation_txt(temb),
                transformer.single_stream_modulation(temb),
            )
        return self._modulations[sigma]

    def rope(self, ids: torch.Tensor) -> torch.Tensor:
        """RoPE of token coordinates (T, 4), see `complex_rope`."""
        return complex_rope(*self.net.transformer.pos_embed(ids))

    @cached_property
    def canvas_rope(self) -> torch.Tensor:
        """RoPE of all canvas tokens."""
        return self.rope(canvas_ids())

    @cached_property
    def text_rope(self) -> torch.Tensor:
        """RoPE of the prompt tokens."""
        return self.rope(text_ids())

    def rotate_keys(self, keys: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """See `Adapter.rotate_keys`. In numpy: a decoder thread must not enter torch's pool."""
        rope_N1C = self.canvas_rope.numpy()[tokens]
        turned = np.ascontiguousarray(keys).view(np.complex64) * rope_N1C
        return turned.view(np.float32)

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
        """K/V of a fixed pseudo-reference: 2 tokens, 4 channels of head 0, every block."""
        hidden = torch.from_numpy(gaussian((1, 16, 2 * PATCH_DIM + 1), 0, 99))
        buffers = reference_pass(self, hidden, reference_ids((0, 0, 8, 8))[:16], num_more=0)
        sample = [rows[:2, 0, :4] for buffer in buffers for rows in (buffer.keys, buffer.values)]
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
