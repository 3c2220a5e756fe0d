"""Where the threads of one edit meet: under one lock, events go into the session, its commands go
out, and everything that happened is logged. It decides nothing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sakura.events import EventLog
from sakura.models.base import BlockState
from sakura.play.deadlines import Mode
from sakura.play.messages import (
    OPENED,
    Abandon,
    BlockFinished,
    ChunkRefused,
    Command,
    Decode,
    Event,
    Fetch,
    FetchFailed,
    FetchProgress,
    ShardDecoded,
    ShardRefused,
    StepStarted,
)
from sakura.play.opened import Opened
from sakura.play.plan import Decision
from sakura.play.ranges import Chunk, Place
from sakura.play.session import Session
from sakura.play.workers import Crew, Meeting

Key = tuple[int, int]
"""(block, component)"""

LONGEST_NAP_S = 1.0
RATE_CHANGE = 1.05


@dataclass(slots=True)
class _Buffer:
    fetch: Fetch
    data: bytearray


class Exchange:
    """The guide of an executor, and the sink of fetcher and decoder.

    Args:
        session: what decides.
        workers: what acts.
        log: of the edit.
        opened: what is here already.
        meeting: where the threads meet; a simulator brings its own.

    Attributes:
        leftover: chunks that came, by any edit, and are not decoded.
    """

    def __init__(
        self,
        session: Session,
        workers: Crew,
        log: EventLog,
        opened: Opened | None = None,
        meeting: Meeting | None = None,
    ) -> None:
        self._session, self._workers, self._log = session, workers, log
        self._opened = opened or Opened()
        self.leftover: dict[Place, bytes] = dict(self._opened.leftover)
        self._from_cache: set[Place] = set()
        self._changed: Meeting = meeting or threading.Condition()
        self._buffers: dict[int, _Buffer] = {}
        self._is_over = False
        self._logged_bps = 0.0
        self._spent = 0.0
        self._given_cost, self._given_level = 0.0, -1  # of the state handed out last

    def start(self) -> None:
        """Ask for the first bytes."""
        with self._changed:
            commands = self._session.start(self.now())
            opened = [c.chunk for c in commands if isinstance(c, Decode)]
            cached = [chunk for chunk in opened if self._opened.is_cached(chunk)]
            self._from_cache = {chunk.place for chunk in cached}
            if cached:
                num_bytes = sum(chunk.num_bytes for chunk in cached)
                self._log.add("cached", num_chunks=len(cached), num_bytes=num_bytes)
            self._carry_out(commands)

    def finish(self) -> None:
        """The edit is over: drop what is in flight; what comes later is ignored."""
        with self._changed:
            self._carry_out(self._session.stop("the edit is over", self.now()))
            self._is_over = True
            shelf = self._workers.shelf
            if shelf is not None and shelf.error is not None:
                self._log.add("fault", source="cache", reason=shelf.error, is_final=False)
        self._workers.decoder.drop()

    def now(self) -> float:
        """Seconds since the edit began."""
        return self._log.now()

    # Called in the fetcher's thread.

    def arrived(self, fetch: int, data: bytes) -> None:
        """See `FetchSink.arrived`."""
        with self._changed:
            if self._is_over or fetch not in self._buffers:
                return
            buffer = self._buffers[fetch]
            buffer.data += data
            self._log.add("fetch_bytes", fetch=fetch, num_bytes=len(data))
            commands = self._session.handle(FetchProgress(fetch, len(data)), self.now())
            if len(buffer.data) >= buffer.fetch.stop - buffer.fetch.start:
                self._end_fetch(fetch, None)
            self._carry_out(commands, buffer)
            self._log_rate()

    def stumbled(self, fetch: int, reason: str) -> None:
        """See `FetchSink.stumbled`."""
        with self._changed:
            if not self._is_over and fetch in self._buffers:
                self._log.add("fault", source="fetch", reason=reason, is_final=False)

    def failed(self, fetch: int, reason: str) -> None:
        """See `FetchSink.failed`."""
        with self._changed:
            if self._is_over or fetch not in self._buffers:
                return
            self._end_fetch(fetch, reason)
            fault = {"source": "fetch", "reason": reason}
            self._take(FetchFailed(fetch, reason), fault)

    # Called in the decoder's thread.

    def decoded(self, shard: Key, level: int, start_s: float) -> None:
        """See `DecodeSink.decoded`."""
        with self._changed:
            if self._is_over:
                return
            block, component = shard
            for place in [p for p in self.leftover if p[:2] == shard and p[2] <= level]:
                del self.leftover[place]
            event = self._log.add(
                "decode", block=block, component=component, level=level, start_s=start_s
            )
            self._take(ShardDecoded(*shard, level, event.t_s - start_s))

    def chunk_refused(self, chunk: Chunk, reason: str) -> None:
        """See `DecodeSink.chunk_refused`."""
        with self._changed:
            if not self._is_over:
                self.leftover.pop(chunk.place, None)
                fault = decode_fault(reason, chunk.place)
                if chunk.place in self._from_cache:
                    self._from_cache.discard(chunk.place)
                    fault["source"] = "cache"
                self._take(ChunkRefused(chunk, reason), fault)

    def shard_refused(self, shard: Key, reason: str) -> None:
        """See `DecodeSink.shard_refused`."""
        with self._changed:
            if not self._is_over:
                place = (*shard, -1, -1)
                self._take(ShardRefused(*shard, reason), decode_fault(reason, place))

    # Called in the executor's thread.

    def begin_step(self, step: int) -> None:
        """See `Guide.begin_step`."""
        with self._changed:
            self._take(StepStarted(step))
            self._spent = self._session.spent
            self._log.add("buffer", buffer_s=self._session.buffer_s())

    def choose(self, step: int, block: int) -> Mode:
        """See `Guide.choose`; the only place where an edit can wait."""
        with self._changed:
            decision = self._session.decide(self.now())
            self._log_decision(step, block, decision)
            if decision.action == "wait":
                decision = self._wait(step, block, decision)
                self._log_decision(step, block, decision)
        return "inject" if decision.action == "inject" else "compute"

    def state(self, step: int, block: int, slot: BlockState) -> BlockState:
        """See `Guide.state`."""
        # Before the state is read: what is decoded from here on does not count for this block.
        with self._changed:
            self._given_cost = self._session.block_cost(step, block)
        self._given_level = self._workers.store.level_of(step, block)
        return self._workers.store.block_state(step, block, slot)

    def end_block(self, step: int, block: int, mode: Mode, start_s: float) -> None:
        """See `Guide.end_block`."""
        is_injected = mode == "inject"
        level = self._given_level if is_injected else -1
        cost = self._given_cost if is_injected else None
        with self._changed:
            event = self._log.add(
                "block", step=step, block=block, mode=mode, level=level, start_s=start_s
            )
            self._take(BlockFinished(step, block, mode, event.t_s - start_s, cost))

    def end_step(self, step: int, start_s: float) -> None:
        """See `Guide.end_step`."""
        with self._changed:
            self._log.add("step", step=step, start_s=start_s, mse=self._session.spent - self._spent)

    # Called with the lock held.

    def _take(self, event: Event, fault: dict[str, Any] | None = None) -> None:
        commands = self._session.handle(event, self.now())
        if fault is not None:
            is_final = self._session.stop_reason is not None
            self._log.add("fault", **fault, is_final=is_final)
        self._carry_out(commands)
        self._changed.notify_all()

    def _wait(self, step: int, block: int, decision: Decision) -> Decision:
        """Wait until the session decides otherwise."""
        start_s = self.now()
        end_s = start_s + decision.timeout_s
        while decision.action == "wait":
            left_s = end_s - self.now()
            self._changed.wait(max(0.0, min(left_s, LONGEST_NAP_S)))
            left_s = end_s - self.now() if math.isfinite(end_s) else math.inf
            decision = self._session.decide(self.now(), wait_left_s=left_s)
        self._log.add("stall", step=step, block=block, start_s=start_s)
        return decision

    def _carry_out(self, commands: Sequence[Command], buffer: _Buffer | None = None) -> None:
        for command in commands:
            match command:
                case Fetch(fetch, start, stop, _):
                    self._buffers[fetch] = _Buffer(command, bytearray())
                    self._log.add("fetch_start", fetch=fetch, start=start, stop=stop)
                    self._workers.fetcher.fetch(self, command)
                case Abandon(fetch, reason):
                    self._end_fetch(fetch, reason)
                    self._workers.fetcher.abandon(self, fetch)
                case Decode(fetch, chunk) if fetch == OPENED:
                    self._workers.decoder.submit(self, chunk, self._opened.data(chunk))
                    if not self._opened.is_cached(chunk):
                        self._keep(chunk, bytes(self._opened.data(chunk)))
                case Decode(_, chunk):
                    assert buffer is not None
                    first = chunk.start - buffer.fetch.start
                    data = bytes(memoryview(buffer.data)[first : first + chunk.num_bytes])
                    self._workers.decoder.submit(self, chunk, data)
                    self._keep(chunk, data)

    def _keep(self, chunk: Chunk, data: bytes) -> None:
        """For later edits: until it is decoded, and on flash."""
        self.leftover[chunk.place] = data
        if self._workers.shelf is not None:
            self._workers.shelf.keep(chunk, data)

    def _end_fetch(self, fetch: int, reason: str | None) -> None:
        num_bytes = len(self._buffers.pop(fetch).data)
        is_ok = reason is None
        self._log.add("fetch_end", fetch=fetch, num_bytes=num_bytes, ok=is_ok, reason=reason or "")

    def _log_decision(self, step: int, block: int, decision: Decision) -> None:
        action, reason = decision.action, decision.reason
        self._log.add("decision", step=step, block=block, action=action, reason=reason)

    def _log_rate(self) -> None:
        bps = self._session.throughput.estimate_bps(self.now())
        if bps and not self._logged_bps / RATE_CHANGE <= bps <= self._logged_bps * RATE_CHANGE:
            self._logged_bps = bps
            self._log.add("throughput", bps=bps)


def decode_fault(reason: str, place: tuple[int, int, int, int]) -> dict[str, Any]:
    """Fields of a `fault` event; `place` is the block, component, level and index refused."""
    names = ("block", "component", "level", "index")
    return {"source": "decode", "reason": reason, **dict(zip(names, place, strict=True))}
