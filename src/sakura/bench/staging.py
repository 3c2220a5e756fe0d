"""A folder of results appears whole: files are made beside it and moved in at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sakura.errors import InputError
from sakura.store.refusals import writing
from sakura.store.writer import output_lock


@contextmanager
def staged_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder whose files replace those of the same name in `out` at the end.

    Other files in `out` stay. After an error or an interrupt `out` is what it was before.

    Raises:
        InputError: `out` is a file.
        StoreError: it cannot be written, or another process is writing it.
    """
    with writing(out):
        if out.exists() and not out.is_dir():
            raise InputError("the output is a file", where=str(out), hint="name a folder")
        out.parent.mkdir(parents=True, exist_ok=True)
        with output_lock(out):
            folder = out.with_name(f".{out.name}.part")
            shutil.rmtree(folder, ignore_errors=True)  # of a killed process
            folder.mkdir()
            try:
                yield folder
                _move_files(folder, out)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _move_files(folder: Path, out: Path) -> None:
    for path in sorted(folder.rglob("*")):
        target = out / path.relative_to(folder)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
