"""Reads a whole bundle and checks every digest; finds all damage, not just the first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from sakura.errors import DigestError
from sakura.format.container import Head, Read, read_exactly, read_head
from sakura.format.limits import DEFAULT, Limits
from sakura.format.manifest import Blob
from sakura.format.shard import CHUNK_BYTES, DIGEST_BYTES, Layer, verify_chunk
from sakura.format.validate import Problem


@dataclass(frozen=True, slots=True)
class Report:
    """What a bundle holds and which of its bytes are damaged."""

    head: Head
    num_chunks: int
    level_bytes: tuple[int, ...]
    problems: tuple[Problem, ...]

    @property
    def is_intact(self) -> bool:
        return not self.problems


def verify_bundle(read: Read, num_bytes: int, limits: Limits = DEFAULT) -> Report:
    """Check the head, every chunk and the template picture.

    Args:
        read: `read(offset, length)` returns exactly that range of the object.
        num_bytes: length of the whole object.
        limits: what to refuse before allocating.

    Raises:
        FormatError: the head itself is unusable; damaged data is in the report instead.
    """
    head = read_head(read, num_bytes, limits)
    shards, levels = head.manifest.shards, range(head.manifest.num_levels)
    problems = list(_blob_problems(head, read))
    for index, shard in enumerate(shards):
        for level, layer in enumerate(shard.layers):
            where = f"$.shards[{index}].layers[{level}]"
            problems += [Problem(where, message) for message in _layer_problems(head, layer, read)]
    return Report(
        head=head,
        num_chunks=sum(len(layer.chunks) for shard in shards for layer in shard.layers),
        level_bytes=tuple(sum(shard.layers[n].num_bytes for shard in shards) for n in levels),
        problems=tuple(problems),
    )


def _layer_problems(head: Head, layer: Layer, read: Read) -> Iterator[str]:
    start, _ = head.span(layer)
    for index, length in enumerate(layer.chunks):
        try:
            verify_chunk(layer, index, read_exactly(read, start, length))
        except DigestError as error:
            yield str(error)
        start += length


def _blob_problems(head: Head, read: Read) -> Iterator[Problem]:
    blob = head.manifest.template.blob
    if blob is None:
        return
    found = _blob_digest(blob, head.data_start, read)
    if found != blob.digest:
        message = f"picture has digest {found.hex()}, expected {blob.digest.hex()}"
        yield Problem("$.template.blob", message)


def _blob_digest(blob: Blob, data_start: int, read: Read) -> bytes:
    """Digest piece by piece: a blob's length is bounded by the object's only."""
    hasher, start, end = hashlib.sha256(), data_start + blob.offset, blob.offset + blob.length
    for offset in range(start, data_start + end, CHUNK_BYTES):
        length = min(CHUNK_BYTES, data_start + end - offset)
        hasher.update(read_exactly(read, offset, length))
    return hasher.digest()[:DIGEST_BYTES]
