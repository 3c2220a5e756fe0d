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

from sakura.store.open import BUCKET_SCHEMES, local_path, scheme_of
from sakura.store.refusals import writing
from sakura.store.writer import check_output, output_lock, replace_file

_DIGEST_BYTES = 32


class WorkFolder:
    """Parts of one bundle.

    Args:
        path: the folder; made with the first part.
        key: digest of all inputs; parts of other inputs are absent.
        output: the bundle in the making; errors name it, not the folder.
    """

    def __init__(self, path: Path, key: str, output: str | Path) -> None:
        self.path, self._key, self._output = path, key, output
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
        with writing(self._output):
            self.path.mkdir(exist_ok=True)
            replace_file(self.path / name, [self._digest(name, data), data])

    def discard(self) -> None:
        """Remove the folder and all parts; what cannot be removed stays: the bundle is there."""
        shutil.rmtree(self.path, ignore_errors=True)

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
    check_output(out)
    if scheme_of(out) in BUCKET_SCHEMES:
        with tempfile.TemporaryDirectory(prefix="sakura-pack-") as folder:
            yield WorkFolder(Path(folder) / "work", key, out)
        return
    output = local_path(out)
    path = work_path(output)
    with ExitStack() as stack:
        with writing(output):
            stack.enter_context(output_lock(path, output))
        yield WorkFolder(path, key, output)


def work_path(out: Path) -> Path:
    """Where the work on an output is kept: `.NAME.skv.work` beside it."""
    return out.with_name(f".{out.name}.work")
