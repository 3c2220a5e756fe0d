"""Curves and ratios by hand-made points."""

from __future__ import annotations

import math

import pytest

from sakura.bench.codec_points import Point
from sakura.bench.rate_curves import (
    CurvePoint,
    bytes_at,
    bytes_ratio,
    curve,
    ratio_at_their_own,
    snr,
)


def point(subject: str, name: str, num_bytes: int, psnr_db: float | None) -> Point:
    return Point("c", subject, "t", name, num_bytes, 0.0, psnr_db, -3.0, None)


def test_curve_is_the_mean_over_subjects() -> None:
    points = [point("a", "1", 100, 30.0), point("b", "1", 400, 40.0)]
    assert curve(points) == [CurvePoint("1", pytest.approx(200), 35.0)]
    assert curve(points, snr)[0].quality == 3.0


def test_curve_drops_what_costs_more_and_gives_less() -> None:
    points = [
        point("a", "good", 100, 40.0),
        point("a", "bad", 120, 39.0),
        point("a", "worse", 100, 38.0),
        point("a", "best", 200, 41.0),
    ]
    assert [p.point for p in curve(points)] == ["good", "best"]


def test_points_without_quality_are_no_curve() -> None:
    assert curve([point("a", "1", 100, None)]) == []


CURVE = [CurvePoint("1", 100.0, 30.0), CurvePoint("2", 10_000.0, 50.0)]


def test_log_bytes_are_interpolated() -> None:
    assert bytes_at(CURVE, 40.0) == pytest.approx(1000)
    assert bytes_at(CURVE, 30.0) == pytest.approx(100)
    assert bytes_at(CURVE, 35.0) == pytest.approx(10**2.5)


@pytest.mark.parametrize("quality", [29.9, 50.1, math.inf])
def test_nothing_is_extrapolated(quality: float) -> None:
    assert bytes_at(CURVE, quality) is None
    assert bytes_at([], quality) is None


def test_ratios() -> None:
    half = [CurvePoint("1", 50.0, 30.0), CurvePoint("2", 5000.0, 44.0)]
    ratios = bytes_ratio(half, CURVE, (30.0, 45.0))
    assert ratios == {"30": 0.5, "45": None}
    one = [CurvePoint("8", 2000.0, 40.0), CurvePoint("9", 2000.0, 60.0)]
    assert ratio_at_their_own(CURVE, one) == {"8": 0.5, "9": None}
