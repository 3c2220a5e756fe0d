"""Fused reconstruction: every kernel against coefficients times bases, whole and by changed parts.

float32 sums may be in any order: the bound is 1e-5 of the largest value. bfloat16 has 8 bits, so
half a unit in its last place is 2^-8 of a value; integers add a little of a channel's reach.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sakura.codec import CodecProfile, SakuraCodec, ShardSpec, TilePlan, inverse_channels
from sakura.codec.bf16 import from_bf16
from sakura.codec.kernel import Kernel, NumpyKernel
from sakura.codec.native import native_kernels
from sakura.codec.profile import identity_profile
from sakura.codec.raw import RawCodec
from sakura.codec.transform import to_groups

KERNELS = [NumpyKernel(), *native_kernels()]
SHAPES = [
    (4, 48, 1, 128),
    (4, 48, 4, 96),
    (6, 32, 3, 17),
    (1, 8, 1, 16),
    (2, 72, 2, 1),
    (2, 128, 1, 300),
]
"""Heads, head dimension, groups, rank; the last rank is beyond what the core takes."""
TILES = [(1,), (50, 50, 7), (64, 64, 64, 8)]


@cache
def profile(num_heads: int, head_dim: int, num_groups: int, rank: int) -> CodecProfile:
    rng = np.random.default_rng(rank)
    plain = identity_profile(1, 2, num_heads, head_dim)
    width = 2 * num_heads * head_dim // num_groups
    basis = rng.normal(size=(1, num_groups, width, rank)) * rng.uniform(0.01, 3, (1, 1, width, 1))
    sigma = plain.sigma * np.geomspace(8, 0.01, num_heads * head_dim).reshape(num_heads, head_dim)
    return CodecProfile(
        plain.step_basis,
        basis.astype(np.float16),
        plain.mean,
        sigma.astype(np.float32),
        plain.sensitivity,
        plain.step_weight,
        plain.tables,
    )


def spec_of(widths: tuple[int, ...]) -> ShardSpec:
    gains = tuple(3 * n - len(widths) for n in range(len(widths)))
    return ShardSpec(0, 1, (0.5, 1.25), TilePlan(widths, gains))


def values_of(shape: CodecProfile, widths: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(len(widths))
    sigma = shape.sigma[0, :, 1].reshape(2, 1, -1)
    return (rng.laplace(size=(2, sum(widths), sigma.shape[2])) * sigma).astype(np.float32)


def reach(shape: CodecProfile, coef: np.ndarray) -> np.ndarray:
    """(2, 1, H, D): norm of a group's coefficients, at its largest token, times each channel's."""
    _, _, num_heads, head_dim = shape.dims
    size = np.linalg.norm(to_groups(coef[None], shape.num_groups)[0], axis=-1).max(1)  # (G,)
    channel = np.linalg.norm(shape.channel_synthesis[0], axis=-1) * size[:, None]
    return channel.reshape(len(size), 2, -1).swapaxes(0, 1).reshape(2, 1, num_heads, head_dim)


@pytest.mark.parametrize("widths", TILES, ids=str)
@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_channels_are_coefficients_times_bases(
    kernel: Kernel, dims: tuple[int, int, int, int], widths: tuple[int, ...]
) -> None:
    shape, spec = profile(*dims), spec_of(widths)
    layers = SakuraCodec(shape).encode_shard(spec, values_of(shape, widths)).layers
    decoder = SakuraCodec(shape, kernel).decoder(spec)
    size = 2, sum(widths), dims[0], dims[1]
    whole, updated = np.full(size, np.nan, np.float32), np.full(size, np.nan, np.float32)
    half = np.zeros(size, np.uint16)
    for level, data in enumerate(layers):
        decoder.feed_layer(level, data, complete=True)
        decoder.reconstruct(updated, is_update=True)
        decoder.reconstruct(whole)
        decoder.reconstruct(half)
        expected = inverse_channels(shape, 0, decoder.coefficients())
        most = max(float(np.abs(expected).max()), 1e-30)
        np.testing.assert_allclose(whole, expected, atol=1e-5 * most, rtol=0)
        np.testing.assert_array_equal(updated, whole)
        rounding = np.abs(expected) * 2.0**-8 + reach(shape, decoder.coefficients()) * 2.0**-11
        assert (np.abs(from_bf16(half) - expected) <= rounding).all()


def test_uncompressed_state_needs_no_product() -> None:
    plain, widths = identity_profile(1, 2, 3, 8), (5, 3)
    coef, spec = values_of(plain, widths), ShardSpec(0, 1, (1.0, 1.0), TilePlan(widths, (0, 0)))
    decoder = RawCodec(plain).decoder(spec)
    decoder.feed_layer(0, RawCodec(plain).encode_shard(spec, coef).layers[0], complete=True)
    out = np.empty((2, 8, 3, 8), np.float32)
    decoder.reconstruct(out)
    np.testing.assert_array_equal(out, inverse_channels(plain, 0, decoder.coefficients()))
