"""What a killed packager leaves for its successor: finished parts beside the output, each with a
digest of its bytes and of everything they were made from. A part that does not match counts as
absent.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sakura.errors import NotFoundError, StoreError
from sakura.store.open import BUCKET_SCHEMES, local_path, scheme_of
from sakura.store.writer import output_lock, put_atomic

_DIGEST_BYTES = 32


class WorkFolder:
    """Parts of one bundle.

    Args:
        path: the folder; made with the first part.
        key: digest of all inputs; parts of other inputs are absent.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self._key = path, key
        self.num_reused = 0

    def get(self, name: str) -> bytes | None:
        """A finished part; None when there is none, or it is unreadable or of other inputs."""
        try:
            raw = (self.path / name).read_bytes()
        except OSError:
            return None
        digest, data = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if digest != self._digest(name, data):
            return None
        self.num_reused += 1
        return data

    def put(self, name: str, data: bytes) -> None:
        """Keep a part. Raises StoreError when it cannot be written."""
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise _refused(error, self.path) from error
        put_atomic(self.path / name, [self._digest(name, data), data])

    def discard(self) -> None:
        """Remove the folder and all parts."""
        if self.path.is_dir():
            shutil.rmtree(self.path)

    def _digest(self, name: str, data: bytes) -> bytes:
        hasher = hashlib.sha256(f"{self._key}/{name}/".encode())
        hasher.update(data)
        return hasher.digest()


@contextmanager
def work_folder(out: str | Path, key: str) -> Iterator[WorkFolder]:
    """The work folder of an output, under a lock; for a bucket, a temporary one.

    Raises:
        StoreError: another packager works on this output, or nothing can be written there.
    """
    scheme = scheme_of(out)
    if scheme in BUCKET_SCHEMES:
        with tempfile.TemporaryDirectory(prefix="sakura-pack-") as folder:
            yield WorkFolder(Path(folder) / "work", key)
        return
    if scheme not in ("", "file"):
        raise StoreError(f"cannot write to scheme {scheme!r}", where=str(out))
    path = work_path(_checked(local_path(out)))
    with ExitStack() as stack:
        try:
            stack.enter_context(output_lock(path))
        except OSError as error:
            raise _refused(error, path) from error
        yield WorkFolder(path, key)


def work_path(out: Path) -> Path:
    """Where the work on an output is kept: `.NAME.skv.work` beside it."""
    return out.with_name(f".{out.name}.work")


def _checked(out: Path) -> Path:
    """Refuse now what would be refused after minutes of work."""
    if out.is_dir():
        raise StoreError("the output is a folder", where=str(out), hint="name a file in it")
    if not out.parent.is_dir():
        raise NotFoundError("no such folder", where=str(out.parent), hint="create it first")
    return out


def _refused(error: OSError, path: Path) -> StoreError:
    return StoreError(f"cannot write: {error.strerror}", where=str(path))
