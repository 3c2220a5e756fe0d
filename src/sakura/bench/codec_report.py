"""The outcome of `sakura codec bench` as JSON, as table rows and as curves to draw. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sakura.bench.codec_points import Point
from sakura.bench.machine import machine, versions
from sakura.bench.rate_curves import (
    TARGETS_DB,
    CurvePoint,
    Quality,
    bytes_at,
    bytes_ratio,
    curve,
    psnr,
    ratio_at_their_own,
    snr,
)

OURS = "sakura"
_STATE_DB = (3.0, 6.0, 9.0, 12.0)
"""Where the fidelity of a bare state is compared: signal to error in dB."""
_PACKAGES = ("numpy", "torch", "zstandard", "constriction", "openzl")


@dataclass(frozen=True, slots=True)
class CodecReport:
    """What was measured.

    Args:
        points: rate and fidelity.
        decode: speeds on the reference shard; with `--quick`, on the first state.
        decode_state: speeds on the first state.
        shares: by baseline, what ships with the app and is not counted.
        notes: remarks for people.
    """

    points: tuple[Point, ...]
    decode: Mapping[str, Any]
    decode_state: Mapping[str, Any]
    shares: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def has_edits(self) -> bool:
        """Whether fidelity is of edits; else it is of the states."""
        return all(point.psnr_db is not None for point in self.points)

    @property
    def quality(self) -> Quality:
        """What the curves are drawn over."""
        return psnr if self.has_edits else snr

    @property
    def targets(self) -> tuple[float, ...]:
        """Qualities to compare at, in dB; the last is not in the ratios."""
        return TARGETS_DB if self.has_edits else _STATE_DB

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names in the order of the points."""
        return tuple(dict.fromkeys(point.codec for point in self.points))

    def curves(self) -> dict[str, list[CurvePoint]]:
        """Mean curve of every codec."""
        return {
            codec: curve((p for p in self.points if p.codec == codec), self.quality)
            for codec in self.codecs
        }

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        curves = self.curves()
        ours = curves[OURS]
        others = {codec: points for codec, points in curves.items() if codec != OURS}
        return {
            "rate_fidelity": [point.to_json() for point in self.points],
            "quality": "psnr_db" if self.has_edits else "nmse_db, its sign turned",
            "bytes_ratio": {
                codec: bytes_ratio(ours, other, self.targets[:-1])
                for codec, other in others.items()
            },
            "bytes_ratio_at_their_own": {
                codec: ratio_at_their_own(ours, other) for codec, other in others.items()
            },
            "decode": dict(self.decode),
            "decode_state": dict(self.decode_state),
            "shares": dict(self.shares),
            "notes": list(self.notes),
            "machine": machine(),
            "versions": versions(_PACKAGES),
        }


def headers(report: CodecReport) -> tuple[str, ...]:
    """Of `table_rows`."""
    return (
        "codec",
        *(f"{db:g} dB, bytes" for db in report.targets),
        *(f"{db:g} dB, ratio" for db in report.targets[:-1]),
        "range, dB",
    )


def table_rows(report: CodecReport) -> list[tuple[str, ...]]:
    """A row a codec: bytes at the targets, our bytes over its, and what it spans."""
    curves = report.curves()
    rows = []
    for codec, points in curves.items():
        sizes = [bytes_at(points, db) for db in report.targets]
        ratios = bytes_ratio(curves[OURS], points, report.targets[:-1]).values()
        span = f"{points[0].quality:.1f} .. {points[-1].quality:.1f}" if points else "-"
        rows.append(
            (
                codec,
                *("-" if size is None else f"{size:.0f}" for size in sizes),
                *("-" if ratio is None else f"{ratio:.3f}" for ratio in ratios),
                span,
            )
        )
    return rows


SPEED_HEADERS = ("coder", "bytes", "decode M symbols/s")


def speed_rows(speed: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row an entropy coder."""
    coders: Sequence[Mapping[str, Any]] = speed["coders"]
    return [(c["coder"], str(c["num_bytes"]), f"{c['decode_msymbols_per_s']:.0f}") for c in coders]


CODEC_SPEED_HEADERS = ("codec", "encode M values/s", "decode M values/s")


def codec_speed_rows(speed: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row a whole codec, on the first state."""
    codecs = [{**speed, "codec": OURS}, *speed["codecs"]]
    return [
        (c["codec"], f"{c['encode_mvalues_per_s']:.1f}", f"{c['decode_mvalues_per_s']:.1f}")
        for c in codecs
    ]


def speed_facts(speed: Mapping[str, Any]) -> dict[str, str]:
    """Speeds in words."""
    versus = speed["vs_best_packaged"]
    best = "no packaged coder of equal size" if versus is None else f"{versus:.2f}"
    return {
        "entropy decoder over best packaged": best,
        "decode into K and V over memcpy": f"{speed['full_vs_memcpy']:.4f}",
        "decode into coefficients over memcpy": f"{speed['klt_domain_vs_memcpy']:.4f}",
        "encode": f"{speed['encode_mvalues_per_s']:.1f} M values/s",
    }
