"""A toy model behind the Adapter protocol: attention over 16 tokens in numpy, fast to edit with.

It calls itself `mini-a`, because the packager packs for families it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import CodecProfile, fit_profile
from sakura.grid import TokenGrid, TokenMask
from sakura.models.base import BlockState, Geometry, Identity, Request, Schedule, Template
from sakura.models.noise import gaussian
from sakura.pack.capture import capture
from sakura.pack.neutral import neutral_reference

Array = NDArray[Any]

GRID = TokenGrid(4, 4, 2)
N, P, W = 16, 12, 12  # tokens, values of a patch, width
RNG = np.random.default_rng(11)
MATRICES = RNG.normal(0, W**-0.5, (2, 4, W, W))  # block; Wq, Wk, Wv, Wo
EMBED, LEAVE = RNG.normal(0, 0.4, (2 * P, W)), RNG.normal(0, 0.2, (W, P))


def patches(image: Array) -> Array:
    return image.reshape(4, 2, 4, 2, 3).transpose(0, 2, 1, 3, 4).reshape(N, P) / 127.5 - 1


@dataclass
class Recorder:
    kept: Array
    mass: Array

    def states(self) -> Array:
        return self.kept

    def attention_mass(self) -> Array:
        return self.mass


class ToyRun:
    def __init__(self, adapter: ToyAdapter, template: Template, request: Request) -> None:
        self.adapter, self.template = adapter, template
        self.active = request.active_mask(template).active
        self.clean = patches(template.image.astype(np.float64))
        self.noise = gaussian((N, P), template.noise_seed, 1).astype(np.float64)
        self.latent = gaussian((N, P), request.seed, 2).astype(np.float64)[self.active]
        self.reference = request.reference.reshape(-1, 3).mean(0).repeat(W // 3) / 127.5 - 1
        self.recorder: Recorder | None = None

    def begin_step(self, step: int, *, active_only: bool) -> None:
        self.step, sigma = step, self.adapter.schedule.sigmas[step]
        noisy = (1 - sigma) * self.clean + sigma * self.noise
        noisy[self.active] = self.latent
        self.hidden = np.tanh(np.concatenate([noisy, self.clean], 1) @ EMBED)
        self.here = np.arange(N)
        if active_only:
            self.keep_active()

    def keep_active(self) -> None:
        if len(self.here) == N:
            self.hidden, self.here = self.hidden[self.active], self.active

    def slot(self, block: int) -> BlockState:
        raise AssertionError("the packager brings state of its own")

    def run_block(self, block: int, state: BlockState | None) -> None:
        if state is not None:
            self.keep_active()
        wq, wk, wv, wo = MATRICES[block]
        keys, values = self.hidden @ wk, self.hidden @ wv
        if self.recorder is not None:
            kept = np.stack([keys, values]).reshape(2, N, 2, W // 2)
            self.recorder.kept[block, :, self.step] = kept
        if state is not None:
            keys = np.concatenate([keys, state.keys.reshape(-1, W)])
            values = np.concatenate([values, state.values.reshape(-1, W)])
        keys = np.concatenate([keys, (self.reference @ wk)[None]])
        values = np.concatenate([values, (self.reference @ wv)[None]])
        weights = np.exp(self.hidden @ wq @ keys.T)
        weights /= weights.sum(1, keepdims=True)
        if self.recorder is not None:
            self.recorder.mass[block] += np.square(weights[self.active, :N]).mean(0)
        self.hidden = self.hidden + np.tanh(weights @ values @ wo)

    def end_step(self) -> None:
        self.keep_active()
        clean = self.clean[self.active] + self.hidden @ LEAVE
        ratio = (
            self.adapter.schedule.sigmas[self.step + 1] / self.adapter.schedule.sigmas[self.step]
        )
        self.latent = clean + (self.latent - clean) * ratio

    def rotate_keys(self, keys: Array) -> Array:
        return keys

    def image(self) -> Array:
        tokens = self.clean.copy()
        tokens[self.active] = self.latent
        pixels = tokens.reshape(4, 4, 2, 2, 3).transpose(0, 2, 1, 3, 4).reshape(8, 8, 3)
        return ((pixels + 1) * 127.5).round().clip(0, 255).astype(np.uint8)


class ToyAdapter:
    geometry = Geometry(num_double=1, num_single=1, num_heads=2, head_dim=W // 2)
    schedule = Schedule("flow-match-euler", (1.0, 0.6, 0.3, 0.0))
    token_grid = GRID

    def __init__(self) -> None:
        self.num_captures = 0

    def identity(self) -> Identity:
        canary = np.arange(1, 5, dtype=np.float16)
        return Identity("mini-a", "Toy", "ab" * 16, "cd" * 16, canary)

    def rotate_keys(self, keys: Array, tokens: Array) -> Array:
        return keys

    def prepare(
        self, template: Template, request: Request, cached_tokens: Array | None = None
    ) -> ToyRun:
        return ToyRun(self, template, request)

    @contextmanager
    def capture(self, run: ToyRun) -> Iterator[Recorder]:
        self.num_captures += 1
        run.recorder = Recorder(np.zeros((2, 2, 3, N, 2, W // 2), np.float32), np.zeros((2, N)))
        yield run.recorder


def toy_template(seed: int = 0) -> Template:
    bits = np.zeros((4, 4), bool)
    bits[1:3, 1:3] = True
    image = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    return Template(image, TokenMask.from_bits(GRID, bits), "toy", {"placement": [1, 1, 2, 2]})


def toy_profile() -> CodecProfile:
    adapter = ToyAdapter()
    states = []
    for seed in range(1, 7):
        template = toy_template(seed)
        states.append(capture(adapter, template, [neutral_reference("mean", template)]).state)
    return fit_profile(states)
