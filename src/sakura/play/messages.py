"""What goes into a session and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from sakura.play.deadlines import Mode
from sakura.play.ranges import Chunk


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """More bytes of a fetch came."""

    fetch: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """A fetch ended before its range did, and will not be tried again."""

    fetch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkRefused:
    """The bytes of a chunk do not match their digest."""

    chunk: Chunk
    reason: str


@dataclass(frozen=True, slots=True)
class ShardRefused:
    """The codec refuses verified bytes of a shard: nothing more of it can be decoded."""

    block: int
    component: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShardDecoded:
    """A shard stands at a level; it took `duration_s` of the decoder's time."""

    block: int
    component: int
    level: int
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The play head is at the first block of a step; also when a step is done again."""

    step: int


@dataclass(frozen=True, slots=True)
class BlockFinished:
    """A block was executed; `cost` is the predicted error of the state it was given, None where
    that is what the session knows now.
    """

    step: int
    block: int
    mode: Mode
    duration_s: float
    cost: float | None = None


Event = (
    FetchProgress
    | FetchFailed
    | ChunkRefused
    | ShardRefused
    | ShardDecoded
    | StepStarted
    | BlockFinished
)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask for bytes [start, stop) of the object: these chunks, one after the other."""

    fetch: int
    start: int
    stop: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Abandon:
    """Drop a fetch; what came of it counts."""

    fetch: int
    reason: str


OPENED = -1
"""Stands for a fetch where bytes came with the bundle's head."""


@dataclass(frozen=True, slots=True)
class Decode:
    """A chunk of a fetch, or of the opened bytes, is complete: check and decode it."""

    fetch: int
    chunk: Chunk


Command = Fetch | Abandon | Decode
