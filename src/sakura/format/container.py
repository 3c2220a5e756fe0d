"""The container: header, manifest, padding, data. Reads a head from any source of byte ranges.

    magic "SAKV" | u16 major | u16 minor | u64 manifest length | 16-byte head digest
    manifest (JSON, plain or as zlib stream) | zeros up to a multiple of 64 | data

The head digest covers the first 16 bytes and the manifest as it stands there. Integers are
little-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from sakura.errors import DigestError, FormatError
from sakura.format.limits import DEFAULT, Limits
from sakura.format.manifest import Manifest
from sakura.format.shard import Layer, digest
from sakura.format.validate import Setting, check_manifest
from sakura.format.version import MAGIC, Version, check_version

HEADER_BYTES = 32
ALIGNMENT = 64
MAX_EXPANSION = 64
"""A packed manifest may grow by this factor: more is no manifest, and memory must be earned."""
_FIXED = struct.Struct("<4sHHQ")

Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class HeadNeeds:
    """More of the object is needed: call again with its first `num_bytes` bytes."""

    num_bytes: int


@dataclass(frozen=True, slots=True)
class Head:
    """A parsed and validated head."""

    version: Version
    manifest: Manifest
    data_start: int
    num_bytes: int

    def span(self, layer: Layer) -> tuple[int, int]:
        """First byte of a layer in the object, and the byte after its last."""
        start = self.data_start + layer.offset
        return start, start + layer.num_bytes


def data_start(num_manifest_bytes: int) -> int:
    """Where the data begins: after header and manifest, rounded up to 64."""
    return -(-(HEADER_BYTES + num_manifest_bytes) // ALIGNMENT) * ALIGNMENT


def encode_head(manifest: Manifest) -> bytes:
    """Header, canonical manifest (packed) and padding."""
    raw = zlib.compress(encode_manifest(manifest), 9)
    fixed = _FIXED.pack(MAGIC, *manifest.format, len(raw))
    return (fixed + digest(fixed + raw) + raw).ljust(data_start(len(raw)), b"\0")


def parse_head(prefix: bytes, num_bytes: int, limits: Limits = DEFAULT) -> Head | HeadNeeds:
    """Parse the head from the first bytes of an object, or say how many are needed.

    Args:
        prefix: the first bytes of the object, as many as are there.
        num_bytes: length of the whole object.
        limits: what to refuse before allocating.

    Raises:
        FormatError: the object is not a bundle, is damaged, cut short, or breaks a rule.
    """
    if num_bytes < HEADER_BYTES:
        raise FormatError(f"object has {num_bytes} bytes, expected at least {HEADER_BYTES}")
    if len(prefix) < HEADER_BYTES:
        return HeadNeeds(HEADER_BYTES)
    version, length = _parse_fixed(prefix)
    start = data_start(length)
    if length > limits.max_manifest_bytes or start > num_bytes:
        most = min(limits.max_manifest_bytes, num_bytes - HEADER_BYTES)
        raise FormatError(f"manifest of {length} bytes, expected at most {most}", where="byte 8")
    if len(prefix) < start:
        return HeadNeeds(start)
    raw = _checked_manifest(prefix[:start], length)
    manifest = decode_manifest(_unpacked(raw, limits))
    check_manifest(manifest, Setting(version, num_bytes - start, limits))
    return Head(version, manifest, start, num_bytes)


def read_head(read: Read, num_bytes: int, limits: Limits = DEFAULT) -> Head:
    """Read a head with two ranged reads.

    Args:
        read: `read(offset, length)` returns exactly that range of the object.
        num_bytes: length of the whole object.
        limits: what to refuse before allocating.

    Raises:
        FormatError: see `parse_head`; or `read` returned too little.
    """
    prefix = b""
    while True:
        head = parse_head(prefix, num_bytes, limits)
        if isinstance(head, Head):
            return head
        prefix += read_exactly(read, len(prefix), head.num_bytes - len(prefix))


def read_manifest(read: Read, num_bytes: int, limits: Limits = DEFAULT) -> Manifest:
    """The manifest alone; see `read_head`."""
    return read_head(read, num_bytes, limits).manifest


def read_exactly(read: Read, offset: int, length: int) -> bytes:
    """One range, or FormatError if the source returned another number of bytes."""
    data = read(offset, length)
    if len(data) != length:
        raise FormatError(f"read {len(data)} bytes, expected {length}", where=f"byte {offset}")
    return data


def encode_manifest(manifest: Manifest) -> bytes:
    """Canonical JSON: keys sorted, no white space, shortest numbers, UTF-8."""
    return msgspec.json.encode(manifest, order="sorted", enc_hook=_plain_number)


def decode_manifest(raw: bytes) -> Manifest:
    """Decode the manifest's JSON; types and single values are checked, not how they fit together.

    Raises:
        FormatError: not JSON of this shape, or keys unsorted or repeated.
    """
    try:
        json.loads(raw.decode(), object_pairs_hook=_check_keys)
        return msgspec.json.decode(raw, type=Manifest)
    except RecursionError:
        raise FormatError("manifest is nested too deeply", where="$") from None
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        raise FormatError(message, where=path.strip("`") or "$") from error
    except ValueError as error:
        raise FormatError(f"manifest is not JSON: {error}", where="$") from error


def _parse_fixed(prefix: bytes) -> tuple[Version, int]:
    magic, major, minor, length = _FIXED.unpack_from(prefix)
    if magic != MAGIC:
        raise FormatError(
            f"object starts with {magic!r}, expected {MAGIC!r}",
            where="byte 0",
            hint="this is no SAKURA bundle; check the name or URL",
        )
    version = Version(major, minor)
    check_version(version)
    return version, length


def _checked_manifest(head: bytes, length: int) -> bytes:
    fixed, expected = head[: _FIXED.size], head[_FIXED.size : HEADER_BYTES]
    raw, padding = head[HEADER_BYTES : HEADER_BYTES + length], head[HEADER_BYTES + length :]
    found = digest(fixed + raw)
    if found != expected:
        raise DigestError(
            f"head has digest {found.hex()}, expected {expected.hex()}",
            where=f"byte {_FIXED.size}",
            hint="the object was damaged or replaced; fetch it again",
        )
    if padding.strip(b"\0"):
        raise FormatError("padding is not zero", where=f"byte {HEADER_BYTES + length}")
    return raw


def _unpacked(raw: bytes, limits: Limits) -> bytes:
    """The manifest's JSON."""
    if raw.startswith(b"{"):
        return raw
    most = min(limits.max_manifest_bytes, MAX_EXPANSION * len(raw))
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(raw, most)
    except zlib.error as error:
        raise FormatError(
            f"manifest is neither JSON nor a zlib stream: {error}", where="$"
        ) from error
    if not inflate.eof or inflate.unused_data:
        raise FormatError(f"manifest is no zlib stream of at most {most} bytes", where="$")
    return text


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a manifest")


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    for (before, _), (after, _) in pairwise(pairs):
        if before == after:
            raise ValueError(f"key {after!r} is repeated")
        if before > after:
            raise ValueError(f"key {after!r} stands after {before!r}, expected sorted keys")
