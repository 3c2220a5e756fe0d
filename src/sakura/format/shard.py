"""Shards, their layers, and the chunks a layer is checked by. Knows no file and no codec."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from sakura.errors import DigestError
from sakura.format.fields import AboveZero, Count, NonNegative, Positive

DIGEST_BYTES = 16
CHUNK_BYTES = 64 * 1024


class Layer(Struct, frozen=True, kw_only=True, array_like=True):
    """One layer of a shard: the base or a refinement. `digests` holds 16 bytes per chunk.

    `distortion` is the predicted squared error that is left once this layer is decoded, in the
    unit of the shard's `energy`.
    """

    offset: Count
    chunks: tuple[Positive, ...]
    digests: bytes
    distortion: NonNegative

    @property
    def num_bytes(self) -> int:
        return sum(self.chunks)

    def digest_of(self, index: int) -> bytes:
        return self.digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]


class Shard(Struct, frozen=True, kw_only=True, array_like=True):
    """The state of one (block, component), K and V together.

    `delta` is the quantiser step of the base layer for each plane of coefficients; `energy` the
    squared error of decoding nothing.
    """

    block: Count
    component: Count
    delta: tuple[AboveZero, AboveZero]
    energy: NonNegative
    layers: tuple[Layer, ...]


def digest(data: bytes | memoryview) -> bytes:
    """SHA-256, its first 16 bytes."""
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def make_layer(payload: bytes, offset: int, distortion: float) -> Layer:
    """Describe the bytes of a layer that stand at `offset` of the data."""
    view = memoryview(payload)
    chunks = [view[start : start + CHUNK_BYTES] for start in range(0, len(view), CHUNK_BYTES)]
    return Layer(
        offset=offset,
        chunks=tuple(len(chunk) for chunk in chunks),
        digests=b"".join(digest(chunk) for chunk in chunks),
        distortion=distortion,
    )


def verify_chunk(layer: Layer, index: int, data: bytes | memoryview) -> None:
    """Check the bytes of one chunk before anything decodes them.

    Raises:
        DigestError: the length or the digest differs.
    """
    if len(data) != layer.chunks[index]:
        raise DigestError(
            f"chunk {index} has {len(data)} bytes, expected {layer.chunks[index]}",
            where=f"data offset {layer.offset + sum(layer.chunks[:index])}",
        )
    found, expected = digest(data), layer.digest_of(index)
    if found != expected:
        raise DigestError(
            f"chunk {index} has digest {found.hex()}, expected {expected.hex()}",
            where=f"data offset {layer.offset + sum(layer.chunks[:index])}",
            hint="the object was damaged or replaced; fetch it again",
        )
