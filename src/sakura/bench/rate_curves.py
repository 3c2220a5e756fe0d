"""Rate-distortion curves from points, and how many bytes one codec needs for another's fidelity.
Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from sakura.bench.codec_points import Point

Quality = Callable[[Point], float | None]

TARGETS_DB = (35.0, 40.0, 45.0, 50.0)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Mean of one operating point over subjects.

    Args:
        point: its name.
        num_bytes: geometric mean.
        quality: mean, in dB; more is better.
    """

    point: str
    num_bytes: float
    quality: float


def psnr(point: Point) -> float | None:
    """Quality of the edit."""
    return point.psnr_db


def snr(point: Point) -> float | None:
    """Quality of the state, all tokens alike."""
    return -point.nmse_db


def weighted_snr(point: Point) -> float | None:
    """Quality of the state, tokens by their attention."""
    return None if point.weighted_nmse_db is None else -point.weighted_nmse_db


def curve(points: Iterable[Point], quality: Quality = psnr) -> list[CurvePoint]:
    """Means of the operating points over subjects, cheapest first, without those that cost more
    and give less than another."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.point, []).append(point)
    means = []
    for name, group in groups.items():
        values = [value for value in map(quality, group) if value is not None]
        if len(values) == len(group):
            size = math.exp(fmean(math.log(point.num_bytes) for point in group))
            means.append(CurvePoint(name, size, fmean(values)))
    kept: list[CurvePoint] = []
    for mean in sorted(means, key=lambda mean: (mean.num_bytes, -mean.quality)):
        if not kept or mean.quality > kept[-1].quality:
            kept.append(mean)
    return kept


def bytes_at(points: Sequence[CurvePoint], quality: float) -> float | None:
    """Bytes for a quality in dB, log bytes interpolated; None where the curve does not bracket
    it."""
    for below, above in pairwise(points):
        if below.quality <= quality <= above.quality:
            share = (quality - below.quality) / (above.quality - below.quality)
            logs = math.log(below.num_bytes), math.log(above.num_bytes)
            return math.exp(logs[0] + share * (logs[1] - logs[0]))
    return None


def bytes_ratio(
    ours: Sequence[CurvePoint],
    theirs: Sequence[CurvePoint],
    targets: Sequence[float] = TARGETS_DB[:3],
) -> dict[str, float | None]:
    """Our bytes over theirs at each quality, by "35" and so on; None where either curve does not
    reach from below to above."""
    ratios: dict[str, float | None] = {}
    for target in targets:
        mine, other = bytes_at(ours, target), bytes_at(theirs, target)
        ratios[f"{target:g}"] = _rounded(mine / other) if mine and other else None
    return ratios


def ratio_at_their_own(
    ours: Sequence[CurvePoint], theirs: Sequence[CurvePoint]
) -> dict[str, float | None]:
    """Our bytes over theirs at the quality of each of their points, by its name: for codecs with
    one point, which no interpolation can serve."""
    ratios = {}
    for point in theirs:
        mine = bytes_at(ours, point.quality)
        ratios[point.point] = None if mine is None else _rounded(mine / point.num_bytes)
    return ratios


def _rounded(ratio: float) -> float:
    return float(f"{ratio:.4g}")
