"""What the operating system refuses is an error of ours that names the user's path, with a hint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sakura.errors import NotFoundError, StoreError
from sakura.store.refusals import HINTS, refused
from sakura.store.writer import check_output, put_atomic


@pytest.mark.parametrize("code", sorted(HINTS))
def test_every_kind_of_refusal_names_the_output_and_what_to_do(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.skv"

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code), "a file beside it")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StoreError) as caught:
        put_atomic(out, [b"data"])
    assert caught.value.exit_code == 5
    assert str(caught.value) == f"cannot write: {os.strerror(code)} (at {out})"
    assert caught.value.hint == HINTS[code]
    assert os.listdir(tmp_path) == []


def test_kinds_nobody_listed_are_errors_of_ours_too() -> None:
    assert str(refused(OSError(errno.EIO, "I/O error"), "x")) == "cannot write: I/O error (at x)"
    assert str(refused(OSError("no number"), "x")) == "cannot write: no number (at x)"


@pytest.mark.parametrize("write", [check_output, lambda path: put_atomic(path, [b"data"])])
def test_places_that_cannot_be_written(write: object, tmp_path: Path) -> None:
    assert callable(write)
    (tmp_path / "file").write_bytes(b"")
    for out, kind, word in (
        (tmp_path / "missing" / "a", NotFoundError, "folder"),
        (tmp_path / "file" / "a", NotFoundError, "folder"),
        (tmp_path, StoreError, "folder"),
        (tmp_path / ("n" * 250), StoreError, "long"),
        (tmp_path / ("n" * 300), StoreError, "long"),
        ("ftp://host/a", StoreError, "scheme"),
    ):
        with pytest.raises(kind, match=word) as caught:
            write(out)
        assert caught.value.hint
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_takes_no_file_is_found_out_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(StoreError, match="Read-only") as caught:
        check_output(tmp_path / "a.skv")
    assert caught.value.hint


def test_a_check_leaves_nothing_and_disturbs_nothing(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    (tmp_path / "old").write_bytes(b"old")
    check_output(str(tmp_path / "old"))
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_output(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert put_atomic(pipe, [b"da", b"ta"]) == 4
    assert os.read(reader, 10) == b"data"
    os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_lock_that_cannot_be_removed_does_not_undo_a_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "unlink", unlink)
    assert put_atomic(tmp_path / "a", [b"data"]) == 4
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"data"
    put_atomic(tmp_path / "a", [b"again"])
    assert os.listdir(tmp_path) == ["a"]
