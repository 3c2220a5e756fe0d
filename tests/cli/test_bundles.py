"""`inspect`, `verify`, `serve` and `env`: what they print of a bundle, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sakura.cli import run
from sakura.cli.text import facts, table
from sakura.format import read_head

GOLDEN = Path(__file__).parents[1] / "format/golden/v1_0.skv"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The golden bundle with its last byte, a shard's, changed."""
    data = bytearray(GOLDEN.read_bytes())
    data[-1] ^= 1
    path = tmp_path / "damaged.skv"
    path.write_bytes(data)
    return path


def test_inspect_agrees_with_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(GOLDEN), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    data = GOLDEN.read_bytes()
    manifest = read_head(lambda at, length: data[at : at + length], len(data)).manifest
    layers = [shard.layers[0].num_bytes for shard in manifest.shards]
    assert summary["num_bytes"] == len(data)
    assert summary["levels"][0]["num_bytes"] == sum(layers)
    assert summary["levels"][-1]["total_bytes"] == sum(
        sum(component["level_bytes"]) for component in summary["components"]
    )
    assert summary["num_active"] + summary["num_cached"] == manifest.token_grid.num_tokens


def test_inspect_prints_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(GOLDEN)]) == 0
    out, err = capsys.readouterr()
    assert "face-swap, mask mode" in out
    assert "component" in out
    assert err == ""


def test_verify_says_which_bundle_is_damaged_and_where(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(GOLDEN), str(damaged)]) == 3
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith(f"{GOLDEN}: intact")
    assert second.startswith(f"{damaged}: damaged")
    assert "$.shards[" in err


def test_verify_counts_as_json(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", "--json", str(GOLDEN), str(damaged)]) == 3
    intact, broken = json.loads(capsys.readouterr().out)
    assert (intact["is_intact"], intact["problems"]) == (True, [])
    assert not broken["is_intact"]
    assert len(broken["problems"]) == 1
    assert broken["num_chunks"] == intact["num_chunks"] > 0


def test_a_file_that_is_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.skv"
    path.write_bytes(b"this is a text file, long enough for a header")
    assert run(["inspect", str(path)]) == 3
    assert "hint:" in capsys.readouterr().err
    assert run(["verify", str(path)]) == 3


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_a_missing_bundle(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "no-such.skv"]) == 5
    assert "no-such.skv" in capsys.readouterr().err


def test_serve_refuses_a_missing_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "no-such-folder", "--port", "0"]) == 5
    assert "no-such-folder" in capsys.readouterr().err


def test_env_tells_the_same_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert run(["env"]) == 0
    text = capsys.readouterr().out
    assert report["versions"]["sakura"] in text
    assert all(name in text for name in [*report["extras"], *report["traces"], *report["models"]])


def test_env_says_how_to_install_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(
        __import__("sakura.bench.machine").bench.machine.EXTRAS, "viz", ("no_such_module",)
    )
    assert run(["env"]) == 0
    assert 'pip install "sakura-kv[viz]"  # lacks no_such_module' in capsys.readouterr().out


def test_tables_are_aligned() -> None:
    lines = table(("name", "size"), [("a", "1 B"), ("longer", "20 KiB")]).splitlines()
    assert lines == ["name      size", "------  ------", "a          1 B", "longer  20 KiB"]
    assert facts({"a": "1", "bcd": "2"}) == "a    1\nbcd  2"
