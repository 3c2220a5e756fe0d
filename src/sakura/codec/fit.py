"""Fits a codec profile to calibration states. Deterministic; streams over the states three times
and keeps only moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import transform
from sakura.codec.profile import CodecProfile, identity_profile
from sakura.codec.tablegen import GRID_STEP, NUM_GRID, default_shape, tables_for_shape
from sakura.codec.transform import to_groups
from sakura.errors import InputError

Array = NDArray[Any]

_PRIOR_SHARE = 0.02
"""Share of the built-in source model in the fitted tables: keeps tails that a small calibration set
lacks."""
_RATE_FLOOR = 0.1
"""Coefficients count in the table fit by the rate they would take at this step, relative to the
block's rms."""


@dataclass(frozen=True, slots=True, eq=False)
class ErrorWeights:
    """What errors of the state cost, so that a coefficient's error costs the same wherever it goes.

    Args:
        steps: (S,) cost of each step, relative, positive; the step KLT sees its square root.
        channels: (B, 2, H, Dh, Dh) symmetric positive definite: an error e of a head's K or V
            channels costs e' M e, relative within the block.
    """

    steps: Array
    channels: Array


def fit_profile(
    states: Sequence[Array],
    weights: ErrorWeights | None = None,
    num_groups: int = 1,
    rank: int | None = None,
) -> CodecProfile:
    """Fit means, bases, sigmas and tables.

    Args:
        states: float32 (B, 2, S, N, H, Dh) each, of the same model; N may differ. Iterated three
            times, so a sequence that loads on access keeps memory small.
        weights: None: steps cost the same, and so do errors relative to the rms of K and of V.
        num_groups: groups of heads, G; a divisor of H.
        rank: coefficients of a group that are ever coded; None for all.

    Returns:
        A profile with sensitivities and step weights of 1; replace them when better known.

    Raises:
        InputError: no states, no tokens, shapes that differ, or groups that do not divide the
            heads.
    """
    dims = _common_dims(states)
    if dims[2] % num_groups:
        raise InputError(f"{dims[2]} heads in {num_groups} groups")
    mean = _mean(states)
    step_weight, roots = _roots(states, mean, weights, num_groups)
    step_cov, channel_cov = _covariances(states, mean, (step_weight, roots))
    base = identity_profile(*dims)
    axes = roots[1] @ _principal_axes(channel_cov)[..., :rank]
    parts = {
        "step_basis": _step_basis(step_cov, step_weight),
        "channel_basis": axes.astype(np.float16),
        "mean": mean.astype(np.float32),
        "sensitivity": base.sensitivity,
        "step_weight": base.step_weight,
    }
    return with_statistics(CodecProfile(**parts, sigma=base.sigma, tables=base.tables), states)


def with_statistics(profile: CodecProfile, states: Sequence[Array]) -> CodecProfile:
    """The profile with sigmas and tables of these states, for the bases it has."""
    sigma = _sigmas(states, profile)
    fitted = _shape(states, profile, sigma)
    shape = (1 - _PRIOR_SHARE) * fitted + _PRIOR_SHARE * default_shape()
    return replace(profile, sigma=sigma, tables=tables_for_shape(shape))


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


def _roots(
    states: Sequence[Array], mean: Array, weights: ErrorWeights | None, num_groups: int
) -> tuple[Array, tuple[Array, Array]]:
    """Root of each step's cost (S,), and of what channel errors of a group cost (B, G, E, E), with
    its inverse."""
    num_blocks, _, num_steps, num_heads, head_dim = mean.shape
    if weights is None:
        steps, channels = np.ones(num_steps), _relative_costs(states, mean)
    else:
        steps, channels = weights.steps, weights.channels
    per_group = num_heads // num_groups
    width = per_group * head_dim
    cost = np.zeros((num_blocks, num_groups, 2 * width, 2 * width))
    for part, head in np.ndindex(2, num_heads):
        start = part * width + head % per_group * head_dim
        place = slice(start, start + head_dim)
        cost[:, head // per_group, place, place] = channels[:, part, head]
    value, vector = np.linalg.eigh(cost)
    root = np.sqrt(value / value.mean((1, 2), keepdims=True))[..., None, :]
    back = np.swapaxes(vector, -1, -2)
    return np.sqrt(steps / steps.mean()), (vector * root @ back, vector / root @ back)


def _relative_costs(states: Iterable[Array], mean: Array) -> Array:
    """(B, 2, H, Dh, Dh): squared error over the mean square of K or of V."""
    total, count = 0.0, 0
    for state in states:
        centred = state - mean[:, :, :, None]
        total = total + np.square(centred, dtype=np.float64).mean((2, 4, 5)).sum(2)
        count += state.shape[3]
    rms2 = np.maximum(np.asarray(total) / count, 1e-24)
    shape = (*mean.shape[:2], *mean.shape[3:], mean.shape[-1])
    return np.broadcast_to(np.eye(mean.shape[-1]), shape) / rms2[:, :, None, None, None]


def _covariances(
    states: Iterable[Array], mean: Array, weights: tuple[Array, tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Second moments of weighted errors: over steps (B, S, S), over a group's channels (B, G, E,
    E)."""
    step_weight, (root, _) = weights
    num_groups = root.shape[1]
    step_cov: Any = 0.0
    channel_cov: Any = 0.0
    for state in states:
        centred = (state - mean[:, :, :, None]) * step_weight[:, None, None, None]
        num_blocks, _, num_steps, num_tokens = state.shape[:4]
        flat = centred.reshape(num_blocks, 2, num_steps * num_tokens, -1)
        grouped = to_groups(flat, num_groups) @ root  # (B, G, S*N, E)
        channel_cov = channel_cov + np.swapaxes(grouped, -1, -2) @ grouped
        apart = grouped.reshape(num_blocks, num_groups, num_steps, -1).swapaxes(1, 2)
        steps = apart.reshape(num_blocks, num_steps, -1)
        step_cov = step_cov + steps @ steps.swapaxes(-1, -2)
    return step_cov, channel_cov


def _step_basis(covariance: Array, step_weight: Array) -> Array:
    """(B, 2, S, S): principal axes of the weighted steps, weights taken off; K and V alike."""
    basis = _principal_axes(covariance) / step_weight[:, None]
    return np.repeat(basis[:, None], 2, axis=1).astype(np.float32)


def _principal_axes(covariance: Array) -> Array:
    """Eigenvectors as columns, largest eigenvalue first; the largest entry of each is positive."""
    _, vectors = np.linalg.eigh(covariance)
    vectors = vectors[..., ::-1]
    peak = np.take_along_axis(vectors, np.abs(vectors).argmax(-2)[..., None, :], -2)
    axes: Array = vectors * np.where(peak < 0, -1, 1)
    return axes


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


def _shape(states: Iterable[Array], profile: CodecProfile, sigma: Array) -> Array:
    """Histogram of |coefficient| / sigma, each coefficient weighted by its likely rate."""
    flat = sigma.reshape(*sigma.shape[:3], -1).transpose(0, 2, 1, 3)[
        :, :, :, None
    ]  # (B, C, 2, 1, H*D)
    rms = np.sqrt(np.square(flat, dtype=np.float64).sum((1, 2, 4), keepdims=True) / flat[0].size)
    weight = np.log2(1 + np.square(flat / (_RATE_FLOOR * np.maximum(rms, 1e-12))))
    total = np.zeros(NUM_GRID)
    for coef in _coefficients(states, profile):
        cell = np.minimum(np.abs(coef) / np.maximum(flat, 1e-30) / GRID_STEP, NUM_GRID - 1).astype(
            int
        )
        total += np.bincount(cell.ravel(), np.broadcast_to(weight, coef.shape).ravel(), NUM_GRID)
    return total / total.sum() if total.sum() > 0 else default_shape()
