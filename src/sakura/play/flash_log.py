"""Files of records in the flash cache: one chunk each, appended, never changed. Knows no bundle.

    magic "SKF1" | u32 block, component, level, index, length | 16-byte digest of the data
    | u32 CRC-32 of all before | data

A record counts if its header is whole and its data ends inside the file. What a killed writer left
behind the last such record is cut off by the next one. Integers are little-endian.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sakura.format.shard import CHUNK_BYTES, digest
from sakura.play.ranges import Place

MAGIC = b"SKF1"
_FIXED = struct.Struct("<4sIIIII16s")
_CRC = struct.Struct("<I")
HEADER_BYTES = _FIXED.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk's data [start, stop) in a file, and the digest it had when it was written."""

    place: Place
    digest: bytes
    start: int
    stop: int


def record_bytes(num_bytes: int) -> int:
    """Length of the record of a chunk of `num_bytes`."""
    return HEADER_BYTES + num_bytes


def encode(place: Place, data: bytes) -> bytes:
    """The record of a chunk."""
    fixed = _FIXED.pack(MAGIC, *place, len(data), digest(data))
    return fixed + _CRC.pack(zlib.crc32(fixed)) + data


def scan(descriptor: int, start: int = 0) -> Iterator[Record]:
    """Whole records from byte `start` on, up to the first place where there is none."""
    num_bytes = os.fstat(descriptor).st_size
    while (record := _record_at(descriptor, start, num_bytes)) is not None:
        yield record
        start = record.stop


def read(descriptor: int, record: Record) -> bytes:
    """Data of a record; fewer bytes, or none, where the file does not give them."""
    try:
        return os.pread(descriptor, record.stop - record.start, record.start)
    except OSError:
        return b""


class Log:
    """The writing side of one file; what was scanned is remembered. Not safe to share.

    The file stays open while it is the one at the path, so that its inode cannot become another's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._end = 0
        self._records: dict[Place, Record] = {}

    def append(self, place: Place, data: bytes) -> None:
        """Write a record behind the last whole one, or leave the file as it was.

        The caller holds the only right to write. Raises OSError.
        """
        descriptor = self._current()
        blob = encode(place, data)
        try:
            if os.fstat(descriptor).st_size > self._end:
                os.ftruncate(descriptor, self._end)
            _write_all(descriptor, blob, self._end)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        start = self._end + HEADER_BYTES
        self._end = start + len(data)
        self._records[place] = Record(place, digest(data), start, self._end)

    def holds(self, place: Place, data: bytes) -> bool:
        """Whether the newest record of a chunk has this data, read back. Raises OSError."""
        if not self._path.exists():
            return False
        descriptor = self._current()
        record = self._records.get(place)
        return record is not None and read(descriptor, record) == data

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._end, self._records = None, 0, {}

    def _current(self) -> int:
        """Descriptor of the file at the path, scanned to its end."""
        if self._descriptor is not None and not self._is_current(self._descriptor):
            self.close()
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        for record in scan(self._descriptor, self._end):
            self._records[record.place], self._end = record, record.stop
        return self._descriptor

    def _is_current(self, descriptor: int) -> bool:
        found = os.fstat(descriptor)
        try:
            is_same = os.path.samestat(found, os.stat(self._path))
        except FileNotFoundError:  # another process evicted it
            return False
        return is_same and found.st_size >= self._end


def _record_at(descriptor: int, start: int, num_bytes: int) -> Record | None:
    header = os.pread(descriptor, HEADER_BYTES, start)
    if len(header) < HEADER_BYTES:
        return None
    magic, *place, length, expected = _FIXED.unpack_from(header)
    (crc,) = _CRC.unpack_from(header, _FIXED.size)
    if magic != MAGIC or crc != zlib.crc32(header[: _FIXED.size]):
        return None
    first = start + HEADER_BYTES
    if not 0 < length <= CHUNK_BYTES or first + length > num_bytes:
        return None
    block, component, level, index = place
    return Record((block, component, level, index), expected, first, first + length)


def _write_all(descriptor: int, blob: bytes, start: int) -> None:
    view = memoryview(blob)
    while view:
        written = os.pwrite(descriptor, view, start)
        view, start = view[written:], start + written
