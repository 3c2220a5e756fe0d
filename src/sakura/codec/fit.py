"""Fits a codec profile to calibration states. Deterministic; streams over the states three times
and keeps only moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import transform
from sakura.codec.profile import CodecProfile, identity_profile
from sakura.codec.tablegen import GRID_STEP, NUM_GRID, default_shape, tables_for_shape
from sakura.errors import InputError

Array = NDArray[Any]

_PRIOR_SHARE = 0.02
"""Share of the built-in source model in the fitted tables: keeps tails that a small calibration set
lacks."""
_RATE_FLOOR = 0.1
"""Coefficients count in the table fit by the rate they would take at this step, relative to the
block's rms."""


def fit_profile(states: Sequence[Array]) -> CodecProfile:
    """Fit means, bases, sigmas and tables.

    Args:
        states: float32 (B, 2, S, N, H, Dh) each, of the same model; N may differ. Iterated three
            times, so a sequence that loads on access keeps memory small.

    Returns:
        A profile with sensitivity = 1 / rms of each (block, K|V) and step weights of 1; replace
        them when better known.

    Raises:
        InputError: no states, no tokens, or shapes that differ.
    """
    dims = _common_dims(states)
    mean = _mean(states)
    step_cov, channel_cov = _covariances(states, mean)
    rms = np.sqrt(np.trace(channel_cov, axis1=-2, axis2=-1).sum(-1) / (dims[1] * dims[2] * dims[3]))
    base = identity_profile(*dims)
    parts = {
        "step_basis": _principal_axes(step_cov),
        "channel_basis": _principal_axes(channel_cov),
        "mean": mean.astype(np.float32),
        "sensitivity": (1 / np.maximum(rms, 1e-12)).astype(np.float32),
        "step_weight": base.step_weight,
    }
    rotated = CodecProfile(**parts, sigma=base.sigma, tables=base.tables)
    sigma = _sigmas(states, rotated)
    shape = (1 - _PRIOR_SHARE) * _shape(
        states, rotated, sigma, rms
    ) + _PRIOR_SHARE * default_shape()
    return CodecProfile(**parts, sigma=sigma, tables=tables_for_shape(shape))


def _common_dims(states: Sequence[Array]) -> tuple[int, int, int, int]:
    if not states:
        raise InputError("a profile needs at least one calibration state")
    found = {
        (s.shape[0], s.shape[2], *s.shape[4:]) if s.ndim == 6 and s.shape[1] == 2 else ()
        for s in states
    }
    if len(found) != 1 or () in found:
        raise InputError(
            f"calibration states must share (B, 2, S, N, H, Dh), found {sorted(found)}"
        )
    if any(s.shape[3] == 0 for s in states):
        raise InputError("a calibration state has no tokens")
    return found.pop()


def _mean(states: Iterable[Array]) -> Array:
    total, count = 0.0, 0
    for state in states:
        total = total + state.sum(3, dtype=np.float64)
        count += state.shape[3]
    return np.asarray(total / count)


def _covariances(states: Iterable[Array], mean: Array) -> tuple[Array, Array]:
    """Second moments per token: over steps (B, 2, S, S), summed over channels; over channels (B, 2,
    H, D, D), over steps."""
    step_cov: Any = 0.0
    channel_cov: Any = 0.0
    count = 0
    for state in states:
        centred = state - mean[:, :, :, None]
        flat = centred.reshape(*state.shape[:3], -1)
        step_cov = step_cov + flat @ np.swapaxes(flat, -1, -2)
        heads = centred.transpose(0, 1, 4, 5, 2, 3).reshape(*mean.shape[:2], *mean.shape[3:], -1)
        channel_cov = channel_cov + heads @ np.swapaxes(heads, -1, -2)
        count += state.shape[3]
    return step_cov / count, channel_cov / count


def _principal_axes(covariance: Array) -> Array:
    """Eigenvectors as columns, largest eigenvalue first; the largest entry of each is positive."""
    _, vectors = np.linalg.eigh(covariance)
    vectors = vectors[..., ::-1]
    peak = np.take_along_axis(vectors, np.abs(vectors).argmax(-2)[..., None, :], -2)
    return np.ascontiguousarray(vectors * np.where(peak < 0, -1, 1), np.float32)


def _coefficients(states: Iterable[Array], profile: CodecProfile) -> Iterator[Array]:
    """Coefficients (B, C, 2, N, H*D) of each state."""
    for state in states:
        yield np.stack([transform.forward(profile, b, state[b]) for b in range(len(state))])


def _sigmas(states: Iterable[Array], profile: CodecProfile) -> Array:
    total, count = 0.0, 0
    for coef in _coefficients(states, profile):
        total = total + np.square(coef, dtype=np.float64).sum(3)
        count += coef.shape[3]
    num_blocks, num_steps, num_heads, head_dim = profile.dims
    sigma = np.sqrt(np.asarray(total) / count).transpose(0, 2, 1, 3)
    return sigma.reshape(num_blocks, 2, num_steps, num_heads, head_dim).astype(np.float32)


def _shape(states: Iterable[Array], profile: CodecProfile, sigma: Array, rms: Array) -> Array:
    """Histogram of |coefficient| / sigma, each coefficient weighted by its likely rate."""
    flat = sigma.reshape(*sigma.shape[:3], -1).transpose(0, 2, 1, 3)[
        :, :, :, None
    ]  # (B, C, 2, 1, H*D)
    floor = _RATE_FLOOR * np.maximum(rms, 1e-12)[:, None, :, None, None]
    weight = np.log2(1 + np.square(flat / floor))
    total = np.zeros(NUM_GRID)
    for coef in _coefficients(states, profile):
        cell = np.minimum(np.abs(coef) / np.maximum(flat, 1e-30) / GRID_STEP, NUM_GRID - 1).astype(
            int
        )
        total += np.bincount(cell.ravel(), np.broadcast_to(weight, coef.shape).ravel(), NUM_GRID)
    return total / total.sum() if total.sum() > 0 else default_shape()
