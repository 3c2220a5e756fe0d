"""Finds the file behind a request path, inside one folder and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sakura.errors import NotFoundError
from sakura.store.files import file_etag

BUNDLE_SUFFIX = ".skv"
_MAX_PATH = 1024


@dataclass(frozen=True, slots=True)
class OpenObject:
    """An open file and what was true of it when it was opened. The caller closes `file`."""

    file: FileIO
    num_bytes: int
    etag: str


class Folder:
    """The objects of a store folder: regular files, none of whose path segments begins with a dot.

    Links are followed while they stay inside.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(os.path.realpath(root))
        if not os.path.isdir(self._root):  # Path.is_dir raises for some names
            hint = "name a folder that holds bundles"
            raise NotFoundError("no such folder", where=str(root), hint=hint)

    def open(self, name: str) -> OpenObject:
        """Open the object `name` (decoded, with `/`). Raises NotFoundError for anything else."""
        path = self._path_of(name)
        try:
            # Non-blocking, so that a pipe in the folder cannot hang the server.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NotFoundError("no such object", where=name) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise NotFoundError("no such object", where=name)
        return OpenObject(FileIO(descriptor), status.st_size, file_etag(status))

    def bundles(self) -> Iterator[tuple[str, os.stat_result]]:
        """Names and stats of all bundles, sorted; what is hidden or leads outside is no bundle."""
        for path in sorted(self._root.rglob(f"*{BUNDLE_SUFFIX}")):
            name = path.relative_to(self._root).as_posix()
            try:
                status = self._path_of(name).stat()
            except (NotFoundError, FileNotFoundError):
                continue
            if stat.S_ISREG(status.st_mode):
                yield name, status

    def _path_of(self, name: str) -> Path:
        segments = name.split("/")
        is_plain = all(part and not part.startswith(".") for part in segments)
        if not is_plain or len(name) > _MAX_PATH or "\\" in name or "\0" in name:
            raise NotFoundError("no such object", where=ascii(name[:80]))
        try:
            path = self._root.joinpath(*segments).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, not UTF-8
            raise NotFoundError("no such object", where=ascii(name[:80])) from error
        if not path.is_relative_to(self._root):
            raise NotFoundError("no such object", where=ascii(name[:80]))
        return path
