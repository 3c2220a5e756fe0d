"""Inputs of `sakura codec bench`, points of bundles and of bare states, and the whole on a toy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sakura.bench.bundle_levels import head_of, level_bytes, level_states, picture_bytes
from sakura.bench.codec_bench import CodecBenchOptions, run_codec_bench
from sakura.bench.codec_inputs import Setting, captured_subject, load_state, load_subjects
from sakura.bench.codec_points import bare_points, bundle_points
from sakura.bench.codec_report import headers, table_rows
from sakura.bench.state_bundle import BareState, bare_scales, bundle_of
from sakura.bench.subjects import Subject, normalised_error_db
from sakura.codec import fit_profile
from sakura.errors import InputError
from sakura.models.base import Request
from sakura.pack import PackOptions, pack
from tests.bench.baseline_contract import correlated_state
from tests.pack.toy import ToyAdapter, toy_profile, toy_template

needs_coder = pytest.mark.skipif(find_spec("constriction") is None, reason="not installed")
REQUEST = Request(np.full((8, 8, 3), 90, np.uint8), seed=3)


@pytest.fixture(scope="module")
def subject() -> Subject:
    return captured_subject(ToyAdapter(), "toy", toy_template(), REQUEST)


def test_error_by_hand() -> None:
    state = np.zeros((1, 2, 1, 2, 1, 1), np.float32)
    state[0, :, 0, :, 0, 0] = [1.0, 3.0]
    decoded = state + np.float32(0.1)
    # Variance 1 about the mean, error 0.01; both K and V.
    assert normalised_error_db(state, decoded) == pytest.approx(-20, abs=1e-4)
    decoded = state.copy()
    decoded[:, :, :, 0] += 0.1
    assert normalised_error_db(state, decoded, np.array([[0.0, 1.0]])) == -120
    assert normalised_error_db(state, decoded) == pytest.approx(-20 - 10 * np.log10(2), abs=1e-3)


def test_the_captured_state_is_no_error(subject: Subject) -> None:
    assert subject.psnr_db(subject.state) == 100
    assert subject.nmse_db(subject.state) == -120
    worse = subject.state + np.float32(0.3)
    assert (subject.psnr_db(worse) or 0) < 60


def test_levels_of_a_bundle(subject: Subject, tmp_path: Path) -> None:
    profile, options = toy_profile(), PackOptions(num_calibration=1)
    points = list(bundle_points(subject, "sakura", options, profile))
    path = tmp_path / "toy.skv"
    pack(ToyAdapter(), toy_template(), path, PackOptions(num_calibration=1, profile=profile))
    data = path.read_bytes()
    head = head_of(data)
    assert [point.num_bytes for point in points] == level_bytes(head)
    assert level_bytes(head)[-1] + picture_bytes(head) == len(data)
    assert {point.picture_bytes for point in points} == {picture_bytes(head)}
    errors = [point.nmse_db for point in points]
    assert errors == sorted(errors, reverse=True)
    assert (points[-1].psnr_db or 0) >= 45


def test_a_bundle_of_uncompressed_state_is_a_subject(subject: Subject, tmp_path: Path) -> None:
    path, notes = tmp_path / "toy.skv", list[str]()
    pack(ToyAdapter(), toy_template(), path, PackOptions(codec="raw-bf16/1", num_calibration=1))
    (bare,) = load_subjects([str(path)], Setting(None, notes))
    assert np.abs(bare.state - subject.state).max() <= np.abs(subject.state).max() / 256
    assert bare.check is None
    assert "no model" in notes[0]
    (known,) = load_subjects([str(path)], Setting(ToyAdapter(), []))
    assert known.task == "toy"
    assert known.psnr_db(known.state) == 100
    assert (known.psnr_db(subject.state) or 0) > 55
    assert (known.mass == subject.mass).all()


def test_other_bundles_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.skv"
    options = PackOptions(num_calibration=1, profile=toy_profile())
    pack(ToyAdapter(), toy_template(), path, options)
    with pytest.raises(InputError, match="not uncompressed state") as error:
        load_subjects([str(path)], Setting(None, []))
    assert "--codec raw-bf16/1" in (error.value.hint or "")


def test_bundle_of_a_bare_state() -> None:
    state = correlated_state(0, 70)
    mass = np.random.default_rng(1).uniform(0.01, 1, (len(state), 70))
    bare = BareState(state, mass, fit_profile([state]))
    data = bundle_of(bare, bare_scales(bare)[1])
    head = head_of(data)
    assert level_bytes(head)[-1] == len(data)
    levels = list(level_states(data, head, bare.profile))
    order = head.manifest.importance_order
    errors = [normalised_error_db(state[:, :, :, order], level) for level in levels]
    assert errors == sorted(errors, reverse=True)
    # Each layer divides the steps by three, 9.5 dB at high rate.
    assert errors[-1] < errors[-2] - 6


def test_bare_scales_span_the_rates() -> None:
    state = correlated_state(0, 70)
    points = list(bare_points(Subject("s", "", state), fit_profile([state])))
    assert 8 * (points[0].num_bytes - points[0].head_bytes) < 0.2 * state.size
    assert points[-1].nmse_db < -30
    assert {point.psnr_db for point in points} == {None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"other": np.zeros(3)}, "no array `state`, found other"),
        ({"state": np.zeros((2, 3))}, "a state is"),
        ({"state": np.full((1, 2, 1, 1, 1, 1), np.nan)}, "NaN"),
        ({"state": np.zeros((1, 2, 1, 0, 1, 1))}, "empty"),
    ],
)
def test_files_without_a_state(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "state.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=message):
        load_state(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    path.write_text("no such thing")
    with pytest.raises(InputError, match="cannot read"):
        load_state(path)
    with pytest.raises(InputError, match="cannot read"):
        load_state(tmp_path / "missing.npz")


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    state = correlated_state(0)
    save_file({"state": state}, tmp_path / "state.safetensors")
    assert (load_state(tmp_path / "state.safetensors")["state"] == state).all()


@needs_coder
def test_the_whole_on_bare_states(tmp_path: Path) -> None:
    for seed in range(3):
        np.savez(tmp_path / f"{seed}.npz", state=correlated_state(seed, 40))
    options = CodecBenchOptions(
        inputs=(str(tmp_path / "0.npz"), str(tmp_path / "1.npz")),
        model="none",
        calibration=(tmp_path / "2.npz",),
        quick=True,
    )
    stages: list[float] = []
    report = run_codec_bench(options, lambda _text, fraction: stages.append(fraction))
    assert stages == sorted(stages)
    result = report.to_json()
    assert {row["subject"] for row in result["rate_fidelity"]} == {"0", "1"}
    codecs = {row["codec"] for row in result["rate_fidelity"]}
    assert codecs >= {"sakura", "int4", "cachegen-tuned", "cachegen-shipped", "kvtc-like"}
    assert set(result["bytes_ratio"]) == codecs - {"sakura"}
    assert result["decode"]["encode_mvalues_per_s"] > 0
    timed = {row["codec"] for row in result["decode_state"]["codecs"]}
    assert timed == codecs - {"sakura"}
    assert not any("learned from the states themselves" in note for note in report.notes)
    for row in table_rows(report):
        assert len(row) == len(headers(report))


@needs_coder
def test_states_of_two_models_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", state=correlated_state(0))
    np.savez(tmp_path / "b.npz", state=correlated_state(0, dims=(1, 2, 1, 1, 2)))
    inputs = (str(tmp_path / "a.npz"), str(tmp_path / "b.npz"))
    with pytest.raises(InputError, match="one model"):
        run_codec_bench(CodecBenchOptions(inputs, "none"), lambda *_: None)


def test_no_states_and_no_model() -> None:
    with pytest.raises(InputError, match="need the model"):
        load_subjects([], Setting(None, []))
