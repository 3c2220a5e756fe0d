"""How much an error of the state costs the edit: measured by injecting noise, once per model.

scripts/fit_profile.py runs this over training-split templates and keeps the means in the codec
profile, so that packing needs no such runs. Noise is white in the coefficients and divided by each
token's precision, like the quantiser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.models.base import Adapter, Request, Template
from sakura.pack.edits import Injection, edit_injected, mse_inside

Array = NDArray[Any]

TARGET_MSE = 1e-4
"""40 dB: small enough to be linear, far above the rounding of pixels."""
ROUNDING_MSE = 1 / 6 / 255**2
"""Expected squared difference that rounding both pictures to 8 bits adds (two uniform errors)."""
FIRST_NOISE = 0.1
"""Noise of the first edit, relative to the state's rms."""
_DISTRUST, _ATTEMPTS = 30.0, 3
"""An answer further than this factor from the target only sets the noise of the next attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """What an edit's MSE owes to errors of the state.

    Args:
        blocks: (B, 2) MSE per unit of weighted error in K or V of a block, at every step.
        steps: (S,) share of each step, sum 1.
        components: (S,) share of each component of the step axis, sum 1.
    """

    blocks: Array
    steps: Array
    components: Array


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """One edit to disturb.

    Args:
        adapter: the model.
        template: public part.
        request: private part.
        injection: its uncompressed state, in importance order.
        precision: (B, N) of each token, in the same order.
        expected: the edit with that state.
    """

    adapter: Adapter
    template: Template
    request: Request
    injection: Injection
    precision: Array
    expected: Array

    def response(self, noise: Array) -> float:
        """The edit's MSE when noise (B, 2, S, N, H, Dh) of unit precision is added to the state."""
        scaled = noise / self.precision[:, None, None, :, None, None]
        state = self.injection.state + scaled.astype(np.float32)
        injection = Injection(self.injection.tokens, state)
        picture = edit_injected(self.adapter, self.template, self.request, injection)
        error = mse_inside(picture, self.expected, self.template.mask)
        return max(error - ROUNDING_MSE, ROUNDING_MSE / 100)


def make_probe(
    adapter: Adapter, template: Template, request: Request, injection: Injection, precision: Array
) -> Probe:
    """Run the undisturbed edit."""
    expected = edit_injected(adapter, template, request, injection)
    return Probe(adapter, template, request, injection, precision, expected)


def measure(probes: Sequence[Probe], step_basis: Array, seed: int = 0) -> Sensitivity:
    """Mean sensitivities over the probes.

    Args:
        probes: edits of several templates.
        step_basis: (B, 2, S, S) of the codec profile.
        seed: of the noise.
    """
    rng = np.random.default_rng(seed)
    blocks = _block_sensitivity(probes, rng)
    steps = np.mean([_step_response(p, blocks, rng) for p in probes], axis=0)
    components = np.mean([_component_response(p, blocks, step_basis, rng) for p in probes], axis=0)
    steps, components = steps / steps.sum(), components / components.sum()
    return Sensitivity(blocks, steps, components)


def _block_sensitivity(probes: Sequence[Probe], rng: np.random.Generator) -> Array:
    """(B, 2); each edit's noise aims at `TARGET_MSE` by what the edits before it said."""
    num_blocks = probes[0].injection.state.shape[0]
    result = np.zeros((num_blocks, 2))
    for block in range(num_blocks):
        for kv in range(2):
            rms = float(np.sqrt(np.square(probes[0].injection.state[block, kv]).mean()))
            guess = TARGET_MSE / (FIRST_NOISE * rms) ** 2
            answers: list[float] = []
            for probe in probes:
                noise = np.zeros_like(probe.injection.state)
                noise[block, kv] = rng.normal(size=noise[block, kv].shape)
                answers.append(_linear_answer(probe, noise, guess))
                guess = float(np.mean(answers))
            result[block, kv] = guess
    return result


def _linear_answer(probe: Probe, noise: Array, guess: float) -> float:
    """MSE per unit of noise, with noise of a size at which the edit answers linearly."""
    for _ in range(_ATTEMPTS):
        size = TARGET_MSE / guess
        answer = probe.response(noise * np.sqrt(size)) / size
        if TARGET_MSE / _DISTRUST < answer * size < TARGET_MSE * _DISTRUST:
            break
        guess = answer
    return answer


def _step_response(probe: Probe, blocks: Array, rng: np.random.Generator) -> Array:
    """(S,) MSE of noise in all blocks at one step."""
    responses = []
    for step in range(probe.injection.state.shape[2]):
        noise = np.zeros_like(probe.injection.state)
        noise[:, :, step] = _even_noise(probe, blocks, rng)
        responses.append(probe.response(noise))
    return np.array(responses)


def _component_response(
    probe: Probe, blocks: Array, step_basis: Array, rng: np.random.Generator
) -> Array:
    """(S,) MSE of noise in all blocks in one component of the step axis."""
    responses = []
    for component in range(probe.injection.state.shape[2]):
        noise = _even_noise(probe, blocks, rng)[:, :, None]
        spread = step_basis[:, :, :, component, None, None, None]
        responses.append(probe.response(noise * spread))
    return np.array(responses)


def _even_noise(probe: Probe, blocks: Array, rng: np.random.Generator) -> Array:
    """(B, 2, N, H, Dh): every block and K|V costs the same, together `TARGET_MSE` for a share of
    one step in S."""
    num_steps = probe.injection.state.shape[2]
    shape = (*probe.injection.state.shape[:2], *probe.injection.state.shape[3:])
    sizes = TARGET_MSE * num_steps / blocks.size / blocks
    return rng.normal(size=shape) * np.sqrt(sizes)[:, :, None, None, None]
