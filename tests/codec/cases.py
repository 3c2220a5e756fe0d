"""Small profiles, shards and kernels that the codec tests share."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.codec import (
    CodecProfile,
    EncodedShard,
    SakuraCodec,
    ShardSpec,
    TilePlan,
    identity_profile,
)
from sakura.codec.kernel import Kernel, NumpyKernel
from sakura.codec.native import native_kernels

Array = NDArray[Any]


def kernels() -> list[Any]:
    """Pytest parameters: the reference, and every native kernel (skipped where it is not built)."""
    return [pytest.param(NumpyKernel(), id="numpy"), *compiled_kernels()]


def compiled_kernels() -> list[Any]:
    """Pytest parameters: every native kernel that this machine can run."""
    missing = pytest.mark.skip(reason="the native core is not built")
    found = [pytest.param(kernel, id=kernel.name) for kernel in native_kernels()]
    return found or [pytest.param(None, id="native", marks=missing)]


def spectrum_profile(num_heads: int, head_dim: int, largest: float = 4.0) -> CodecProfile:
    """One block, one step, no rotation; sigmas fall from `largest` over three decades."""
    profile = identity_profile(1, 1, num_heads, head_dim)
    sigma = largest * 10.0 ** -np.linspace(0, 3, num_heads * head_dim)
    sigma = np.stack([sigma, sigma[::-1]]).astype(np.float32)
    return dataclasses.replace(profile, sigma=sigma.reshape(profile.sigma.shape))


def draw(profile: CodecProfile, num_tokens: int, seed: int, kind: str = "laplace") -> Array:
    """Coefficients (2, N, H*Dh) that follow the profile's sigmas."""
    rng = np.random.default_rng(seed)
    shape = (2, num_tokens, profile.num_coefs)
    unit = rng.normal(size=shape) if kind == "normal" else rng.laplace(size=shape) / np.sqrt(2)
    return (unit * profile.sigma.reshape(2, 1, -1)).astype(np.float32)


def spec(tiles: TilePlan, delta: tuple[float, float] = (1.0, 0.7)) -> ShardSpec:
    """Shard (0, 0)."""
    return ShardSpec(block=0, component=0, delta=delta, tiles=tiles)


@dataclasses.dataclass(frozen=True)
class Case:
    """A shard and what it was made of."""

    profile: CodecProfile
    spec: ShardSpec
    coef: Array
    shard: EncodedShard


def small_case() -> Case:
    """Two tiles of different gain, 9 coefficients of each of K and V, about 800 bytes."""
    profile = spectrum_profile(1, 9)
    small = spec(TilePlan(widths=(20, 7), gains=(3, -2)))
    coef = np.rint(draw(profile, 27, seed=5) * 1024) / np.float32(1024)
    coef[0, 3, 2] = 60.0  # far beyond every alphabet
    coef[1, 26, 8] = -25.0
    shard = SakuraCodec(profile, NumpyKernel()).encode_shard(small, coef)
    return Case(profile, small, coef, shard)


def tiny_case() -> Case:
    """All kinds of columns in about 100 bytes: early and late starts, refinements, an outlier."""
    profile = spectrum_profile(1, 4)
    tiny = spec(TilePlan(widths=(5, 2), gains=(3, -2)))
    coef = draw(profile, 7, seed=7)
    coef[0, 3, 1] = 60.0
    shard = SakuraCodec(profile, NumpyKernel()).encode_shard(tiny, coef)
    return Case(profile, tiny, coef, shard)


def wide_case() -> Case:
    """Enough symbols for several lanes, and a last tile that does not fill them."""
    profile = spectrum_profile(1, 20, largest=2.0)
    wide = spec(TilePlan(widths=(64, 43), gains=(4, 0)), delta=(0.01, 0.02))
    coef = np.rint(draw(profile, 107, seed=6) * 1024) / np.float32(1024)
    shard = SakuraCodec(profile, NumpyKernel()).encode_shard(wide, coef, num_layers=2)
    return Case(profile, wide, coef, shard)


def decode_all(codec: Any, spec: ShardSpec, layers: tuple[bytes, ...]) -> list[Array]:
    """Coefficients after each complete layer."""
    decoder = codec.decoder(spec)
    levels = []
    for layer, data in enumerate(layers):
        decoder.feed_layer(layer, data, complete=True)
        levels.append(decoder.coefficients().copy())
    return levels


__all__ = [
    "Case",
    "Kernel",
    "compiled_kernels",
    "decode_all",
    "draw",
    "kernels",
    "small_case",
    "spec",
    "spectrum_profile",
    "tiny_case",
    "wide_case",
]
