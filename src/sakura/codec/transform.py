"""The two transforms around the coder: one over the steps of a block, then one over the K and V
channels of a group of heads.

Dimensions: S steps, C components, N tokens, H heads, D head dimension, G groups of E = 2 H D / G
channels; an axis of 2 is K, V of a state, and the two planes of coefficients.
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
        Float32 (C, 2, N, H*D) with C = S; axis 1 is the plane.

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
    comps = profile.step_analysis[block] @ flat  # (2, C, N*H*D)
    comps = comps.reshape(2, num_steps, num_tokens, num_heads * head_dim)
    return analyse(profile, block, np.ascontiguousarray(comps.swapaxes(0, 1)))


def analyse(profile: CodecProfile, block: int, channels_X2NC: Array) -> Array:
    """Channels (X, 2, N, H*D) of K and V to coefficients, float32 (X, 2, N, H*D) in planes."""
    grouped = to_groups(channels_X2NC, profile.num_groups)
    coefs = np.zeros_like(grouped, np.float32)
    coefs[..., : profile.rank] = grouped @ np.swapaxes(profile.channel_analysis[block], -1, -2)
    return from_groups(coefs)


def to_groups(values_X2NC: Array, num_groups: int) -> Array:
    """(X, 2, N, H*D) to (X, G, N, E): the group's part of the first plane, then of the second."""
    first, second = (
        values_X2NC[:, part].reshape(*values_X2NC.shape[:1], values_X2NC.shape[2], num_groups, -1)
        for part in range(2)
    )
    return np.concatenate([first, second], -1).swapaxes(1, 2)


def from_groups(grouped_XGNE: Array) -> Array:
    """Inverse of `to_groups`."""
    num, num_groups, num_tokens, width = grouped_XGNE.shape
    planes = grouped_XGNE.reshape(num, num_groups, num_tokens, 2, width // 2)
    return np.ascontiguousarray(planes.transpose(0, 3, 2, 1, 4)).reshape(num, 2, num_tokens, -1)


def inverse_channels(profile: CodecProfile, block: int, coef: Array) -> Array:
    """One component in channel space: float32 (2, N, H*D) coefficients to (2, N, H, D)."""
    _check_block(profile, block)
    _, _, num_heads, head_dim = profile.dims
    values = rotate_back(profile.channel_synthesis[block], coef)
    return values.reshape(2, coef.shape[1], num_heads, head_dim)


def rotate_back(basis_GER: Array, coef: Array) -> Array:
    """Coefficients (2, N, H*D) by a block's channel bases to channels, float32 (2, N, H*D)."""
    num_groups, _, rank = basis_GER.shape
    grouped = to_groups(coef[None], num_groups)
    # Coefficients are sorted by energy: behind the last one that carries data, all are zero.
    is_live = grouped[..., :rank].any(axis=(0, 1, 2))
    num_live = int(np.flatnonzero(is_live).max(initial=-1)) + 1
    values = grouped[..., :num_live] @ np.swapaxes(basis_GER[..., :num_live], -1, -2)
    return from_groups(values)[0]


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
