"""Steps of the shards: the error model's identities, and the search for the scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.pack.allocate import (
    MAX_RANGE,
    base_steps,
    best_scale,
    coefficient_worth,
    component_shares,
    first_scale,
    next_scale,
    scale_at,
)

SEEDS = st.integers(0, 2**32)


def random_basis(seed: int, blocks: int, steps: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(blocks, 2, steps, steps)))[0]


@given(SEEDS, st.integers(1, 8))
def test_shares_sum_to_one(seed: int, steps: int) -> None:
    """Parseval: the trace of the error's quadratic form is the same in every orthonormal basis."""
    share = np.random.default_rng(seed).dirichlet(np.ones(steps))
    shares = component_shares(random_basis(seed, 3, steps), share)
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-9)
    assert (shares >= 0).all()


def test_shares_of_steps_themselves() -> None:
    share = np.array([0.1, 0.2, 0.7])
    identity = np.broadcast_to(np.eye(3), (2, 2, 3, 3))
    np.testing.assert_allclose(component_shares(identity, share)[1, 1], share)


@given(SEEDS, st.floats(1e-6, 1e3))
def test_every_coefficient_costs_the_same(seed: int, scale: float) -> None:
    """Reverse water-filling: worth x step^2 is one number."""
    rng = np.random.default_rng(seed)
    worth = coefficient_worth(rng.random((2, 2)) + 0.1, rng.random((2, 2, 3)) + 0.1)
    np.testing.assert_allclose(worth * base_steps(worth, scale) ** 2, scale**2, rtol=2e-3)


def test_worthless_coefficients_keep_a_sane_step() -> None:
    worth = coefficient_worth(np.array([[1.0, 1e-30]]), np.ones((1, 2, 1)))
    assert worth.min() == pytest.approx(1 / MAX_RANGE)


def test_first_scale_is_right_for_fine_steps() -> None:
    """A uniform quantiser leaves step^2 / 12 a coefficient; level 1 divides the step by 3."""
    worth = np.random.default_rng(0).random((3, 2, 4)) + 0.5
    scale = scale_at(first_scale(worth, 1e-4, level=1))
    mse = (worth * (base_steps(worth, scale) / 3) ** 2 / 12).sum()
    assert 10 * abs(math.log10(mse / 1e-4)) <= 20 * math.log10(2) / 8 / 2 + 1e-9


@given(st.integers(-60, 60), st.integers(-60, 60), st.floats(0.6, 1.6), st.floats(-0.3, 0.3))
def test_search_finds_the_largest_scale_that_passes(
    start: int, answer: int, slope: float, bend: float
) -> None:
    """PSNR falls with the scale; how steeply is unknown to the search."""

    def psnr_db(index: int) -> float:
        away = (answer + 0.5 - index) * 0.75
        return 40 + away * (slope + bend * math.tanh(away))

    tried: dict[int, float] = {}
    index: int | None = start
    while index is not None and index not in tried:
        tried[index] = psnr_db(index)
        index = next_scale(tried, 40.0)
    assert best_scale(tried, 40.0) == answer
    assert len(tried) <= 40


def test_search_is_short_when_the_slope_is_as_expected() -> None:
    tried: dict[int, float] = {}
    index: int | None = 10
    while index is not None:
        tried[index] = 40 + (3.5 - index) * 20 * math.log10(2) / 8
        index = next_scale(tried, 40.0)
    assert best_scale(tried, 40.0) == 3 and len(tried) <= 3


def test_nothing_passes_takes_the_finest() -> None:
    assert best_scale({3: 20.0, 1: 25.0}, 40.0) == 1
