"""The flash cache: verified chunks of bundles in a folder, bounded in bytes, shared by processes.

One process writes at a time, under a lock of the kernel's that dies with it; readers need none.
What it holds may vanish or be damaged at any time; every byte is checked again when it is decoded.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sakura.errors import InputError, StoreError
from sakura.play.flash_entry import (
    ENTRY_NAME,
    USED_BYTES,
    EntryInfo,
    Kept,
    Snapshot,
    Used,
    info_of,
    load,
    mend,
    parts_of,
    remove,
    source_key,
    take_snapshot,
    used_of,
    write_used,
)
from sakura.play.flash_evict import BASE, Part, victims
from sakura.play.flash_log import Log, record_bytes
from sakura.play.ranges import Place
from sakura.store.refusals import writing
from sakura.units import MIB

DEFAULT_MAX_BYTES = 256 * MIB
LOCK_S, LOCK_NAP_S = 2.0, 0.005

Parts = dict[tuple[str, int], Part]
"""Everything in the cache, by entry and level."""


class FlashCache:
    """A folder of entries, one per bundle and version.

    Args:
        path: the folder; made when something is written.
        max_bytes: size that it is kept below.
    """

    def __init__(self, path: str | Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        if max_bytes < 0:
            raise InputError(f"max_bytes is {max_bytes}, expected 0 or more")
        self.path, self.max_bytes = Path(path), max_bytes
        self._mutex = threading.Lock()
        self._known: tuple[int, Parts] | None = None  # after writing number so-and-so, by whomever
        self._logs: dict[tuple[str, int], Log] = {}

    def find(self, source: str) -> Kept | None:
        """The bundle that was opened last from a path or URL."""
        key, found = source_key(source), list[tuple[int, Path]]()
        for folder in self._folders():
            stamp = used_of(folder).sources.get(key)
            if stamp is not None:
                found.append((stamp, folder))
        return load(max(found)[1]) if found else None

    def snapshot(self, kept: Kept) -> Snapshot:
        """The chunks of a bundle that are here now; for the caller to close."""
        return take_snapshot(self.path / kept.name)

    def touch(self, kept: Kept, source: str | None = None) -> None:
        """A bundle is used: keep its head and picture, and evict it later than others.

        Args:
            kept: the bundle.
            source: the path or URL it was opened from, for `find`; what is damaged of head and
                picture is then written anew.

        Raises:
            StoreError: the folder cannot be written to, or the lock is not let go.
        """
        with self._writing() as parts:
            if self._begin(kept, parts):
                folder = self.path / kept.name
                if source is not None and mend(folder, kept):
                    parts |= {(part.entry, part.level): part for part in parts_of(folder)}
                    self._make_room(parts[kept.name, BASE], 0, parts)
                stamp = 1 + max(part.stamp for part in parts.values())
                own = [part for part in parts.values() if part.entry == kept.name]
                parts |= {(part.entry, part.level): replace(part, stamp=stamp) for part in own}
                write_used(folder, used_of(folder).at(stamp, source))

    def put(self, kept: Kept, chunks: Iterable[tuple[Place, bytes]]) -> int:
        """Keep chunks whose digests were checked; returns how many are here now.

        A chunk is left out where only what is worth more could make room for it.

        Raises:
            StoreError: the folder cannot be written to, or the lock is not let go. What was
                written before stays.
        """
        with self._writing() as parts:
            if not self._begin(kept, parts):
                return 0
            return sum(self._append(kept.name, chunk, parts) for chunk in chunks)

    def entries(self) -> list[EntryInfo]:
        """What is here, last used first."""
        folders = sorted(self._folders(), key=lambda folder: -used_of(folder).stamp)
        return [info for folder in folders if (info := info_of(folder)) is not None]

    def prune(self, max_bytes: int | None = None) -> int:
        """Evict down to `max_bytes`, or to the cache's own bound; returns the bytes freed.

        Raises:
            StoreError: see `put`.
        """
        most = self.max_bytes if max_bytes is None else max_bytes
        with self._writing() as parts:
            over = sum(part.num_bytes for part in parts.values()) - most
            gone = victims(parts.values(), over)
            assert gone is not None
            return self._evict(gone, parts)

    def clear(self) -> int:
        """Evict everything; returns the bytes freed. Raises StoreError, see `put`."""
        with self._writing() as parts:
            return self._evict(list(parts.values()), parts)

    def close(self) -> None:
        """Close the files it writes to; they open again when needed."""
        with self._mutex:
            for log in self._logs.values():
                log.close()
            self._logs.clear()

    @contextmanager
    def _writing(self) -> Iterator[Parts]:
        """Hold the right to write; folders that a killed process left behind are removed.

        The lock's file counts how often it was taken, so that who comes back to it knows whether
        anything has changed: looking through a large cache takes milliseconds.
        """
        with self._mutex, writing(self.path):
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            known, self._known = self._known, None
            try:
                self._acquire(descriptor)
                number = int.from_bytes(os.read(descriptor, 8), "little")
                parts = known[1] if known is not None and known[0] == number else self._parts()
                number = (number + 1) % (1 << 64)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, number.to_bytes(8, "little"))  # before anything is changed
                yield parts
                self._known = number, parts
            finally:
                os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        deadline_s = time.monotonic() + LOCK_S
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise StoreError(
                        "another process holds the cache", where=str(self.path)
                    ) from None
                time.sleep(LOCK_NAP_S)

    def _begin(self, kept: Kept, parts: Parts) -> bool:
        """Make sure that a bundle has an entry; False where there is no room for it."""
        if (kept.name, BASE) in parts:
            return True
        stamp = 1 + max((part.stamp for part in parts.values()), default=0)
        num_bytes = USED_BYTES + sum(map(len, kept.files.values()))
        part = Part(kept.name, BASE, stamp, num_bytes)
        if not self._make_room(part, num_bytes, parts):
            return False
        folder = self.path / kept.name
        folder.mkdir(0o700, exist_ok=True)
        write_used(folder, Used(stamp=stamp))
        mend(folder, kept)
        parts[kept.name, BASE] = part
        return True

    def _append(self, entry: str, chunk: tuple[Place, bytes], parts: Parts) -> bool:
        place, data = chunk
        key = entry, place[2]
        if key not in self._logs:
            self._logs[key] = Log(self.path / entry / f"level-{key[1]}")
        if self._logs[key].holds(place, data):
            return True
        base, num_bytes = parts[entry, BASE], record_bytes(len(data))
        part = parts.get(key, Part(entry, key[1], base.stamp))
        if not self._make_room(part, num_bytes, parts):
            return False
        self._logs[key].append(place, data)
        parts[key] = replace(part, num_bytes=part.num_bytes + num_bytes)
        return True

    def _make_room(self, part: Part, num_bytes: int, parts: Parts) -> bool:
        """Evict what is worth less than `part` until `num_bytes` more fit."""
        over = sum(each.num_bytes for each in parts.values()) + num_bytes - self.max_bytes
        gone = victims(parts.values(), over, below=part)
        if gone is not None:
            self._evict(gone, parts)
        return gone is not None

    def _evict(self, gone: list[Part], parts: Parts) -> int:
        for part in gone:
            folder = self.path / part.entry
            if part.level == BASE:
                remove(folder)
            else:
                (folder / f"level-{part.level}").unlink(missing_ok=True)
            del parts[part.entry, part.level]
        return sum(part.num_bytes for part in gone)

    def _folders(self) -> list[Path]:
        with suppress(OSError):
            return [path for path in self.path.iterdir() if ENTRY_NAME.fullmatch(path.name)]
        return []

    def _parts(self) -> Parts:
        for folder in self._folders():
            if not (folder / "facts").exists():
                remove(folder)
        return {
            (part.entry, part.level): part
            for folder in self._folders()
            for part in parts_of(folder)
        }


def as_cache(cache: FlashCache | str | Path) -> FlashCache:
    """A cache, or that of a folder."""
    return cache if isinstance(cache, FlashCache) else FlashCache(cache)
