"""A folder of results is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sakura.bench.staging import staged_folder
from sakura.errors import InputError, StoreError


def test_files_appear_at_the_end_and_replace_their_namesakes(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    for text in ("first", "second"):
        with staged_folder(out) as folder:
            (folder / "store").mkdir()
            (folder / "store" / "x.skv").write_text(text)
            assert not (out / "store" / "x.skv").exists() or text == "second"
        assert (out / "store" / "x.skv").read_text() == text
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_other_files_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with staged_folder(out) as folder:
        (folder / "new.txt").write_text("new")
    assert sorted(path.name for path in out.iterdir()) == ["mine.txt", "new.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bad")])
def test_nothing_is_left_after_an_error(tmp_path: Path, error: BaseException) -> None:
    out = tmp_path / "out"

    def fail() -> None:
        with staged_folder(out) as folder:
            (folder / "half.png").write_bytes(b"half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_the_rest_of_a_killed_run_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".out.part").mkdir()
    (tmp_path / ".out.part" / "old.png").write_bytes(b"old")
    with staged_folder(tmp_path / "out") as folder:
        assert list(folder.iterdir()) == []


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with staged_folder(out) as folder:
        (folder / "mine.txt").write_text("mine")
        with pytest.raises(StoreError), staged_folder(out):
            raise AssertionError("never reached")
    assert (out / "mine.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError), staged_folder(tmp_path / "out"):
        raise AssertionError("never reached")
