"""`sakura cache`: what it lists and what it removes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sakura.cli import run
from sakura.play.flash import FlashCache
from tests.play.test_flash import RECORD, chunks, found, kept


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cache = FlashCache(tmp_path / "cache")
    for number in range(2):
        cache.put(kept(number), chunks(0, 1, bundle=number))
    cache.close()
    return cache.path


def test_ls_tells_the_same_in_both_forms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cache", "ls", "--cache", str(folder), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["url"] for entry in entries] == [kept(1).url, kept(0).url]
    assert entries[0]["level_bytes"] == [RECORD, RECORD]
    assert run(["cache", "ls", "--cache", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.index(kept(1).url) < out.index(kept(0).url)
    assert "17%" in out  # two records of a 12345-byte object


def test_ls_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cache", "ls", "--cache", str(tmp_path / "none")]) == 0
    assert run(["cache", "ls", "--cache", str(tmp_path / "none"), "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_prune_evicts_down_to_a_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = FlashCache(folder)
    before = sum(entry.num_bytes for entry in cache.entries())
    size = str(before - RECORD)
    assert run(["cache", "prune", "--cache", str(folder), "--max-bytes", size, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "freed_bytes": RECORD,
        "num_bytes": before - RECORD,
    }
    assert {place[2] for place in found(cache, kept(0))} == {0}
    assert run(["cache", "prune", "--cache", str(folder)]) == 0
    assert "0 B freed" in capsys.readouterr().err


def test_clear_evicts_everything_and_the_variable_names_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAKURA_CACHE", str(folder))
    assert run(["cache", "clear"]) == 0
    assert capsys.readouterr().err.endswith("0 B left\n")
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_folder_must_be_named_and_a_size_be_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SAKURA_CACHE", raising=False)
    assert run(["cache", "ls"]) == 2
    assert "SAKURA_CACHE" in capsys.readouterr().err
    assert run(["cache", "prune", "--cache", str(folder), "--max-bytes", "many"]) == 2
    assert "64KiB" in capsys.readouterr().err
    assert run(["cache", "clear", "--cache", str(folder / "lock")]) == 5
    assert "hint:" in capsys.readouterr().err
