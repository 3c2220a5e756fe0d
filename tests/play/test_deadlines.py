"""Block times and the start times that follow from them."""

from __future__ import annotations

import pytest

from sakura.play.deadlines import BlockTimes


def measured() -> BlockTimes:
    """Three blocks of 4, 5 and 6 ms with all tokens, 1, 2 and 3 ms with the active ones."""
    times = BlockTimes(3)
    for block in range(3):
        times.observe(block, "compute", 4e-3 + block * 1e-3)
        times.observe(block, "inject", 1e-3 + block * 1e-3)
    return times


def test_blocks_that_never_ran_get_the_mean_of_the_others() -> None:
    times = BlockTimes(3)
    assert times.expected_s(0, "inject") is None
    assert times.step_s("inject") is None
    times.observe(0, "inject", 0.002)
    times.observe(1, "inject", 0.004)
    assert times.expected_s(2, "inject") == pytest.approx(0.003)
    assert times.expected_s(2, "compute") is None


def test_average_moves_towards_new_measurements() -> None:
    times = BlockTimes(1)
    times.observe(0, "compute", 1.0)
    times.observe(0, "compute", 2.0)
    assert 1.0 < (times.expected_s(0, "compute") or 0) < 2.0
    for _ in range(50):
        times.observe(0, "compute", 2.0)
    assert times.expected_s(0, "compute") == pytest.approx(2.0)


def test_steps_are_sums_of_blocks() -> None:
    assert measured().step_s("compute") == pytest.approx(15e-3)
    assert measured().step_s("inject", first=1) == pytest.approx(5e-3)
    assert measured().fastest_step_s(first=2) == pytest.approx(3e-3)
    assert BlockTimes(3).fastest_step_s() == 0.0
