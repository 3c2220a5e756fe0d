"""Encoding, then decoding, for shapes and values nobody would choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sakura.codec import SakuraCodec, ShardSpec, TilePlan
from sakura.codec.kernel import NumpyKernel
from sakura.codec.native import NativeKernel
from sakura.codec.plan import scale_at
from sakura.codec.quantize import edges, index_at, per_value, quantize_columns
from tests.codec.cases import Array, compiled_kernels, decode_all, draw, spec, spectrum_profile

HEAD_DIMS = (1, 32, 48, 64, 72)
tilings = st.lists(st.tuples(st.integers(1, 64), st.integers(-8, 8)), min_size=1, max_size=2).map(
    lambda tiles: TilePlan(tuple(w for w, _ in tiles), tuple(g for _, g in tiles))
)
shapes = st.tuples(st.integers(1, 2), st.sampled_from(HEAD_DIMS))
deltas = st.floats(1e-3, 1e3)


@settings(max_examples=25, deadline=None)
@given(tiles=tilings, shape=shapes, delta=deltas, seed=st.integers(0, 99))
def test_the_error_stays_within_the_bin(
    tiles: TilePlan, shape: tuple[int, int], delta: float, seed: int
) -> None:
    """At every level: half a step and the shrink for coded values, the value itself otherwise."""
    profile = spectrum_profile(*shape)
    shard_spec = spec(tiles, (delta, 2 * delta))
    coef = draw(profile, tiles.num_tokens, seed)
    codec = SakuraCodec(profile)
    shard = codec.encode_shard(shard_spec, coef)
    plan = codec.plan(shard_spec)
    levels = decode_all(codec, shard_spec, shard.layers)
    for layer, values in enumerate(levels):
        step = per_value(plan, plan.step * scale_at(np.array(-layer))).reshape(plan.shape)
        edge = edges(plan, -layer).reshape(plan.shape)
        source = coef.transpose(0, 2, 1)
        error = np.abs(source - values.transpose(0, 2, 1))
        is_inside = np.abs(source) < (edge + 0.5) * step
        assert (error[is_inside & (edge > 0)] <= (1.001 * step)[is_inside & (edge > 0)]).all()
        assert (error[edge == 0] == np.abs(source)[edge == 0]).all()


@pytest.mark.parametrize("native", compiled_kernels())
@settings(max_examples=8, deadline=None)
@given(tiles=tilings, shape=shapes, delta=st.floats(0.5, 50), seed=st.integers(0, 99))
def test_kernels_agree_bit_for_bit(
    native: NativeKernel, tiles: TilePlan, shape: tuple[int, int], delta: float, seed: int
) -> None:
    profile = spectrum_profile(*shape)
    shard_spec = spec(tiles, (delta, delta / 3))
    coef = draw(profile, tiles.num_tokens, seed)
    coef[0, 0, 0] = 1e4
    codecs = [SakuraCodec(profile, kernel) for kernel in (NumpyKernel(), native)]
    ours, theirs = (codec.encode_shard(shard_spec, coef, num_layers=2) for codec in codecs)
    assert ours.layers == theirs.layers
    assert ours.energy == pytest.approx(theirs.energy, rel=1e-12)
    for stats, others in zip(ours.stats, theirs.stats, strict=True):
        assert stats.clipped == others.clipped
        assert stats.distortion == pytest.approx(others.distortion, rel=1e-6)
        assert stats.weighted == pytest.approx(others.weighted, rel=1e-6)
    levels = [decode_all(codec, shard_spec, ours.layers) for codec in codecs]
    for values, others in zip(*levels, strict=True):
        assert values.tobytes() == others.tobytes()


@settings(max_examples=20, deadline=None)
@given(
    source=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=10, max_size=10),
    delta=st.floats(1e-6, 1e6),
)
def test_any_finite_value_survives(source: list[float], delta: float) -> None:
    """Outliers are cut, never wrapped: the sign stays and the size does not grow."""
    profile = spectrum_profile(1, 1)
    coef = np.array(source, np.float32).reshape(2, 5, 1)
    shard_spec = spec(TilePlan((5,), (0,)), (delta, delta))
    codec = SakuraCodec(profile)
    for values in decode_all(codec, shard_spec, codec.encode_shard(shard_spec, coef).layers):
        assert (np.sign(values) * np.sign(coef) >= 0).all()
        assert (np.abs(values) <= np.maximum(2 * np.abs(coef), 0)).all()


def test_zeros_decode_to_zeros() -> None:
    profile = spectrum_profile(4, 48)
    codec, shard_spec = SakuraCodec(profile), spec(TilePlan.uniform(100))
    shard = codec.encode_shard(shard_spec, np.zeros((2, 100, 192), np.float32))
    assert shard.energy == (0.0, 0.0)
    for values in decode_all(codec, shard_spec, shard.layers):
        assert not values.any()


def test_outliers_are_resolved_by_the_refinements() -> None:
    """14 sigma lie beyond the alphabet -2..2; the reach of the layers is 2, 19/3, 70/9, 223/27."""
    profile = spectrum_profile(1, 1, largest=0.5)
    coef = np.zeros((2, 40, 1), np.float32)
    coef[0, 7], coef[1, 8] = 7.0, -7.0
    codec, shard_spec = SakuraCodec(profile), spec(TilePlan.uniform(40), (1.0, 1.0))
    shard = codec.encode_shard(shard_spec, coef)
    errors = [np.abs(coef - v).max() for v in decode_all(codec, shard_spec, shard.layers)]
    assert errors[0] > 1
    assert errors[3] <= 0.5 / 27 * 1.2
    assert [s.clipped for s in shard.stats] == [2 / 80, 2 / 80, 0.0, 0.0]


def refine_by_hand(index: int, edge: int) -> set[int]:
    """Indices one pass finer that lie in the bin of `index`."""
    if abs(index) < edge:
        return {3 * index - 1, 3 * index, 3 * index + 1}
    sign = -1 if index < 0 else 1
    return {sign * (3 * edge - 1 + s) for s in range(15)}


def test_refinement_is_nested_exactly() -> None:
    profile = spectrum_profile(1, 12)
    codec, shard_spec = SakuraCodec(profile), spec(TilePlan((33,), (0,)))
    coef = draw(profile, 33, seed=1) * 3
    plan = codec.plan(shard_spec)
    finest = quantize_columns(plan, np.ascontiguousarray(coef.transpose(0, 2, 1)), -3)
    for layer in range(3):
        coarse_edge = edges(plan, -layer)
        coarse = index_at(finest, 3 - layer, coarse_edge)
        fine = index_at(finest, 2 - layer, edges(plan, -layer - 1))
        for q, finer, edge in zip(coarse, fine, coarse_edge, strict=True):
            assert edge == 0 or int(finer) in refine_by_hand(int(q), int(edge))


def test_fewer_layers_are_the_first_of_more() -> None:
    """Levels are cut points of one stream: at each, the distortion is that of a direct encoding."""
    profile = spectrum_profile(2, 16)
    coef = draw(profile, 70, seed=2)
    codec, shard_spec = SakuraCodec(profile), spec(TilePlan.uniform(70))
    full = codec.encode_shard(shard_spec, coef)
    for num_layers in (1, 2, 3):
        part = codec.encode_shard(shard_spec, coef, num_layers)
        assert part.layers == full.layers[:num_layers]
        assert part.stats == full.stats[:num_layers]


def test_gain_makes_important_tokens_finer() -> None:
    profile = spectrum_profile(1, 48)
    coef = draw(profile, 64, seed=4)
    codec = SakuraCodec(profile)
    shard_spec = ShardSpec(0, 0, (1.0, 1.0), TilePlan((32, 32), (8, 0)))
    shard = codec.encode_shard(shard_spec, coef)
    values = decode_all(codec, shard_spec, shard.layers)[0]
    error: Array = np.square(coef - values).mean((0, 2))
    # Four times finer steps: sixteen times less noise at high rate, less at low rate.
    assert error[:32].mean() < error[32:].mean() / 4
    plain, weighted = shard.stats[0].distortion, shard.stats[0].weighted
    by_hand = np.square(coef - values, dtype=np.float64).mean(2) @ ([16.0] * 32 + [1.0] * 32) / 64
    assert weighted == pytest.approx(tuple(by_hand), rel=1e-6)
    assert weighted > plain
