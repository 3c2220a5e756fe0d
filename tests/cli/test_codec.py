"""`sakura codec bench` on a state in a file: tables, JSON, plot."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sakura.cli import run
from sakura.cli.codec import bench
from tests.bench.baseline_contract import correlated_state

needs_coder = pytest.mark.skipif(find_spec("constriction") is None, reason="not installed")


@pytest.fixture
def state(tmp_path: Path) -> str:
    path = tmp_path / "state.npz"
    np.savez(path, state=correlated_state(0, 40))
    return str(path)


@needs_coder
def test_tables_file_and_plot(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot, out = tmp_path / "rd.png", tmp_path / "out.json"
    args = ["codec", "bench", state, "--model", "none", "--quick"]
    assert run([*args, "--plot", str(plot), "--json", str(out)]) == 0
    text, err = capsys.readouterr()
    assert "cachegen-tuned" in text
    assert "over memcpy" in text
    assert "in their favour" in err
    with Image.open(plot) as picture:
        assert picture.format == "PNG"
    result = json.loads(out.read_text())
    row = next(r for r in result["rate_fidelity"] if r["codec"] == "bf16")
    elements = correlated_state(0, 40).size
    assert row["num_bytes"] == 2 * elements + 28
    assert row["bits_per_element"] == pytest.approx(16 + 8 * 28 / elements, rel=1e-4)


@needs_coder
def test_json_on_stdout_is_one_document(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["codec", "bench", state, "--model", "none", "--quick", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert {"rate_fidelity", "bytes_ratio", "decode"} <= set(json.loads(out))
    assert err == ""


def test_the_guide_has_every_option() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/codec.md").read_text()
    listed = set(re.findall(r"^\| `(--[a-z]+)", guide, re.MULTILINE))
    options = {name for option in bench.params for name in option.opts if name.startswith("--")}
    assert listed == options


@needs_coder
def test_missing_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["codec", "bench", "missing.npz", "--model", "none"]) == 2
    assert "cannot read a state" in capsys.readouterr().err
