"""What a player asks of any store: what the object is, and its bytes from here to there.

Knows nothing about bundles, and has no retry policy: whoever reads decides when to give up or ask
again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from sakura.errors import StaleError, StoreError
from sakura.units import KIB

PIECE_BYTES = 64 * KIB


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object as the store described it.

    Attributes:
        name: the last path segment, for messages.
        num_bytes: size of the whole object.
        etag: opaque strong validator, as the store wrote it, or None where the store has none.
    """

    name: str
    num_bytes: int
    etag: str | None


class RangeReader(Protocol):
    """Reads byte ranges of one object. A conformance class in `tests/conformance/store.py` fixes
    the details.

    The async methods belong to one event loop. The blocking ones use connections of their own and
    may be called wherever no event loop runs.
    """

    @property
    def url(self) -> str:
        """Where the object is, for messages."""

    async def head(self) -> ObjectInfo:
        """Name, size and ETag. Raises NotFoundError or StoreError."""

    def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        """Yield bytes [start, stop) in pieces as they arrive, never more, never less.

        Closing the iterator (`aclose`) or cancelling its task abandons the transfer and drops its
        connection.

        Raises:
            NotFoundError: no such object.
            StaleError: `etag` is given and the object has another one.
            StoreError: a range outside the object, a short read, a refused or broken connection.
        """

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        """Open in one round trip: info, and the first `num_bytes` bytes, or all there are."""

    async def close(self) -> None:
        """Drop every connection. The reader is not used afterwards."""

    def stat(self) -> ObjectInfo:
        """Blocking `head`."""

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        """Blocking `stream`, joined."""


def check_range(start: int, stop: int, where: str) -> None:
    """Refuse a range that no object can have."""
    if not 0 <= start < stop:
        raise StoreError(f"bytes [{start}, {stop}) are not a range", where=where)


def check_inside(stop: int, info: ObjectInfo, where: str) -> None:
    """Refuse a range that ends behind the object."""
    if stop > info.num_bytes:
        raise StoreError(
            f"range ends at {stop}, the object has {info.num_bytes} bytes", where=where
        )


def check_etag(expected: str | None, found: str | None, where: str) -> None:
    """Raise StaleError where the object is not the one that was opened; None expects nothing."""
    if expected is not None and found != expected:
        raise StaleError(
            f"the object changed: ETag is {found}, was {expected}",
            where=where,
            hint="open the template again",
        )


def short_read(num_bytes: int, start: int, stop: int, where: str) -> StoreError:
    """The error for a transfer that ended before its range did."""
    return StoreError(f"transfer ended after {num_bytes} of {stop - start} bytes", where=where)
