"""The writer: whole or nothing, one at a time, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sakura.errors import NotFoundError, StoreError
from sakura.store.writer import put_atomic

KILLED_WRITER = """
import sys
from sakura.store.writer import put_atomic
def pieces():
    yield b"half" * 100_000
    print("writing", flush=True)
    sys.stdin.read()
put_atomic(sys.argv[1], pieces())
"""
FULL_DISK = """
import resource, sys
from sakura.errors import StoreError
from sakura.store.writer import put_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    put_atomic(sys.argv[1], [b"x" * 65536] * 4)
except StoreError as error:
    print(error.hint)
"""


def child_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_object_is_whole_and_alone(tmp_path: Path) -> None:
    assert put_atomic(tmp_path / "a.skv", iter([b"ab", b"", b"cde"])) == 5
    assert (tmp_path / "a.skv").read_bytes() == b"abcde"
    assert names(tmp_path) == ["a.skv"]


def test_replacement_is_a_new_file(tmp_path: Path) -> None:
    """A reader that has the old file open keeps the old bytes."""
    put_atomic(tmp_path / "a.skv", [b"old"])
    with (tmp_path / "a.skv").open("rb") as held:
        put_atomic(tmp_path / "a.skv", [b"new"])
        assert held.read() == b"old"
    assert (tmp_path / "a.skv").read_bytes() == b"new"


def test_old_bytes_stand_while_writing(tmp_path: Path) -> None:
    put_atomic(tmp_path / "a.skv", [b"old"])

    def pieces() -> Iterator[bytes]:
        yield b"new" * 100_000
        assert (tmp_path / "a.skv").read_bytes() == b"old"
        yield b"end"

    put_atomic(tmp_path / "a.skv", pieces())
    assert (tmp_path / "a.skv").read_bytes().endswith(b"end")


def test_failed_writer_changes_nothing(tmp_path: Path) -> None:
    put_atomic(tmp_path / "a.skv", [b"old"])

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_atomic(tmp_path / "a.skv", pieces())
    assert (tmp_path / "a.skv").read_bytes() == b"old"
    assert names(tmp_path) == ["a.skv"]


def test_second_writer_is_told_who_is_first(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        with pytest.raises(StoreError, match=f"process {os.getpid()}") as caught:
            put_atomic(tmp_path / "a.skv", [b"second"])
        assert caught.value.hint
        put_atomic(tmp_path / "b.skv", [b"other output"])

    put_atomic(tmp_path / "a.skv", pieces())
    assert (tmp_path / "a.skv").read_bytes() == b"first"
    put_atomic(tmp_path / "a.skv", [b"third"])
    assert names(tmp_path) == ["a.skv", "b.skv"]


def test_killed_writer_leaves_the_output_free(tmp_path: Path) -> None:
    put_atomic(tmp_path / "a.skv", [b"old"])
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED_WRITER, str(tmp_path / "a.skv")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        with pytest.raises(StoreError, match=f"process {writer.pid}"):
            put_atomic(tmp_path / "a.skv", [b"too early"])
        writer.send_signal(signal.SIGKILL)
    assert (tmp_path / "a.skv").read_bytes() == b"old"
    put_atomic(tmp_path / "a.skv", [b"new"])
    assert (tmp_path / "a.skv").read_bytes() == b"new"
    assert names(tmp_path) == ["a.skv"]


def test_full_disk_is_explained(tmp_path: Path) -> None:
    """A file size limit stands for a full disk: the same refusal of the same call."""
    put_atomic(tmp_path / "a.skv", [b"old"])
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.skv")]
    said = subprocess.run(command, capture_output=True, env=child_environment(), check=True)
    assert b"free some space" in said.stdout
    assert (tmp_path / "a.skv").read_bytes() == b"old"
    assert names(tmp_path) == ["a.skv"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    """Another user's web server must be able to read what was packed."""
    before = os.umask(0o022)
    try:
        put_atomic(tmp_path / "a.skv", [b"x"])
    finally:
        os.umask(before)
    assert (tmp_path / "a.skv").stat().st_mode & 0o777 == 0o644


def test_impossible_targets(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such folder"):
        put_atomic(tmp_path / "none" / "a.skv", [b"x"])
    with pytest.raises(StoreError, match="is a folder"):
        put_atomic(tmp_path, [b"x"])
    with pytest.raises(StoreError, match="cannot write to scheme 'http'"):
        put_atomic("http://127.0.0.1/a.skv", [b"x"])
