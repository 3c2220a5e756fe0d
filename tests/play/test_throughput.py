"""The estimate against links of known rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.play.throughput import Throughput

RATE_BPS = 8e6  # one byte per microsecond


def drain(estimate: Throughput, fetches: list[int], start_s: float, num_pieces: int) -> float:
    """Pieces of 1000 bytes, a millisecond each, in turn for every fetch; returns the end."""
    now_s = start_s
    for number in range(num_pieces):
        now_s = start_s + 1e-3 * (number + 1)
        estimate.arrived(fetches[number % len(fetches)], 1000, now_s)
    return now_s


@given(num_fetches=st.integers(1, 6), ttfb_s=st.floats(0, 0.5))
def test_parallel_fetches_count_as_one_stream(num_fetches: int, ttfb_s: float) -> None:
    estimate = Throughput()
    fetches = list(range(num_fetches))
    for fetch in fetches:
        estimate.started(fetch, 0.0)
    now_s = drain(estimate, fetches, ttfb_s, 100)
    assert estimate.estimate_bps(now_s) == pytest.approx(RATE_BPS, rel=1e-6)


def test_time_to_first_byte_is_no_transfer_time() -> None:
    estimate = Throughput()
    estimate.started(0, 1.0)
    drain(estimate, [0], 1.2, 50)
    assert estimate.ttfb_s == pytest.approx(0.201)
    assert estimate.least_ttfb_s == pytest.approx(0.201)


def test_idle_time_is_no_transfer_time() -> None:
    estimate = Throughput()
    for start_s in (0.0, 10.0):
        estimate.started(int(start_s), start_s)
        end_s = drain(estimate, [int(start_s)], start_s, 20)
        estimate.ended(int(start_s), end_s)
    assert estimate.estimate_bps(60.0) == pytest.approx(RATE_BPS, rel=1e-6)


def test_silence_on_an_open_fetch_lowers_the_estimate_at_once() -> None:
    estimate = Throughput()
    estimate.started(0, 0.0)
    now_s = drain(estimate, [0], 0.0, 50)
    falling = [estimate.estimate_bps(now_s + silent_s) or 0.0 for silent_s in (0, 0.05, 0.2, 1.0)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < RATE_BPS / 20


def test_smaller_of_two_averages_wins() -> None:
    estimate = Throughput()
    estimate.started(0, 0.0)
    now_s = drain(estimate, [0], 0.0, 400)
    for number in range(20):  # ten times slower for 0.2 s
        estimate.arrived(0, 1000, now_s + 0.01 * (number + 1))
    slow = estimate.estimate_bps(now_s + 0.2) or 0.0
    assert RATE_BPS / 10 <= slow < RATE_BPS / 2


def test_prior_holds_until_enough_is_measured() -> None:
    estimate = Throughput(prior_bps=5e6)
    estimate.started(0, 0.0)
    estimate.arrived(0, 1000, 0.1)
    assert (estimate.estimate_bps(0.1), estimate.is_measured) == (5e6, False)
    now_s = drain(estimate, [0], 0.1, 10)
    assert estimate.is_measured
    assert estimate.estimate_bps(now_s) == pytest.approx(RATE_BPS)


def test_nothing_is_known_at_first() -> None:
    assert Throughput().estimate_bps(3.0) is None


def test_unknown_fetches_are_ignored() -> None:
    estimate = Throughput()
    estimate.arrived(7, 1000, 0.1)
    estimate.ended(7, 0.2)
    assert estimate.estimate_bps(0.3) is None
