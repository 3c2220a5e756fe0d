"""A thread with an event loop that carries out fetches and reports bytes; it plans nothing.

An error never leaves this thread: it becomes a call of the sink's `failed`. A fetch that breaks is
resumed from where it stopped, as long as bytes still come, by this fetch or another; one that falls
silent is asked for again on a fresh connection, because a plain client can hang for seconds after
a radio outage.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from sakura.errors import NotFoundError, PlayError, SakuraError, StaleError, StoreError
from sakura.play.messages import Fetch
from sakura.play.retry import Budget, Retry
from sakura.play.workers import FetchSink
from sakura.store.base import RangeReader

JOIN_S = 5.0

__all__ = ["FetchSink", "Fetcher", "Retry"]


@dataclass(slots=True, eq=False)
class _Transfer:
    """How far a fetch got; failures are counted without progress of its own, and of any fetch."""

    sink: FetchSink
    command: Fetch
    position: int
    own: Budget
    link: Budget
    num_silences: int = 0


class Fetcher:
    """Carries out fetches over one reader between `start` and `close`."""

    def __init__(self, reader: RangeReader, etag: str | None, retry: Retry | None = None) -> None:
        self._reader, self._etag, self._retry = reader, etag, retry or Retry()
        self._tasks: dict[tuple[FetchSink, int], asyncio.Task[None]] = {}
        self._transfers: set[_Transfer] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="sakura-fetch", daemon=True)

    def start(self, num_warm: int = 0) -> None:
        """Start the thread, and open `num_warm` connections ahead of the first fetch."""
        self._thread.start()
        self._ready.wait()
        if num_warm:
            self._loop.call_soon_threadsafe(self._begin_warming, num_warm)

    def fetch(self, sink: FetchSink, command: Fetch) -> None:
        """Begin a fetch; returns at once. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._begin, sink, command)

    def abandon(self, sink: FetchSink, fetch: int) -> None:
        """Drop a fetch and its connection; returns at once. Safe from any thread."""
        self._loop.call_soon_threadsafe(self._cancel, sink, fetch)

    def close(self) -> None:
        """Drop everything and end the thread. Raises PlayError if it does not end."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(JOIN_S)
        if self._thread.is_alive():
            raise PlayError("the fetch thread does not end", where=self._reader.url)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._warming: asyncio.Task[None] | None = None
        self._ready.set()
        await self._stop.wait()
        tasks = [*self._tasks.values(), *([self._warming] if self._warming else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._reader.close()
        await asyncio.sleep(0)  # lets closed transports say so before their loop is gone

    def _begin(self, sink: FetchSink, command: Fetch) -> None:
        key = sink, command.fetch
        self._tasks[key] = self._loop.create_task(self._carry_out(sink, command))
        self._tasks[key].add_done_callback(lambda _: self._tasks.pop(key, None))

    def _cancel(self, sink: FetchSink, fetch: int) -> None:
        task = self._tasks.get((sink, fetch))
        if task is not None:
            task.cancel()

    def _begin_warming(self, num_connections: int) -> None:
        self._warming = self._loop.create_task(self._warm(num_connections))

    async def _warm(self, num_connections: int) -> None:
        """Ask for nothing: what fails here will fail, and be reported, at the first fetch."""
        heads = (self._reader.head() for _ in range(num_connections))
        await asyncio.gather(*heads, return_exceptions=True)

    async def _carry_out(self, sink: FetchSink, command: Fetch) -> None:
        budget = Budget(len(self._retry.delays_s))
        transfer = _Transfer(sink, command, command.start, budget, budget)
        self._transfers.add(transfer)
        try:
            while (reason := await self._attempt(transfer)) is not None:
                if reason:
                    sink.failed(command.fetch, reason)
                    return
        finally:
            self._transfers.discard(transfer)

    async def _attempt(self, transfer: _Transfer) -> str | None:
        """Fetch the rest. None when it is complete, "" to try again, else why it has failed."""
        retry = self._retry
        try:
            await self._receive(transfer)
            return None
        except TimeoutError:
            transfer.num_silences += 1
            is_dead = transfer.num_silences > retry.num_silences
            return "no byte came for too long" if is_dead else ""
        except Exception as error:
            transfer.own, transfer.link = transfer.own.failed(), transfer.link.failed()
            if not _may_pass(error) or transfer.link.is_spent:
                return _reason(error)
            transfer.sink.stumbled(transfer.command.fetch, _reason(error))
            number = min(transfer.own.num_failures, len(retry.delays_s))
            await asyncio.sleep(retry.delays_s[number - 1])
            return ""

    async def _receive(self, transfer: _Transfer) -> None:
        """Stream from where the transfer stands; TimeoutError where no byte comes in time."""
        command, silence_s = transfer.command, self._retry.silence_s * 2**transfer.num_silences
        pieces = self._reader.stream(transfer.position, command.stop, self._etag)
        stream = cast(AsyncGenerator[bytes, None], pieces)  # RangeReader: has aclose
        async with asyncio.timeout(silence_s) as timeout, aclosing(stream):
            async for piece in stream:
                transfer.position += len(piece)
                transfer.num_silences = 0
                self._count(transfer, len(piece))
                timeout.reschedule(self._loop.time() + self._retry.silence_s)
                transfer.sink.arrived(command.fetch, piece)
        if transfer.position < command.stop:
            raise StoreError(
                f"the transfer ended at {transfer.position} of {command.stop}",
                where=self._reader.url,
            )

    def _count(self, transfer: _Transfer, num_bytes: int) -> None:
        """Bytes that came by one fetch show that the link is alive to all of them."""
        transfer.own = transfer.own.arrived(num_bytes)
        for each in self._transfers:
            each.link = each.link.arrived(num_bytes)


def _may_pass(error: Exception) -> bool:
    """Whether trying again can help."""
    return isinstance(error, StoreError) and not isinstance(error, StaleError | NotFoundError)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, SakuraError) else f"{type(error).__name__}: {error}"
