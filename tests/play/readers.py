"""Readers of one object in memory that misbehave on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from sakura.errors import StaleError, StoreError
from sakura.store.base import ObjectInfo

PIECE_BYTES = 4096

Fault = Callable[[int, bytes], bytes]
"""Given the offset of a piece and the piece: returns what arrives instead, or raises."""


def no_fault(_: int, piece: bytes) -> bytes:
    return piece


@dataclass(eq=False)
class FaultyReader:
    """A RangeReader whose streamed bytes go through `fault`; opening always works.

    Args:
        data: the object.
        fault: called for every piece of a stream, in the fetcher's thread.
        hangs_at: streams never deliver bytes from here on, and say nothing.
    """

    data: bytes
    fault: Fault = no_fault
    hangs_at: int | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    num_open: int = 0
    is_playing: bool = False

    url = "memory://faulty.skv"

    def stat(self) -> ObjectInfo:
        return ObjectInfo("faulty.skv", len(self.data), '"1"')

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        return self.data[start:stop]

    async def head(self) -> ObjectInfo:
        return self.stat()

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        return self.stat(), self.data[:num_bytes]

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        if self.is_playing:
            self.asked.append((start, stop))
        self.num_open += 1
        try:
            for offset in range(start, stop, PIECE_BYTES):
                if self.is_playing and self.hangs_at is not None and offset >= self.hangs_at:
                    await asyncio.Event().wait()
                piece = self.data[offset : min(offset + PIECE_BYTES, stop)]
                yield self.fault(offset, piece) if self.is_playing else piece
                await asyncio.sleep(0)
        finally:
            self.num_open -= 1

    async def close(self) -> None:
        return None


def dies_at(position: int) -> Fault:
    """No byte from `position` on arrives, however often it is asked for."""

    def fault(offset: int, piece: bytes) -> bytes:
        if offset + len(piece) > position:
            raise StoreError("the connection ended inside the transfer")
        return piece

    return fault


def goes_stale_at(position: int) -> Fault:
    """The object is replaced when this byte is asked for."""

    def fault(offset: int, piece: bytes) -> bytes:
        if offset + len(piece) > position:
            raise StaleError("the object changed")
        return piece

    return fault


def flips(position: int, num_times: int | None = None) -> Fault:
    """One byte is damaged on the way, at most `num_times` times."""
    seen = 0

    def fault(offset: int, piece: bytes) -> bytes:
        nonlocal seen
        if not offset <= position < offset + len(piece) or seen == num_times:
            return piece
        seen += 1
        damaged = bytearray(piece)
        damaged[position - offset] ^= 1
        return bytes(damaged)

    return fault
