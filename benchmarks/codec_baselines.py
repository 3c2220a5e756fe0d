"""Bytes of SAKURA's bundles against other codecs, over unseen templates and users.

Templates, users and backgrounds are of the test split. Calibrated baselines learn from the training
split, as the codec profile did, and the best tuning of CacheGen is searched there. Fidelity is of
the edit with an unseen reference (PSNR inside the mask, against uncompressed state) and of the
state itself. Needs the `bench` and `train` extras.

    python benchmarks/codec_baselines.py --per-task 2 --train-pool POOL \
        --out docs/results/codec_baselines.json --plot docs/results/codec_rate.png

`--again FILE` makes the comparisons anew from the points of an earlier run; `--ours FILE` measures
SAKURA's points anew on the same templates and keeps the others, which do not depend on its codec.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from bench_model import unseen_pairs

from sakura.bench.baselines import (
    ALL_TUNINGS,
    Baseline,
    CacheGenTuned,
    Calibration,
    Tuning,
    all_baselines,
    calibrate,
)
from sakura.bench.codec_inputs import captured_subject
from sakura.bench.codec_points import PACKINGS, Point, baseline_points, bundle_points
from sakura.bench.machine import machine, versions
from sakura.bench.rate_curves import (
    TARGETS_DB,
    bytes_at,
    bytes_ratio,
    curve,
    psnr,
    ratio_at_their_own,
    snr,
    weighted_snr,
)
from sakura.bench.subjects import Subject
from sakura.codec import CodecProfile
from sakura.models.base import Request
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.viz.rd import Labels, write_curves

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
from fit_profile import edits

OURS = "sakura"
NUM_TRAINING = 9
SEARCH_POINTS = (16.0, 5.6, 2.0, 1.0)
SEARCH_DB = (40.0, 45.0, 50.0)
SNR_DB = (0.0, 2.0, 4.0, 6.0, 8.0)
QUALITIES = {"psnr_db": psnr, "snr_db": snr, "weighted_snr_db": weighted_snr}


def training_subjects(adapter: MiniAdapter, pool: Path) -> list[Subject]:
    """States of the training split, each with an edit."""
    return [
        captured_subject(adapter, f"training {i}", template, request)
        for i, (template, request) in enumerate(edits(adapter, pool, NUM_TRAINING))
    ]


def test_subjects(adapter: MiniAdapter, per_task: int, pool: Path | None) -> list[Subject]:
    """States of the test split, each with an edit."""
    return [
        captured_subject(adapter, f"test {i}", pair.template, Request(pair.reference, seed=100 + i))
        for i, pair in enumerate(unseen_pairs(3 * per_task, pool))
    ]


def search_tuning(
    calibration: Calibration, subjects: Sequence[Subject]
) -> tuple[Tuning, list[dict[str, Any]]]:
    """The tuning with the fewest bytes, geometric mean over `SEARCH_DB`, on training templates."""
    tried = []
    for tuning in ALL_TUNINGS:
        baseline = CacheGenTuned(calibration, tuning, SEARCH_POINTS)
        points = [point for subject in subjects for point in baseline_points(baseline, subject)]
        sizes = {f"{db:g}": bytes_at(curve(points), db) for db in SEARCH_DB}
        known = [math.log(size) for size in sizes.values() if size]
        cost = math.exp(fmean(known)) if len(known) == len(SEARCH_DB) else math.inf
        tried.append({**asdict(tuning), "bytes_at_db": sizes, "cost": cost})
        print(tried[-1], file=sys.stderr, flush=True)
    best = min(range(len(tried)), key=lambda i: tried[i]["cost"])
    return ALL_TUNINGS[best], tried


def measure(
    subjects: Sequence[Subject], baselines: Sequence[Baseline], profile: CodecProfile
) -> list[Point]:
    """Every point of every codec."""
    points: list[Point] = []
    for subject in subjects:
        for name, packings in PACKINGS.items():
            for options in packings:
                points += bundle_points(subject, name, options, profile)
        for baseline in baselines:
            points += baseline_points(baseline, subject)
        print(subject.name, subject.task, len(points), file=sys.stderr, flush=True)
    return points


def without_head(points: Sequence[Point]) -> list[Point]:
    """Points at the bytes of their streams alone; those without any have no place on a curve over
    log bytes, and their whole operating point goes."""
    free = {(p.codec, p.point) for p in points if p.num_bytes == p.head_bytes}
    return [
        replace(p, num_bytes=p.num_bytes - p.head_bytes)
        for p in points
        if (p.codec, p.point) not in free
    ]


def compare(points: Sequence[Point], quality: Callable[[Point], float | None]) -> dict[str, Any]:
    """Curves, and ours over each."""
    is_psnr = quality is psnr
    targets = TARGETS_DB if is_psnr else SNR_DB
    curves = {
        codec: curve((p for p in points if p.codec == codec), quality)
        for codec in dict.fromkeys(p.codec for p in points)
    }
    return {
        "curves": {codec: [asdict(p) for p in found] for codec, found in curves.items()},
        "bytes_at": {
            codec: {f"{db:g}": bytes_at(found, db) for db in targets}
            for codec, found in curves.items()
        },
        "bytes_ratio": {
            codec: bytes_ratio(curves[OURS], found, targets)
            for codec, found in curves.items()
            if codec != OURS
        },
        "bytes_ratio_at_their_own": {
            codec: ratio_at_their_own(curves[OURS], found)
            for codec, found in curves.items()
            if codec != OURS
        },
    }


def rounded(value: Any) -> Any:
    """Five significant digits throughout."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else value


def draw(points: Sequence[Point], num_elements: float, path: Path) -> None:
    """The mean curves."""
    curves = {
        codec: [
            (8 * p.num_bytes / num_elements, p.quality)
            for p in curve(q for q in points if q.codec == codec)
        ]
        for codec in dict.fromkeys(p.codec for p in points)
    }
    title = "Unseen templates, mean of all tasks; mini model A"
    quality = "PSNR inside the mask against uncompressed state, dB"
    write_curves(path, curves, OURS, Labels(title, quality))


def run_study(per_task: int, train_pool: Path, pool: Path | None) -> dict[str, Any]:
    """Search the tuning, measure every codec."""
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(None)
    profile = profile_for(adapter.family)
    training = training_subjects(adapter, train_pool)
    few = calibrate([subject.state for subject in training[3:]], profile.sensitivity)
    tuning, tried = search_tuning(few, training[:3])
    calibration = calibrate([subject.state for subject in training], profile.sensitivity)
    subjects = test_subjects(adapter, per_task, pool)
    baselines = [
        CacheGenTuned(calibration, tuning) if baseline.name == CacheGenTuned.name else baseline
        for baseline in all_baselines(calibration)
    ]
    points = measure(subjects, baselines, profile)
    return {
        "tuning": asdict(tuning),
        "search": tried,
        "shares": {baseline.name: baseline.shares for baseline in baselines},
        "num_elements": {subject.name: subject.state.size for subject in subjects},
        "rate_fidelity": [point.to_json() for point in points],
        "weights": adapter.identity().weights_digest,
        "profile": profile.digest,
        "machine": machine(),
        "versions": versions(("numpy", "torch", "constriction", "zstandard")),
    }


def ours_anew(earlier: dict[str, Any], pool: Path | None) -> dict[str, Any]:
    """An earlier study with SAKURA's points measured again."""
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(None)
    profile = profile_for(adapter.family)
    subjects = test_subjects(adapter, len(earlier["num_elements"]) // 3, pool)
    sizes = {subject.name: subject.state.size for subject in subjects}
    assert sizes == earlier["num_elements"], "the earlier study had other templates"
    others = [p for p in earlier["rate_fidelity"] if p["codec"] not in PACKINGS]
    points = [point.to_json() for point in measure(subjects, (), profile)]
    fresh = {"profile": profile.digest, "machine": machine(), "rate_fidelity": points + others}
    return {**earlier, **fresh}


def compared(points: Sequence[Point]) -> dict[str, Any]:
    """Means over all templates and ratios task by task."""
    tasks = dict.fromkeys(point.task for point in points)
    return {
        "mean": {name: compare(points, quality) for name, quality in QUALITIES.items()},
        "streams_only": compare(without_head(points), psnr),
        "tasks": {
            task: compare([p for p in points if p.task == task], psnr)["bytes_ratio"]
            for task in tasks
        },
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--per-task", type=int, default=2, help="unseen templates of each task")
    parser.add_argument("--train-pool", type=Path, help="rendered training split")
    parser.add_argument("--again", type=Path, help="JSON of an earlier run; measure nothing")
    parser.add_argument("--ours", type=Path, help="JSON of an earlier run; measure only ours")
    parser.add_argument("--pool", type=Path, help="rendered test split; default: render it")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    args = parser.parse_args()
    if args.again:
        measured = json.loads(args.again.read_text())
    elif args.ours:
        measured = ours_anew(json.loads(args.ours.read_text()), args.pool)
    elif args.train_pool:
        measured = run_study(args.per_task, args.train_pool, args.pool)
    else:
        parser.error("name --train-pool, --ours or --again")
    points = [Point(**row) for row in measured["rate_fidelity"]]
    if args.out:
        result = rounded({**measured, **compared(points)})
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.plot:
        draw(points, fmean(measured["num_elements"].values()), args.plot)


if __name__ == "__main__":
    main()
