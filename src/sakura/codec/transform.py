"""The two transforms around the coder: an orthonormal KLT over the steps of a block, then one over
a head's channels.

Dimensions: S steps, C components, N tokens, H heads, D head dimension; a leading axis of 2 is K, V.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.profile import CodecProfile
from sakura.errors import CodecError

Array = NDArray[Any]


def forward(profile: CodecProfile, block: int, state_2SNHD: Array) -> Array:
    """Coefficients of one block.

    Args:
        profile: bases and means.
        block: transformer block.
        state_2SNHD: float32 (2, S, N, H, D), K before RoPE and V at every step.

    Returns:
        Float32 (C, 2, N, H*D) with C = S.

    Raises:
        CodecError: the shape is not the profile's.
    """
    _, num_steps, num_heads, head_dim = profile.dims
    _check_block(profile, block)
    num_tokens = state_2SNHD.shape[2] if state_2SNHD.ndim == 5 else 0
    expected = (2, num_steps, num_tokens, num_heads, head_dim)
    if state_2SNHD.shape != expected:
        raise CodecError(
            f"state of a block is {state_2SNHD.shape}, expected (2, S, N, H, D) like {expected}"
        )
    centred = state_2SNHD.astype(np.float32) - profile.mean[block][:, :, None]
    flat = centred.reshape(2, num_steps, -1)
    comps = np.swapaxes(profile.step_basis[block], 1, 2) @ flat  # (2, C, N*H*D)
    comps = comps.reshape(2, num_steps, num_tokens, num_heads, head_dim).transpose(1, 0, 3, 2, 4)
    coef = comps @ profile.channel_basis[block]  # (C, 2, H, N, D)
    return np.ascontiguousarray(coef.transpose(0, 1, 3, 2, 4)).reshape(
        num_steps, 2, num_tokens, num_heads * head_dim
    )


def inverse_channels(profile: CodecProfile, block: int, coef: Array) -> Array:
    """One component in channel space: float32 (2, N, H*D) coefficients to (2, N, H, D)."""
    _check_block(profile, block)
    return rotate_back(profile.channel_basis[block], coef)


def rotate_back(basis_2HDD: Array, coef: Array) -> Array:
    """Coefficients (2, N, H*D) times the transposed bases: float32 (2, N, H, D)."""
    _, num_heads, head_dim, _ = basis_2HDD.shape
    num_tokens = coef.shape[1]
    heads = coef.reshape(2, num_tokens, num_heads, head_dim).transpose(0, 2, 1, 3)
    # Coefficients are sorted by energy: behind the last one that carries data, all are zero.
    is_live = coef.any(axis=1).reshape(-1, head_dim).any(axis=0)
    num_live = int(np.flatnonzero(is_live).max(initial=-1)) + 1
    basis = basis_2HDD[..., :num_live]
    values = heads[..., :num_live] @ np.swapaxes(basis, -1, -2)  # (2, H, N, D)
    return np.ascontiguousarray(values.transpose(0, 2, 1, 3))


def synthesise(profile: CodecProfile, block: int, comps_C2NHD: Array, step: int) -> Array:
    """K and V of one step from the first C <= S components: float32 (C, 2, N, H, D) to (2, N, H,
    D).

    Components that are missing count as zero, so no component at all gives the profile's mean.
    """
    _check_block(profile, block)
    num_comps = comps_C2NHD.shape[0]
    if not 0 <= step < profile.dims[1] or num_comps > profile.dims[1]:
        raise CodecError(
            f"step {step} of {num_comps} components, the profile has {profile.dims[1]}"
        )
    out = np.empty(comps_C2NHD.shape[1:], np.float32)
    out[:] = profile.mean[block, :, step, None]
    for kv in range(2):
        weights = profile.step_basis[block, kv, step, :num_comps]
        out[kv] += np.tensordot(weights, comps_C2NHD[:, kv], 1)
    return out


def _check_block(profile: CodecProfile, block: int) -> None:
    if not 0 <= block < profile.dims[0]:
        raise CodecError(f"block {block}, the profile has {profile.dims[0]}")
