"""Codecs to compare with, re-implemented from their descriptions behind one protocol.

Nothing here is used to pack or play; `sakura codec bench` and the studies in `benchmarks/` are.
"""

from sakura.bench.baselines.base import Baseline, Calibration, calibrate
from sakura.bench.baselines.cachegen_paper import CacheGenPaper
from sakura.bench.baselines.cachegen_shipped import CacheGenShipped
from sakura.bench.baselines.cachegen_tuned import ALL_TUNINGS, CacheGenTuned, Tuning
from sakura.bench.baselines.integers import Integers
from sakura.bench.baselines.kvtc import KvtcLike
from sakura.bench.baselines.raw import RawBf16, ZstdBf16

__all__ = [
    "ALL_TUNINGS",
    "Baseline",
    "CacheGenPaper",
    "CacheGenShipped",
    "CacheGenTuned",
    "Calibration",
    "Integers",
    "KvtcLike",
    "RawBf16",
    "Tuning",
    "ZstdBf16",
    "all_baselines",
    "calibrate",
]


def all_baselines(calibration: Calibration) -> list[Baseline]:
    """Every method, the calibrated ones fitted."""
    return [
        RawBf16(),
        ZstdBf16(),
        Integers(8),
        Integers(4),
        CacheGenShipped(),
        CacheGenPaper(calibration),
        CacheGenTuned(calibration),
        KvtcLike(calibration),
    ]
