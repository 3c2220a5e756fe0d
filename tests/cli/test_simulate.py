"""`sakura simulate`, and the reasons that it and `sakura edit` print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sakura.bench.sim_scene import NAMES
from sakura.bench.simulate import simulate
from sakura.cli import run
from sakura.cli.edit_report import Told, report_of, tell
from sakura.play.edit import EditResult
from sakura.play.policy import create_policy
from tests.bench.scenes import LINKS, make_scene
from tests.play.bundles import compressed, raw


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    path = tmp_path / "a.skv"
    path.write_bytes(raw().data)
    return str(path)


def test_it_compares_with_device_and_oracle(
    bundle: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", bundle, "--trace", "outage", "--like", "klein-4b@adreno-830"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["sakura", "device", "oracle"]


@pytest.mark.parametrize("policy", NAMES)
def test_reasons_of_every_decision(
    bundle: str, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["simulate", bundle, "--policy", policy, "--floor-db", "30", "--explain", "--json"]
    assert run(args) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {policy, "device", "oracle", "decisions"}
    places = [(row["step"], row["block"]) for row in document["decisions"]]
    num_blocks = len(document[policy]["levels"]) * len(document[policy]["levels"][0])
    assert len(set(places)) == num_blocks
    assert all(row["reason"] for row in document["decisions"])
    assert run(args[:-1]) == 0
    assert document["decisions"][0]["reason"] in capsys.readouterr().out


def test_it_needs_no_torch(bundle: str) -> None:
    code = (
        "import sys\n"
        "from sakura.cli import run\n"
        f"assert run(['simulate', {bundle!r}]) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("args", "code"),
    [(["--trace", "nope"], 2), (["--like", "a@b"], 2), (["--step-ms", "0"], 2)],
)
def test_what_cannot_be_simulated(bundle: str, args: list[str], code: int) -> None:
    assert run(["simulate", bundle, *args]) == code


def test_a_bundle_of_another_profile(tmp_path: Path) -> None:
    path = tmp_path / "b.skv"
    path.write_bytes(compressed().data)
    assert run(["simulate", str(path)]) == 3


@pytest.mark.parametrize("with_reasons", [False, True])
def test_an_edit_tells_its_reasons_only_if_asked(
    with_reasons: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated = simulate(make_scene(LINKS["slow"]), create_policy("sakura"))
    result = EditResult(np.zeros((1, 1, 3), np.uint8), simulated.report, simulated.events)
    output, reason = Path("x.png"), "no state yet"
    tell(result, output, Told(as_json=False, with_reasons=with_reasons))
    stdout, stderr = capsys.readouterr()
    assert stdout == "x.png\n"
    assert (reason in stderr) == with_reasons
    row = report_of(result, output, Told(as_json=True, with_reasons=with_reasons))
    assert (reason in {each["reason"] for each in row.get("decisions", ())}) == with_reasons
