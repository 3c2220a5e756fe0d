"""Writes a whole object or nothing: readers see the old bytes or the new ones, never a part.

Local files go through a temporary file in the same folder, under a lock that dies with its process.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sakura.errors import NotFoundError, StoreError
from sakura.store.files import MemoryStore
from sakura.store.open import BUCKET_SCHEMES, local_path, scheme_of

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        with _folder_checked(path), output_lock(path):
            return _replace(path, pieces)
    if scheme in BUCKET_SCHEMES:
        return _put_bucket(str(target), pieces)
    if scheme == "memory" and memory is not None:
        data = b"".join(pieces)
        memory.put(str(target).partition("://")[2], data)
        return len(data)
    raise StoreError(
        f"cannot write to scheme {scheme!r}", where=str(target), hint="write to a path or bucket"
    )


@contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Hold the only right to write `path`. Raises StoreError where another live process holds it.

    The lock is the kernel's (flock), so a killed writer's lock file is taken over; the process id
    in it is for the message only.
    """
    lock_path = path.with_name(f".{path.name}.lock")
    descriptor = _acquire(lock_path, path)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        lock_path.unlink(missing_ok=True)  # while still locked: a waiter sees that its file is gone
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


def _replace(path: Path, pieces: Iterable[bytes]) -> int:
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
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _folder_checked(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into StoreError with a hint."""
    if path.is_dir():
        raise StoreError("the output is a folder", where=str(path), hint="name a file in it")
    if not path.parent.is_dir():
        raise NotFoundError("no such folder", where=str(path.parent), hint="create it first")
    try:
        yield
    except OSError as error:
        hint = "free some space or choose another disk" if error.errno in _FULL else None
        raise StoreError(f"cannot write: {error.strerror}", where=str(path), hint=hint) from error


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
