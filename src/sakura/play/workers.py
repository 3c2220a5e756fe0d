"""Who acts for an exchange, as it sees them: a fetcher, a decoder, a store and a place to meet.

The player fills these places with threads, the simulator with a simulated clock.
"""

from __future__ import annotations

from typing import Any, Protocol, SupportsBytes

from sakura.models.base import BlockState
from sakura.play.messages import Fetch
from sakura.play.ranges import Chunk


class FetchSink(Protocol):
    """Who is told of bytes; called by the fetcher."""

    def arrived(self, fetch: int, data: bytes) -> None:
        """The next bytes of a fetch."""
        ...

    def stumbled(self, fetch: int, reason: str) -> None:
        """It broke off, and goes on from there."""
        ...

    def failed(self, fetch: int, reason: str) -> None:
        """No more bytes of it will come."""
        ...


class DecodeSink(Protocol):
    """Who is told of shards; called by the decoder."""

    def now(self) -> float:
        """Seconds since the edit began."""
        ...

    def decoded(self, shard: tuple[int, int], level: int, start_s: float) -> None:
        """A shard stands at a level; decoding began at `start_s`."""
        ...

    def chunk_refused(self, chunk: Chunk, reason: str) -> None:
        """The bytes of a chunk do not match their digest."""
        ...

    def shard_refused(self, shard: tuple[int, int], reason: str) -> None:
        """Nothing more of a shard can be decoded."""
        ...


class FetchWorker(Protocol):
    """Carries out fetches; every call returns at once."""

    def fetch(self, sink: FetchSink, command: Fetch) -> None:
        """Begin a fetch."""
        ...

    def abandon(self, sink: FetchSink, fetch: int) -> None:
        """Drop a fetch."""
        ...


class DecodeWorker(Protocol):
    """Checks and decodes chunks; every call returns at once."""

    def submit(self, sink: DecodeSink, chunk: Chunk, data: SupportsBytes) -> None:
        """Queue a chunk, whose bytes may be read later."""
        ...

    def drop(self) -> None:
        """Forget what is queued."""
        ...


class StateSource(Protocol):
    """Makes a block's state from what is decoded."""

    def block_state(self, step: int, block: int, out: BlockState) -> BlockState:
        """K and V of a block at a step, written to the arrays of `out`."""
        ...

    def level_of(self, step: int, block: int) -> int:
        """Lowest level among the components that a block uses at a step."""
        ...


class Keeper(Protocol):
    """Keeps chunks for later edits, for instance on flash."""

    @property
    def error(self) -> str | None:
        """Why nothing more is kept, if so."""
        ...

    def keep(self, chunk: Chunk, data: bytes) -> None:
        """Queue a chunk that arrived; returns at once."""
        ...


class Crew(Protocol):
    """All of them; a keeper only where there is one."""

    @property
    def fetcher(self) -> FetchWorker: ...

    @property
    def decoder(self) -> DecodeWorker: ...

    @property
    def store(self) -> StateSource: ...

    @property
    def shelf(self) -> Keeper | None: ...


class Meeting(Protocol):
    """What `threading.Condition` does: one at a time inside, and a way to wait for the others."""

    def __enter__(self) -> object: ...

    def __exit__(self, *_: Any) -> None: ...

    def wait(self, timeout: float | None) -> bool:
        """Let the others in until one of them notifies, or for `timeout` seconds."""
        ...

    def notify_all(self) -> None:
        """Wake whoever waits."""
        ...
