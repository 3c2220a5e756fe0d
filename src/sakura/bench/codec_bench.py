"""Every codec on the same captured states: what it costs, what it keeps, how fast it decodes.

Decides the order of things; reading, coding and measuring are done elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines import Baseline, all_baselines, calibrate
from sakura.bench.codec_inputs import Setting, is_state_file, load_state, load_subjects
from sakura.bench.codec_points import (
    PACKINGS,
    Point,
    bare_points,
    baseline_points,
    bundle_points,
)
from sakura.bench.codec_report import CodecReport
from sakura.bench.codec_speed import (
    encode_shards,
    measure_baselines,
    measure_speed,
    reference_shards,
)
from sakura.bench.machine import missing_modules
from sakura.bench.state_bundle import BareState, bare_scales, shard_coefs
from sakura.bench.subjects import Subject
from sakura.codec import CodecProfile, SakuraCodec, fit_profile, load_profile
from sakura.errors import CodecError, InputError
from sakura.models.registry import load_model, profile_for

Array = NDArray[Any]
Stage = Callable[[str, float], None]

_RATE_SHARE = 0.85
"""Of the time, for the progress display."""
_SPEED_SCALE = 2
"""Which of the scales of a bare state to measure speeds at."""


@dataclass(frozen=True, slots=True)
class CodecBenchOptions:
    """Choices of a run.

    Args:
        inputs: captured states; none takes the demo templates.
        model: name of the model that edits, or "none" to measure the states alone.
        profile: codec profile; None takes the one that ships, or fits one.
        calibration: captured states that the calibrated baselines learn from; none takes the
            inputs themselves, which favours the baselines.
        quick: fewer operating points, speeds on the states alone.
    """

    inputs: tuple[str, ...] = ()
    model: str = "mini"
    profile: Path | None = None
    calibration: tuple[Path, ...] = ()
    quick: bool = False


def run_codec_bench(options: CodecBenchOptions, stage: Stage) -> CodecReport:
    """Measure every codec.

    Args:
        options: what to do.
        stage: told what is being done, and how much of the whole is done (0 to 1).

    Raises:
        SakuraError: inputs, a model or a profile that cannot be used.
    """
    if missing := missing_modules("bench"):
        raise InputError(
            f"codec bench needs what is not installed: {', '.join(missing)}",
            hint='pip install "sakura-kv[bench]"',
        )
    stage("read the states", 0.0)
    notes: list[str] = []
    needs_model = options.model != "none" and not all(map(is_state_file, options.inputs or [""]))
    adapter = load_model(options.model) if needs_model else None
    subjects = load_subjects(options.inputs, Setting(adapter, notes))
    profile = _profile(options, subjects, notes)
    baselines = _baselines(options, subjects, profile, notes)
    points: list[Point] = []
    for index, subject in enumerate(subjects):
        stage(f"code {subject.name}", _RATE_SHARE * index / len(subjects))
        points += _points_of(subject, baselines, (profile, options.quick))
    stage("measure speeds", _RATE_SHARE)
    bare = BareState(subjects[0].state, subjects[0].mass, profile)
    repeats = 2 if options.quick else 5
    coefs = shard_coefs(bare, bare_scales(bare)[_SPEED_SCALE])
    own = measure_speed(encode_shards(SakuraCodec(profile), coefs), repeats)
    reference = own if options.quick else measure_speed(reference_shards(), repeats)
    own = {**own, "codecs": measure_baselines(baselines, subjects[0].state, 1)}
    notes += reference.pop("notes")
    own.pop("notes", None)
    shares = {baseline.name: baseline.shares for baseline in baselines}
    return CodecReport(tuple(points), reference, own, shares, tuple(notes))


def _points_of(
    subject: Subject, baselines: list[Baseline], how: tuple[CodecProfile, bool]
) -> Iterator[Point]:
    profile, quick = how
    if subject.check is None:
        yield from bare_points(subject, profile, 2 if quick else 1)
    else:
        for curve, packings in list(PACKINGS.items())[: 1 if quick else None]:
            for options in packings[: 1 if quick else None]:
                yield from bundle_points(subject, curve, options, profile)
    for baseline in baselines:
        yield from baseline_points(baseline, subject, 3 if quick else 1)


def _profile(options: CodecBenchOptions, subjects: list[Subject], notes: list[str]) -> CodecProfile:
    if len({_dims(subject.state) for subject in subjects}) != 1:
        raise InputError("the states are of different models, expected one model a run")
    dims = _dims(subjects[0].state)
    if options.profile is not None:
        profile = load_profile(options.profile)
        if profile.dims != dims:
            raise CodecError(f"the codec profile is for {profile.dims}, the states are {dims}")
        return profile
    shipped = profile_for("mini-a")
    if shipped.dims == dims and subjects[0].check is not None:
        return shipped
    notes.append("the codec profile was fitted on the states themselves")
    return fit_profile([subject.state for subject in subjects])


def _baselines(
    options: CodecBenchOptions, subjects: list[Subject], profile: CodecProfile, notes: list[str]
) -> list[Baseline]:
    states = [load_state(path)["state"] for path in options.calibration]
    sensitivity = np.asarray(profile.sensitivity)
    if not states:
        notes.append("the calibrated baselines learned from the states themselves: in their favour")
        # Not the means, though: those of so few states would be most of what there is to send.
        states = [subject.state for subject in subjects]
        return all_baselines(calibrate(states, sensitivity, np.asarray(profile.mean)))
    return all_baselines(calibrate(states, sensitivity))


def _dims(state: Array) -> tuple[int, int, int, int]:
    num_blocks, _, num_steps, _, num_heads, head_dim = state.shape
    return num_blocks, num_steps, num_heads, head_dim
