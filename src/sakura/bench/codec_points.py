"""Bytes and fidelity of one codec at one operating point on one subject."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines import Baseline
from sakura.bench.bundle_levels import head_of, level_bytes, level_states, picture_bytes
from sakura.bench.state_bundle import BareState, bare_scales, bundle_of
from sakura.bench.subjects import Subject
from sakura.codec import CodecProfile
from sakura.errors import InputError
from sakura.pack import PackOptions, pack

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement.

    Args:
        codec: which.
        subject: what was coded.
        task: of its template.
        point: name of the operating point, the same for all subjects.
        num_bytes: everything that decoding the state takes, headers and tables included.
        bits_per_element: of the state.
        psnr_db: edited pixels against uncompressed state; None without a model.
        nmse_db: error over variance of K and V.
        weighted_nmse_db: the same, tokens weighted by attention; None where that is not known.
        head_bytes: part of `num_bytes` that is a bundle's head.
        picture_bytes: template picture that the file carries as well; not in `num_bytes`.
    """

    codec: str
    subject: str
    task: str
    point: str
    num_bytes: int
    bits_per_element: float
    psnr_db: float | None
    nmse_db: float
    weighted_nmse_db: float | None
    head_bytes: int = 0
    picture_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, rounded to what they are worth."""
        return {
            name: float(f"{value:.5g}") if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def baseline_points(baseline: Baseline, subject: Subject, stride: int = 1) -> Iterator[Point]:
    """Every operating point of a baseline, or each `stride`-th."""
    for point in baseline.points[::stride]:
        data = baseline.encode(subject.state, point)
        yield _measured(baseline.name, f"{point:g}", len(data), (subject, baseline.decode(data)))


PACKINGS: Mapping[str, tuple[PackOptions, ...]] = MappingProxyType(
    {
        "sakura": (PackOptions(), PackOptions(target_db=46.0, top_db=55.0)),
        "sakura, one level": tuple(
            PackOptions(num_levels=1, target_level=0, target_db=db, top_db=db)
            for db in (42.0, 50.0)
        ),
    }
)
"""Bundles to read every level of, by the name of the curve; the first is the default."""


def bundle_points(
    subject: Subject, curve: str, options: PackOptions, profile: CodecProfile
) -> Iterator[Point]:
    """Every level of the bundle that the packager makes of a subject.

    Raises:
        InputError: the subject has no model to pack for.
    """
    check = subject.check
    if check is None:
        raise InputError(f"{subject.name} has no model to pack for")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "subject.skv"
        pack(check.adapter, check.template, path, replace(options, profile=profile))
        data = path.read_bytes()
    name = f"{options.target_db:g}/{options.top_db:g} dB"
    yield from levels_of(data, profile, (subject, check.tokens), (curve, name))


def bare_points(subject: Subject, profile: CodecProfile, stride: int = 1) -> Iterator[Point]:
    """Every level of bundles of a state without a model, at several scales of the steps."""
    bare = BareState(subject.state, subject.mass, profile)
    tokens = np.arange(subject.state.shape[3])
    for scale in bare_scales(bare)[::stride]:
        names = ("sakura", f"scale {scale:.3g}")
        yield from levels_of(bundle_of(bare, scale), profile, (subject, tokens), names)


def levels_of(
    data: bytes,
    profile: CodecProfile | None,
    coded: tuple[Subject, Array],
    names: tuple[str, str],
) -> Iterator[Point]:
    """Every level of a bundle of a subject.

    Args:
        data: the bundle.
        profile: its codec's.
        coded: the subject, and the canvas index of each row of its state.
        names: of the curve and of the bundle.
    """
    head, (subject, tokens), (curve, name) = head_of(data), coded, names
    rows = np.searchsorted(tokens, head.manifest.importance_order)
    sizes = level_bytes(head)
    for level, state in enumerate(level_states(data, head, profile)):
        decoded = np.empty_like(state)
        decoded[:, :, :, rows] = state
        point = _measured(curve, f"{name}, level {level}", sizes[level], (subject, decoded))
        yield replace(point, head_bytes=head.data_start, picture_bytes=picture_bytes(head))


def _measured(codec: str, point: str, num_bytes: int, pair: tuple[Subject, Array]) -> Point:
    subject, decoded = pair
    return Point(
        codec,
        subject.name,
        subject.task,
        point,
        num_bytes,
        8 * num_bytes / subject.state.size,
        subject.psnr_db(decoded),
        subject.nmse_db(decoded),
        subject.weighted_nmse_db(decoded),
    )
