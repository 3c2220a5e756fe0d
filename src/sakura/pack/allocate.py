"""How precise each shard is: steps at which every coefficient's error costs the same. Pure.

The error model, in mean squared error of the edit inside the mask (pixel range 1):

    edit MSE = sum over blocks, planes and components of  worth[b, p, c] * e[b, p, c]
    worth[b, p, c] = sensitivity[b, p] * share[b, p, c]

where e is the mean squared error of the coefficients, each token weighted by its squared precision.
`sensitivity` is the edit's MSE for e = 1 in every component, `share` how it splits over components.
Reverse water-filling under it is one rule: step = scale / sqrt(worth).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MAX_RANGE = 1e5
"""Worths below the largest by more than this count as that: their steps stay sane numbers."""
SCALES_PER_OCTAVE = 8
_LEVEL_RATIO = 3
"""Each layer divides the step by three."""


def component_shares(step_basis: Array, step_share: Array) -> Array:
    """How an error that is alike in all components splits over them.

    A component's error appears at step s times T[s, c]. Squares add up: that one component's errors
    are alike at all steps was measured to make no difference (scripts/fit_profile.py).

    Args:
        step_basis: (B, 2, S, C).
        step_share: (S,) share of the edit's error that comes from each step, sum 1.

    Returns:
        (B, 2, C).
    """
    shares: Array = np.einsum("s,bksc->bkc", step_share, np.square(step_basis, dtype=np.float64))
    return shares


def coefficient_worth(sensitivity: Array, shares: Array) -> Array:
    """(B, 2, C) from sensitivities (B, 2) and shares (B, 2, C); see the module."""
    worth = sensitivity[..., None].astype(np.float64) * shares
    return np.maximum(worth, worth.max() / MAX_RANGE)


def base_steps(worth: Array, scale: float) -> Array:
    """(B, 2, C) steps of the base layer, to four significant digits: manifests stay small."""
    steps = scale / np.sqrt(worth)
    return np.array([float(f"{step:.4g}") for step in steps.flat]).reshape(steps.shape)


def scale_at(index: int) -> float:
    """The scales that the packager tries: eighths of an octave, about 0.75 dB apart."""
    return float(2.0 ** (index / SCALES_PER_OCTAVE))


def first_scale(worth: Array, mse: float, level: int) -> int:
    """Index of the scale that would give this MSE at a level if every column were coded finely."""
    # A uniform quantiser's error is step^2 / 12.
    scale = np.sqrt(12 * mse / worth.size) * _LEVEL_RATIO**level
    return round(SCALES_PER_OCTAVE * float(np.log2(scale)))


def next_scale(tried: dict[int, float], target_db: float) -> int | None:
    """Which scale to try next, given the PSNR of those tried; None when the answer is among them.

    The answer is the largest scale that reaches the target, by `best_scale`.
    """
    passing = [index for index, psnr_db in tried.items() if psnr_db >= target_db]
    failing = [index for index, psnr_db in tried.items() if psnr_db < target_db]
    if passing and failing and min(failing) - max(passing) <= 1:
        return None
    nearest = max(passing) if passing else min(failing)
    octave_db = 20 * np.log10(2.0)
    jump = round((tried[nearest] - target_db) / octave_db * SCALES_PER_OCTAVE)
    guess = nearest + (max(jump, 1) if passing else min(jump, -1))
    if passing and failing:
        guess = min(guess, min(failing) - 1)
    return guess


def best_scale(tried: dict[int, float], target_db: float) -> int:
    """The largest scale that reaches the target, else the smallest that was tried."""
    passing = [index for index, psnr_db in tried.items() if psnr_db >= target_db]
    return max(passing) if passing else min(tried)
