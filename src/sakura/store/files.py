"""Objects that are files, or bytes in memory.

The ETag of a file is a hash of its inode, size and modification time: an atomic replace always
changes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from sakura.errors import NotFoundError, StoreError
from sakura.store.base import (
    PIECE_BYTES,
    ObjectInfo,
    check_etag,
    check_inside,
    check_range,
    short_read,
)


def file_etag(status: os.stat_result) -> str:
    """Strong validator of a file that is only ever replaced, never written in place."""
    identity = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
    return f'"{hashlib.sha256(identity.encode()).hexdigest()[:32]}"'


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "check the path; `sakura pack` writes bundles"
        raise NotFoundError("no such file", where=str(path), hint=hint) from error
    except OSError as error:
        raise StoreError(f"cannot read: {error.strerror}", where=str(path)) from error


class FileReader:
    """A RangeReader over one local file. The event loop reads it directly: a page-cache read takes
    microseconds.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    @property
    def url(self) -> str:
        return str(self._path)

    def stat(self) -> ObjectInfo:
        with _translated(self._path):
            status = self._path.stat()
        if self._path.is_dir():
            hint = "name a bundle in it, NAME.skv"
            raise StoreError("found a folder, expected a file", where=self.url, hint=hint)
        return ObjectInfo(self._path.name, status.st_size, file_etag(status))

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        return b"".join(self._pieces(start, stop, etag))

    async def head(self) -> ObjectInfo:
        return self.stat()

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        for piece in self._pieces(start, stop, etag):
            yield piece
            await asyncio.sleep(0)  # lets a cancellation or another transfer in between two pieces

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        info = self.stat()
        stop = min(num_bytes, info.num_bytes)
        return info, self.read(0, stop, info.etag) if stop else b""

    async def close(self) -> None:
        return None

    def _pieces(self, start: int, stop: int, etag: str | None) -> Iterator[bytes]:
        check_range(start, stop, self.url)
        with _translated(self._path), self._path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            check_etag(etag, file_etag(status), self.url)
            check_inside(stop, ObjectInfo(self._path.name, status.st_size, None), self.url)
            for offset in range(start, stop, PIECE_BYTES):
                wanted = min(PIECE_BYTES, stop - offset)
                piece = os.pread(file.fileno(), wanted, offset)
                if len(piece) < wanted:
                    raise short_read(offset - start + len(piece), start, stop, self.url)
                yield piece


class MemoryStore:
    """Named byte strings, for tests and for templates that never touch a disk."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`, replacing what was there."""
        self._objects[name] = data

    def get(self, name: str) -> bytes:
        """The bytes of `name`. Raises NotFoundError."""
        if name not in self._objects:
            raise NotFoundError("no such object", where=f"memory://{name}")
        return self._objects[name]

    def reader(self, name: str) -> MemoryReader:
        """A RangeReader of the object that stands under `name` at the time of each call."""
        return MemoryReader(self, name)


class MemoryReader:
    """A RangeReader over one object of a MemoryStore; the ETag is the content's digest."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self._store = store
        self._name = name

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    def stat(self) -> ObjectInfo:
        data = self._store.get(self._name)
        digest = hashlib.sha256(data).hexdigest()[:32]
        return ObjectInfo(self._name.rsplit("/", 1)[-1], len(data), f'"{digest}"')

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        check_range(start, stop, self.url)
        info = self.stat()
        check_etag(etag, info.etag, self.url)
        check_inside(stop, info, self.url)
        return self._store.get(self._name)[start:stop]

    async def head(self) -> ObjectInfo:
        return self.stat()

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        data = self.read(start, stop, etag)
        for offset in range(0, len(data), PIECE_BYTES):
            yield data[offset : offset + PIECE_BYTES]
            await asyncio.sleep(0)

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        return self.stat(), self._store.get(self._name)[:num_bytes]

    async def close(self) -> None:
        return None
