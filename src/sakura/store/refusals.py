"""What an operating system refuses to write, as errors of ours: one message and hint per kind.

Messages name the path that the user gave, never a file of ours beside it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from sakura.errors import NotFoundError, StoreError

_FULL = "free some space or choose another disk"
_FILE = "a part of the path is a file; name a folder there"
_CLOSED = "choose a folder that you may write to"
HINTS: Mapping[int, str] = MappingProxyType(
    {
        errno.ENOSPC: _FULL,
        errno.EDQUOT: _FULL,
        errno.EFBIG: _FULL,
        errno.EACCES: _CLOSED,
        errno.EPERM: _CLOSED,
        errno.EROFS: _CLOSED,
        errno.ENAMETOOLONG: "choose a shorter name",
        errno.ELOOP: "its links lead in a circle; name the file itself",
        errno.EISDIR: "name a file in it",
        errno.ENOENT: "create the folder first",
        errno.EEXIST: _FILE,
        errno.ENOTDIR: _FILE,
    }
)
"""What to do about each kind of refusal."""


def refused(error: OSError, path: str | Path) -> StoreError:
    """The error of ours for a write that the operating system refuses."""
    is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    kind = NotFoundError if is_missing else StoreError
    hint = HINTS.get(error.errno) if error.errno is not None else None
    return kind(f"cannot write: {error.strerror or error}", where=str(path), hint=hint)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn every OSError inside into an error about `path`. Raises StoreError."""
    try:
        yield
    except OSError as error:
        raise refused(error, path) from error
