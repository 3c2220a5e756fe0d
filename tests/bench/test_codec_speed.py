"""Packaged coders give back what they got; speeds have their keys and are of the shards."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from sakura.bench.codec_speed import NUM_LAYERS, encode_shards, measure_speed, symbol_blocks
from sakura.bench.packaged_coders import packaged_coders
from sakura.codec import SakuraCodec, ShardSpec, TilePlan, identity_profile


def test_packaged_coders_round_trip() -> None:
    coders, missing = packaged_coders()
    assert len(coders) + len(missing) == 4
    rng = np.random.default_rng(0)
    for coder in coders:
        for length in (1, 2, 1000, 50_000):
            symbols = rng.binomial(14, 0.4, length).astype(np.uint8)
            decoded = coder.decode(coder.encode(symbols), length)
            assert (decoded == symbols).all(), (coder.name, length)


@pytest.mark.skipif(find_spec("constriction") is None, reason="not installed")
def test_the_exact_coder_is_near_the_entropy() -> None:
    coder = next(c for c in packaged_coders()[0] if c.name.startswith("constriction"))
    symbols = np.random.default_rng(1).binomial(14, 0.4, 100_000).astype(np.uint8)
    share = np.bincount(symbols) / len(symbols)
    ideal = -(share * np.log2(np.where(share > 0, share, 1))).sum() * len(symbols)
    assert 8 * len(coder.encode(symbols)) < 1.005 * ideal


def test_speeds_are_of_the_shards() -> None:
    codec = SakuraCodec(identity_profile(1, 2, 2, 8))
    rng = np.random.default_rng(2)
    coefs = {
        ShardSpec(0, c, (1.0, 0.5), TilePlan.uniform(70)): rng.normal(size=(2, 70, 16)).astype("f4")
        for c in range(2)
    }
    coded = encode_shards(codec, coefs)
    assert coded.num_values == 2 * 2 * 70 * 16
    assert {len(layers) for layers in coded.layers.values()} == {NUM_LAYERS}
    blocks = symbol_blocks(coded)
    speed = measure_speed(coded, 1)
    # At least one symbol a value and layer: all of these columns start in the base layer.
    assert speed["num_symbols"] == sum(map(len, blocks)) >= NUM_LAYERS * coded.num_values
    for key in ("full_vs_memcpy", "klt_domain_vs_memcpy", "encode_mvalues_per_s"):
        assert speed[key] > 0
    assert speed["coders"][0]["num_bytes"] == sum(map(len, sum(coded.layers.values(), ())))
