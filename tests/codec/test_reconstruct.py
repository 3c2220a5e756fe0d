"""The fused reconstruction against the transform it replaces."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sakura.codec import SakuraCodec, TilePlan, inverse_channels
from sakura.codec.bf16 import from_bf16, to_bf16
from sakura.codec.kernel import Kernel
from tests.codec.cases import Array, draw, kernels, spec, spectrum_profile
from tests.codec.vectors import rotated

TILES = TilePlan((64, 50, 1), (3, 0, -2))
HEAD_DIMS = (32, 64, 72, 128, 9)


def snr_db(exact: Array, found: Array) -> float:
    """Energy over that of the difference."""
    error = np.square(exact - found, dtype=np.float64).sum()
    return float(10 * np.log10(np.square(exact, dtype=np.float64).sum() / max(error, 1e-300)))


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_reconstruction_is_dequantising_and_the_inverse(kernel: Kernel, head_dim: int) -> None:
    profile = rotated(spectrum_profile(2, head_dim))
    coef = draw(profile, TILES.num_tokens, seed=1)
    coef[0, 3, 1] = 3000.0
    codec = SakuraCodec(profile, kernel)
    shard = codec.encode_shard(spec(TILES), coef)
    decoder = codec.decoder(spec(TILES))
    shape = (2, TILES.num_tokens, 2, head_dim)
    values, updated = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    half, klt = np.zeros(shape, np.uint16), np.zeros((2, 2 * head_dim, shape[1]), np.uint16)
    for layer, data in enumerate(shard.layers):
        for share in (0.3, 0.7, 1.0):
            decoder.feed_layer(layer, data[: int(share * len(data))], complete=share == 1)
            decoder.reconstruct(updated, is_update=True)
            decoder.reconstruct(values)
            exact = inverse_channels(profile, 0, decoder.coefficients())
            assert np.abs(values - exact).max() <= 1e-5 * max(np.abs(exact).max(), 1e-9)
            assert (values == updated).all()
        decoder.reconstruct(half)
        # A rounding to 8 bits alone leaves 51 to 56 dB.
        assert snr_db(exact, from_bf16(half)) > 48
        decoder.dequantize(klt)
        assert (klt == to_bf16(decoder.coefficients().transpose(0, 2, 1))).all()


@pytest.mark.parametrize("kernel", kernels())
def test_nothing_decoded_is_zero(kernel: Kernel) -> None:
    profile = spectrum_profile(2, 32)
    decoder = SakuraCodec(profile, kernel).decoder(spec(TILES))
    values = np.ones((2, TILES.num_tokens, 2, 32), np.float32)
    decoder.reconstruct(values)
    assert not values.any()


@pytest.mark.parametrize("kernel", kernels())
def test_an_update_leaves_alone_what_did_not_change(kernel: Kernel) -> None:
    """Only the first columns of the coding order arrived: all of the tile with the finest steps."""
    profile = dataclasses.replace(
        spectrum_profile(2, 32), sigma=np.full((1, 2, 1, 2, 32), 0.5, np.float32)
    )
    tiles = TilePlan((32, 32), (8, 0))
    codec = SakuraCodec(profile, kernel)
    shard = codec.encode_shard(spec(tiles), draw(profile, 64, seed=2))
    decoder = codec.decoder(spec(tiles))
    values = np.zeros((2, 64, 2, 32), np.float32)
    decoder.reconstruct(values)
    marked = np.full_like(values, 7)
    count = decoder.feed_layer(0, shard.layers[0][: len(shard.layers[0]) // 2], complete=False)
    assert 0 < count < 256
    decoder.reconstruct(marked, is_update=True)
    assert (marked[:, 32:] == 7).all()
    assert not (marked[:, :32] == 7).all()
