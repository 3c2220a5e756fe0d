"""The front door: streams, exit codes, messages, what is loaded, and the documents about it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sakura import cli, errors
from sakura.cli import VERBS, run

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/format/golden/v1_0.skv"
GUIDE = (ROOT / "docs/guides/cli.md").read_text("utf-8")
HEAVY = ("torch", "diffusers", "matplotlib")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `sakura env` raise."""

    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr("sakura.cli.env.command", command)


def sakura(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    code = "from sakura.cli import main; main()"
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_on_stdout(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: sakura {verb}")
    assert err == ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_guide(verb: str) -> None:
    assert f"sakura {verb}" in GUIDE


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import sakura as package

    assert run(["--version"]) == 0
    assert package.__version__ in capsys.readouterr().out


def test_an_error_is_a_message_a_hint_and_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, errors.FingerprintError("another model", where="$.model", hint="pack"))
    assert run(["env"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: another model (at $.model)\nhint: pack\n"


def test_an_unexpected_error_hides_its_traceback_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, ZeroDivisionError("oops"))
    assert run(["env"]) == cli.EXIT_UNEXPECTED
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in err
    assert "Traceback" not in err
    with pytest.raises(ZeroDivisionError):
        run(["--debug", "env"])


def test_ctrl_c_and_a_closed_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert run(["env"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"
    fail_with(monkeypatch, BrokenPipeError())
    assert run(["env"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("args", [["nonsense"], ["inspect"], ["demo", "--repetitions", "0"]])
def test_wrong_usage_exits_with_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(args) == 2
    assert "Usage: sakura" in capsys.readouterr().err


def test_the_guide_lists_every_exit_code() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE, re.MULTILINE)}
    kinds = [errors.SakuraError, *errors.SakuraError.__subclasses__()]
    ours = {kind.exit_code for kind in kinds if kind is not errors.SakuraError}
    assert listed == ours | {0, cli.EXIT_UNEXPECTED, cli.EXIT_INTERRUPTED}


def test_options_in_the_guide_exist() -> None:
    context = click.Context(cli.cli)
    known = {"--help", "--version", "--debug"}
    for verb in VERBS:
        command = cli.cli.get_command(context, verb)
        assert command is not None
        parts = [command, *getattr(command, "commands", {}).values()]
        known |= {name for part in parts for option in part.params for name in option.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", GUIDE)) <= known


@pytest.mark.parametrize(
    "args",
    [
        ["env"],
        ["inspect", str(GOLDEN)],
        ["verify", str(GOLDEN)],
        ["serve", str(ROOT / "no-such-folder")],
        ["cache", "ls", "--cache", str(ROOT / "no-such-folder")],
    ],
    ids=lambda args: args[0],
)
def test_light_verbs_load_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys; from sakura.cli import run; run(sys.argv[1:]);"
        f"print('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stdout.endswith("heavy: []\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    code = (
        "import subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'from sakura.cli import main; main()',"
        " 'inspect', sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE);"
        "p.stdout.close(); err = p.stderr.read(); p.stderr.close(); print(p.wait(), err)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(GOLDEN)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=120,
    )
    assert done.stdout == "0 b''\n"


def test_the_script_prints_json_alone_on_stdout() -> None:
    done = sakura("inspect", "--json", str(GOLDEN))
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["task"] == "face-swap"
