"""One bundle's folder in the flash cache: what it is called, and what is read from it.

    facts     where the bundle came from: url, etag, num_bytes
    head      head of the bundle
    picture   template picture, where the bundle carries one
    used      number of the last use, and the sources it was opened from
    level-L   chunks of level L, see flash_log.py

Nothing read here is trusted: whoever uses it checks digests, and a folder that does not add up is
no entry.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from sakura.play.flash_evict import BASE, Part
from sakura.play.flash_log import Record, read, scan
from sakura.play.ranges import Place
from sakura.store.writer import replace_file
from sakura.units import KIB, MIB

MOST_FILE_BYTES = 64 * MIB
"""Of head or picture; a larger file is not ours."""
MOST_SOURCES = 8
USED_BYTES = KIB
"""What the file `used` counts as; it is never longer."""
ENTRY_NAME = re.compile(r"[0-9a-f]{32}\.flash")
"""Folders of other names are never touched."""
LEVEL_NAME = re.compile(r"level-([0-9]{1,2})")
HEAD_DIGEST = slice(16, 32)

Document = TypeVar("Document", bound=msgspec.Struct)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The file `facts`."""

    url: str
    etag: str | None
    num_bytes: int


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """The file `used`: uses are numbered, because clocks jump; sources are hashed, because a
    presigned URL is a secret.
    """

    stamp: int = 0
    sources: dict[str, int] = {}  # msgspec copies it

    def at(self, stamp: int, source: str | None) -> Used:
        """After one more use, perhaps by opening `source`."""
        sources = dict(self.sources)
        if source is not None:
            sources[source_key(source)] = stamp
        newest = sorted(sources.items(), key=lambda item: -item[1])[:MOST_SOURCES]
        return Used(stamp=stamp, sources=dict(newest))


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What is kept of a bundle besides its chunks.

    Args:
        url: where it came from, for messages.
        etag: of the object.
        num_bytes: of the object.
        head: the object's first bytes, up to its data.
        picture: the template picture as a file, if the bundle carries one.
    """

    url: str
    etag: str | None
    num_bytes: int
    head: bytes
    picture: bytes | None = None

    @property
    def name(self) -> str:
        """The entry's name: another manifest or another etag is another entry."""
        identity = self.head[HEAD_DIGEST] + (self.etag or "").encode()
        return hashlib.sha256(identity).hexdigest()[:32] + ".flash"

    @property
    def files(self) -> dict[str, bytes]:
        """What an entry begins with; `facts` comes last and makes it one."""
        facts = Facts(url=self.url, etag=self.etag, num_bytes=self.num_bytes)
        pictures = {} if self.picture is None else {"picture": self.picture}
        return {"head": self.head, **pictures, "facts": msgspec.json.encode(facts)}


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """An entry in figures.

    Args:
        name: of its folder.
        url: where the bundle came from.
        etag: of the object.
        object_bytes: size of the object.
        num_bytes: on disk.
        level_bytes: on disk, per level.
        used_s: Unix time of the last use.
    """

    name: str
    url: str
    etag: str | None
    object_bytes: int
    num_bytes: int
    level_bytes: tuple[int, ...]
    used_s: float


@dataclass(slots=True, eq=False)
class Snapshot:
    """The chunks that an entry held at one time; they stay readable when it is evicted.

    Safe to read from several threads; after `close`, and of a file that was damaged, what is read
    is too short or wrong, and does not match its digest.
    """

    records: Mapping[Place, tuple[int, Record]] = field(default_factory=dict)
    _descriptors: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def places(self) -> frozenset[Place]:
        """The chunks."""
        return frozenset(self.records)

    def read(self, place: Place) -> bytes:
        """A chunk's bytes, not checked."""
        with self._lock:
            if not self._descriptors:
                return b""
            return read(*self.records[place])

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()


def take_snapshot(folder: Path) -> Snapshot:
    """What the level files of an entry hold now; nothing where they cannot be read."""
    records: dict[Place, tuple[int, Record]] = {}
    descriptors = []
    for path in sorted(folder.glob("level-*")):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            descriptors.append(descriptor)
            records |= {record.place: (descriptor, record) for record in scan(descriptor)}
    return Snapshot(MappingProxyType(records), descriptors)


def load(folder: Path) -> Kept | None:
    """What an entry keeps besides chunks; None where it is damaged or gone."""
    facts, head = read_document(folder / "facts", Facts), _read_file(folder / "head")
    if facts is None or head is None:
        return None
    kept = Kept(facts.url, facts.etag, facts.num_bytes, head, _read_file(folder / "picture"))
    return kept if kept.name == folder.name else None


def mend(folder: Path, kept: Kept) -> bool:
    """Write anew what an entry does not have as it should be; whether that was anything.

    Raises OSError. For the holder of the cache's lock.
    """
    wrong = {n: data for n, data in kept.files.items() if _read_file(folder / n) != data}
    for name, data in wrong.items():
        replace_file(folder / name, [data])
    return bool(wrong)


def read_document(path: Path, kind: type[Document]) -> Document | None:
    """A small JSON file; None where it is missing or not of this kind."""
    raw = _read_file(path)
    if raw is not None:
        with suppress(msgspec.MsgspecError, ValueError):
            return msgspec.json.decode(raw, type=kind)
    return None


def source_key(source: str) -> str:
    """What stands for a path or URL in `used`."""
    return hashlib.sha256(source.encode()).hexdigest()[:32]


def _read_file(path: Path) -> bytes | None:
    with suppress(OSError), path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= MOST_FILE_BYTES:
            return file.read(MOST_FILE_BYTES)
    return None


def used_of(folder: Path) -> Used:
    """The last use of an entry."""
    return read_document(folder / "used", Used) or Used()


def write_used(folder: Path, used: Used) -> None:
    """Replace `used`, without fsync: losing it in a power cut costs little. Raises OSError."""
    part_path = folder / ".used.part"
    part_path.write_bytes(msgspec.json.encode(used))
    os.replace(part_path, folder / "used")


def parts_of(folder: Path) -> list[Part]:
    """An entry's parts; the base is the first, and counts everything that is no other level."""
    sizes = {BASE: USED_BYTES}
    with suppress(FileNotFoundError), os.scandir(folder) as files:
        for file in files:
            match = LEVEL_NAME.fullmatch(file.name)
            level = BASE if match is None else int(match[1])
            num_bytes = 0 if file.name == "used" else file.stat().st_size
            sizes[level] = sizes.get(level, 0) + num_bytes
    stamp = used_of(folder).stamp
    return [Part(folder.name, level, stamp, num_bytes) for level, num_bytes in sizes.items()]


def info_of(folder: Path) -> EntryInfo | None:
    """An entry in figures; None where it is damaged or gone."""
    facts, parts = read_document(folder / "facts", Facts), parts_of(folder)
    if facts is None:
        return None
    used_s = 0.0
    with suppress(OSError):
        used_s = (folder / "used").stat().st_mtime
    levels = range(1 + max(part.level for part in parts))
    level_bytes = {part.level: part.num_bytes for part in parts} | {BASE: 0}
    with suppress(OSError):
        level_bytes[BASE] = (folder / f"level-{BASE}").stat().st_size
    return EntryInfo(
        name=folder.name,
        url=facts.url,
        etag=facts.etag,
        object_bytes=facts.num_bytes,
        num_bytes=sum(part.num_bytes for part in parts),
        level_bytes=tuple(level_bytes.get(level, 0) for level in levels),
        used_s=used_s,
    )


def remove(folder: Path) -> None:
    """Remove an entry; `facts` goes first, so that what a kill leaves of it is none."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name != "facts"):
        path.unlink(missing_ok=True)
    folder.rmdir()
