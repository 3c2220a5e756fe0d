"""The one event log of a run: what happened when. Timeline, report and tests are made from it
alone.

Kinds and their fields (times in seconds since the run began, unless named otherwise):

    run_start      policy, floor_db, task, num_steps, num_blocks, mask_ratio
    fetch_start    fetch, start, stop            a byte range of the bundle was asked for
    fetch_bytes    fetch, num_bytes              some of it arrived
    fetch_end      fetch, num_bytes, ok, reason  it is complete, abandoned or failed
    cached         num_chunks, num_bytes         lay in the flash cache when the run began
    throughput     bps                           the estimate changed
    decode         block, component, level, start_s    a layer was decoded (t_s is its end)
    fault          source, reason, is_final   bytes failed or were refused; final: fetching ends;
                   with source "decode" also block, component, level, index (-1: the whole shard);
                   source "cache": the flash cache failed, or gave a damaged chunk (the same fields)
    decision       step, block, action, reason   inject | compute | wait | hold
    stall          step, block, start_s          the executor waited (t_s is the end of the wait)
    block          step, block, mode, level, start_s   executed; mode is compute | inject
    step           step, start_s, mse         executed; predicted error of what was injected
    buffer         buffer_s                      execution covered by decoded shards
    run_end        latency_s
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sakura.errors import FormatError


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened at `t_s` seconds after the run began."""

    t_s: float
    kind: str
    data: dict[str, Any]


class EventLog:
    """Append-only and safe to use from several threads.

    Args:
        clock: monotonic seconds; tests pass their own.
        listener: called with every event, in the thread that adds it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self._clock, self._listener = clock, listener
        self._start_s = clock()
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def now(self) -> float:
        """Seconds since the run began."""
        return self._clock() - self._start_s

    def add(self, kind: str, **data: Any) -> Event:
        """Record an event at the present time."""
        with self._lock:
            event = Event(self.now(), kind, data)
            self._events.append(event)
        if self._listener is not None:
            self._listener(event)
        return event

    def __iter__(self) -> Iterator[Event]:
        with self._lock:
            return iter(list(self._events))

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self if event.kind in kinds]

    def jsonl(self) -> Iterator[str]:
        """One JSON object a line: `t_s`, `kind` and the event's fields."""
        for event in self:
            row = {"t_s": round(event.t_s, 6), "kind": event.kind, **event.data}
            yield json.dumps(row) + "\n"

    def write_jsonl(self, path: Path) -> None:
        """Write the lines of `jsonl` into a file."""
        with path.open("w", encoding="utf-8") as file:
            file.writelines(self.jsonl())


def read_jsonl(lines: Iterable[str]) -> list[Event]:
    """Parse what `write_jsonl` wrote.

    Raises:
        FormatError: a line that is no event.
    """
    events = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            events.append(Event(float(row.pop("t_s")), str(row.pop("kind")), row))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FormatError("not an event", where=f"line {number}") from error
    return events
