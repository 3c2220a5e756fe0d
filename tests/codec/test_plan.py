"""Plans: which columns start when, in which order, with how many lanes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sakura.codec import SakuraCodec, ShardSpec, TilePlan
from sakura.codec.kernel import NumpyKernel
from sakura.codec.plan import ShardPlan, gain_factor, num_lanes_for, plan_shard, scale_at
from sakura.codec.tables import default_tables
from sakura.errors import CodecError
from tests.codec.cases import spectrum_profile

LIMITS = default_tables().limits


def plan_for(sigma: list[float], tiles: TilePlan, delta: float = 1.0) -> ShardPlan:
    """Plan with the same sigmas for K and V."""
    return plan_shard(np.array([sigma, sigma], np.float32), LIMITS, (delta, delta), tiles)


def test_a_column_starts_where_sigma_reaches_the_threshold() -> None:
    sigma = [0.0, 0.01, 0.03, 0.1, 0.35, 0.37, 1.07, 1.09, 3.25, 9.8, 30.0, 1e9]
    plan = plan_for(sigma, TilePlan((3,), (0,)))
    # First exponent e is the largest with sigma / 3^e >= 0.36, at most 4; below -3: never.
    expected = [math.floor(math.log(s / 0.36, 3)) if s else -4 for s in sigma]
    expected = [min(max(e, -4), 4) for e in expected]
    found = sorted(plan.first_exponent.tolist())
    assert found == sorted(expected * 2)


def test_each_layer_brings_every_started_column_to_its_step() -> None:
    plan = plan_for([0.02, 0.1, 0.3, 0.5, 2.0, 20.0], TilePlan((64, 5), (0, 3)))
    seen: dict[int, int] = {}
    for layer in range(4):
        part = plan.layer(layer)
        for column, exponent, edge in zip(part.column, part.exponent, part.edge, strict=True):
            if int(column) in seen:
                assert seen[int(column)] == exponent + 1
                assert edge >= 2
            else:
                assert plan.first_exponent[column] == exponent
                assert edge == 0
            seen[int(column)] = int(exponent)
        assert set(seen.values()) == {-layer}


def test_columns_stand_by_class_then_tile_then_kv_then_coefficient() -> None:
    tiles = TilePlan((4, 2), (0, 0))
    plan = plan_shard(np.array([[1, 9], [9, 1]], np.float32), LIMITS, (1.0, 1.0), tiles)
    # (2, coefs, N) with N = 6: K coefficient 1 begins at 6, V coefficient 0 at 12.
    assert plan.offset.tolist() == [6, 12, 10, 16, 0, 18, 4, 22]
    assert plan.width.tolist() == [4, 4, 2, 2, 4, 4, 2, 2]


def test_every_value_belongs_to_exactly_one_column() -> None:
    plan = plan_for([1.0, 5.0, 0.2], TilePlan((64, 64, 7), (1, 0, -5)))
    assert sorted(plan.values.tolist()) == list(range(2 * 3 * 135))


def test_gains_are_quarter_octaves() -> None:
    for gain in range(-32, 33):
        assert gain_factor(gain) == pytest.approx(2 ** (gain / 4), rel=1e-15)
    plan = plan_for([1.0], TilePlan((1, 1), (4, -4)), delta=3.0)
    assert sorted(plan.step.tolist()) == [1.5, 1.5, 6.0, 6.0]


def test_scales_are_powers_of_three() -> None:
    exponents = np.arange(-3, 5)
    assert scale_at(exponents) == pytest.approx(3.0**exponents, rel=1e-15)


def test_indices_fit_int16_at_the_deepest_level() -> None:
    limits = np.array([7, 7, 7])
    plan = plan_shard(np.full((2, 1), 1e9, np.float32), limits, (1.0, 1.0), TilePlan((1,), (0,)))
    edge = 7
    for exponent in range(4, -4, -1):
        assert plan.edge_at(exponent).tolist() == [edge, edge]
        edge = 3 * edge + 13
    assert plan.edge_at(-3).max() <= np.iinfo(np.int16).max


@pytest.mark.parametrize(
    ("num_symbols", "width", "lanes"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (4095, 64, 1),
        (4096, 64, 2),
        (131071, 64, 32),
        (131072, 64, 64),
        (10**9, 64, 64),
        (10**9, 20, 20),
    ],
)
def test_lanes_grow_with_the_layer(num_symbols: int, width: int, lanes: int) -> None:
    assert num_lanes_for(num_symbols, width) == lanes


@pytest.mark.parametrize("delta", [0.0, -1.0, math.nan, math.inf, 1e-300])
def test_steps_that_make_no_sense_are_refused(delta: float) -> None:
    with pytest.raises(CodecError, match="base step"):
        plan_for([1.0], TilePlan((1,), (0,)), delta)


@pytest.mark.parametrize(
    ("widths", "gains", "message"),
    [
        ((1,), (), "1 tile widths but 0 gains"),
        ((0,), (0,), "0 tokens"),
        ((65,), (0,), "65 tokens"),
        ((1,), (33,), "gain 33"),
        ((64,) * 1025, (0,) * 1025, "65600 tokens"),
    ],
)
def test_tiles_out_of_range_are_refused(
    widths: tuple[int, ...], gains: tuple[int, ...], message: str
) -> None:
    with pytest.raises(CodecError, match=message):
        TilePlan(widths, gains)


def test_uniform_tiles_cover_all_tokens() -> None:
    assert TilePlan.uniform(130).widths == (64, 64, 2)
    assert TilePlan.uniform(64).widths == (64,)
    assert TilePlan.uniform(0).widths == ()
    assert TilePlan.uniform(130).starts == (0, 64, 128)


@pytest.mark.parametrize(("block", "component"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_a_shard_outside_the_profile_is_refused(block: int, component: int) -> None:
    codec = SakuraCodec(spectrum_profile(1, 2), NumpyKernel())
    with pytest.raises(CodecError, match="outside the profile"):
        codec.decoder(ShardSpec(block, component, (1.0, 1.0), TilePlan.uniform(3)))


def test_a_layer_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CodecError, match="layer 4"):
        plan_for([1.0], TilePlan((1,), (0,))).layer(4)


@pytest.mark.parametrize("num_layers", [0, 5])
def test_a_number_of_layers_out_of_range_is_refused(num_layers: int) -> None:
    codec = SakuraCodec(spectrum_profile(1, 2), NumpyKernel())
    shard = ShardSpec(0, 0, (1.0, 1.0), TilePlan.uniform(3))
    with pytest.raises(CodecError, match=r"expected 1\.\.4"):
        codec.encode_shard(shard, np.zeros((2, 3, 2), np.float32), num_layers)
