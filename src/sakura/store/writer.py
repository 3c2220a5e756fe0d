"""Writes a whole object or nothing: readers see the old bytes or the new ones, never a part.

Local files go through a temporary file in the same folder, under a lock that dies with its process.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sakura.errors import NotFoundError, StoreError
from sakura.store.files import MemoryStore
from sakura.store.open import BUCKET_SCHEMES, local_path, scheme_of
from sakura.store.refusals import writing


def put_atomic(
    target: str | Path, pieces: Iterable[bytes], memory: MemoryStore | None = None
) -> int:
    """Store the joined `pieces` at `target` (path or URL); returns the number of bytes.

    Raises:
        StoreError: another writer holds this output, the disk is full, the target cannot be
        written. Whatever `pieces` raises; the object is then what it was before.
    """
    scheme = scheme_of(target)
    if scheme in ("", "file"):
        path = local_path(target)
        with writing(path):
            if _is_device(path):
                return _pour(path, pieces)
            _check_place(path)
            with output_lock(path):
                return replace_file(path, pieces)
    if scheme in BUCKET_SCHEMES:
        return _put_bucket(str(target), pieces)
    if scheme == "memory" and memory is not None:
        data = b"".join(pieces)
        memory.put(str(target).partition("://")[2], data)
        return len(data)
    raise _no_writer(target)


def check_output(target: str | Path) -> None:
    """Refuse now what `put_atomic` would refuse after minutes of work.

    A local output is tried: its lock is taken and let go, which needs a folder that is there and
    may be written, and a name that is not too long.

    Raises:
        StoreError: nothing can be written there, or another writer holds this output.
    """
    scheme = scheme_of(target)
    if scheme in BUCKET_SCHEMES:
        from sakura.store.objects import open_bucket

        open_bucket(str(target))
        return
    if scheme not in ("", "file"):
        raise _no_writer(target)
    path = local_path(target)
    with writing(path):
        if not _is_device(path):
            _check_place(path)
            with output_lock(path):
                return


@contextmanager
def output_lock(path: Path, output: Path | None = None) -> Iterator[None]:
    """Hold the only right to write `path`. Raises StoreError where another live process holds it.

    The lock is the kernel's (flock), so a killed writer's lock file is taken over; the process id
    in it is for the message only.

    Args:
        path: what is written.
        output: what to name in messages, if not that.
    """
    lock_path = path.with_name(f".{path.name}.lock")
    descriptor = _acquire(lock_path, output or path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with suppress(OSError):  # a lock file that stays is taken over by the next writer
            lock_path.unlink()  # while still locked: a waiter sees that its file is gone
        os.close(descriptor)


def _acquire(lock_path: Path, path: Path) -> int:
    while True:
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreError(
                f"another packager (process {owner}) is writing this output",
                where=str(path),
                hint="wait for it, or choose another output",
            ) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(lock_path)):
                return descriptor
        os.close(descriptor)  # the previous owner removed the file after we opened it: start again


def replace_file(path: Path, pieces: Iterable[bytes]) -> int:
    """Write a local file whole or not at all; for its only writer. Raises OSError."""
    part_path = path.with_name(
        f".{path.name}.part"
    )  # one name: a killed writer's rest is overwritten
    try:
        with part_path.open("wb") as file:
            num_bytes = sum(file.write(piece) for piece in pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part_path, path)
    except BaseException:
        part_path.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return num_bytes


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut, where it may be opened: the file is there."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_place(path: Path) -> None:
    """Refuse an output that is a folder, or in none."""
    if path.is_dir():
        raise StoreError("the output is a folder", where=str(path), hint="name a file in it")
    if not path.parent.is_dir():
        raise NotFoundError("no such folder", where=str(path.parent), hint="create it first")


def _is_device(path: Path) -> bool:
    """Whether a path is a pipe, a terminal or the like, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _pour(path: Path, pieces: Iterable[bytes]) -> int:
    with path.open("wb", buffering=0) as file:
        return sum(file.write(piece) for piece in pieces)


def _no_writer(target: str | Path) -> StoreError:
    scheme = scheme_of(target)
    hint = "write to a path or bucket"
    return StoreError(f"cannot write to scheme {scheme!r}", where=str(target), hint=hint)


def _put_bucket(url: str, pieces: Iterable[bytes]) -> int:
    import obstore

    from sakura.store.objects import open_bucket, translated

    store, name = open_bucket(url)
    num_bytes = 0

    def counted() -> Iterator[bytes]:
        nonlocal num_bytes
        for piece in pieces:
            num_bytes += len(piece)
            yield piece

    with translated(url):
        obstore.put(store, name, counted())
    return num_bytes
