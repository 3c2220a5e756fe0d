"""What cannot work is refused before the work: outputs, and names that are in no registry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest

from sakura import cli
from sakura.bench.tasks import load_task
from sakura.cli import VERBS, run
from sakura.cli.options import Output
from sakura.errors import StoreError
from sakura.models.registry import TASKS

TASK = load_task("try-on")
NAMES = ("output", "events", "timeline")
LOCAL = [("pack", "--output"), ("edit", "--output"), ("edit", "--events"), ("edit", "--timeline")]


def options() -> Iterator[tuple[str, click.Parameter]]:
    """Every option of every verb."""
    context = click.Context(cli.cli)
    for verb in VERBS:
        command = cli.cli.get_command(context, verb)
        assert command is not None
        yield from ((verb, parameter) for parameter in command.params)


@pytest.fixture(autouse=True)
def _no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is loaded and no bundle opened."""

    def work(*_: object) -> None:
        raise AssertionError("the work has begun")

    for name in ("sakura.models.load_model", "sakura.play.bundle.open"):
        monkeypatch.setattr(name, work)
    monkeypatch.setattr("sakura.bench.demo.load_model", work)


def args_of(verb: str, *changes: str) -> list[str]:
    """A command line whose other options are right."""
    files = [str(TASK.template_path), "--mask", str(TASK.mask_path), "--task", TASK.name]
    given = {
        "pack": files,
        "edit": ["a.skv", "--reference", str(TASK.reference_path)],
        "demo": [],
    }[verb]
    if verb != "demo" and not {"-o", "--output"} & set(changes):
        given = [*given, "-o", os.devnull]
    return [verb, *given, *changes]


def test_every_output_is_checked_early() -> None:
    checked = {(verb, p.opts[-1]) for verb, p in options() if isinstance(p.type, Output)}
    assert checked == set(LOCAL)
    named = {(verb, p.opts[-1]) for verb, p in options() if p.name in NAMES}
    assert named == checked


@pytest.mark.parametrize(("verb", "option"), LOCAL)
def test_an_output_that_cannot_be_written(
    verb: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("missing/x", "file/x", "n" * 300, "."):
        out = tmp_path / place
        assert run(args_of(verb, option, str(out))) == 5
        stdout, stderr = capsys.readouterr()
        assert stdout == ""
        assert "hint:" in stderr and str(out.parent) in stderr
    assert os.listdir(tmp_path) == ["file"]


def test_the_demo_needs_a_place_for_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place, code in (("file", 2), ("file/x", 5), ("n" * 300, 5)):
        assert run(args_of("demo", "--out", str(tmp_path / place))) == code
        assert "hint:" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


def test_two_outputs_are_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x")
    assert run(args_of("edit", "-o", out, "--events", out)) == 2
    assert "hint:" in capsys.readouterr().err


def test_each_of_several_pictures_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x-2.png").mkdir()
    out = str(tmp_path / "x.png")
    assert run(args_of("edit", "-o", out, "--num-images", "2")) == 5
    assert "x-2.png" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["x-2.png"]


def test_a_timeline_that_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sakura.cli.options.missing_modules", lambda extra: [f"module of {extra}"])
    assert run(args_of("edit", "--timeline", str(tmp_path / "t.png"))) == 2
    assert 'pip install "sakura-kv[viz]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        *(("pack", option) for option in ("--codec", "--model", "--task")),
        *(("edit", option) for option in ("--policy", "--model", "--task")),
        *(("demo", option) for option in ("--like", "--trace")),
    ],
)
def test_a_name_in_no_registry_is_wrong_usage(
    verb: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args_of(verb, option, "nope")) == 2
    stderr = capsys.readouterr().err
    assert "nope" in stderr
    default = next(p.default for v, p in options() if v == verb and option in p.opts)
    assert (default if isinstance(default, str) else "try-on") in stderr  # a name that is known


def test_tasks_are_known_without_the_model() -> None:
    from sakura.models.mini_net import PROMPTS

    assert dict(TASKS) == {"mini": PROMPTS}


def test_a_missing_bundle_or_reference_is_found_before_the_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(*_: object) -> None:
        raise StoreError("no such object", hint="look again")

    monkeypatch.setattr("sakura.play.bundle.open", gone)
    assert run(args_of("edit", "-o", str(tmp_path / "x.png"))) == 5
    assert "hint: look again; or give --template" in capsys.readouterr().err
    monkeypatch.setattr("sakura.play.bundle.open", lambda *_: SimpleNamespace(offline=None))
    assert run(["edit", "a.skv", "--reference", "none.png", "-o", str(tmp_path / "x.png")]) == 2
    assert "none.png" in capsys.readouterr().err


def test_pack_says_which_targets_were_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sakura.pack.options import Missed, PackReport

    report = PackReport("a", 10, 160, (4, 6), (30.0, 39.5), 3, 0, (Missed(1, 41.0, 39.5),))
    monkeypatch.setattr("sakura.models.load_model", lambda name: None)
    monkeypatch.setattr("sakura.pack.load_template", lambda *_, **__: np.zeros(1))
    monkeypatch.setattr("sakura.pack.pack", lambda *_, **__: report)
    assert run(args_of("pack", "-o", str(tmp_path / "a.skv"))) == 0
    stderr = capsys.readouterr().err
    assert "warning: level 1 reaches 39.5 dB, expected 41.0 dB" in stderr


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["inspect"], 5),
        (["verify"], 5),
        (["serve"], 5),
        (["demo", "--trace"], 2),
        (["edit", "-o", os.devnull, "--reference", str(TASK.reference_path)], 5),
    ],
    ids=lambda value: str(value),
)
def test_an_input_whose_name_is_too_long_is_no_defect_of_ours(
    args: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from sakura.play.bundle import from_reader
    from sakura.store.open import open_reader

    monkeypatch.setattr("sakura.play.bundle.open", lambda name, _: from_reader(open_reader(name)))
    assert run([*args, "n" * 300]) == code
    assert capsys.readouterr().err.startswith("error: ")
