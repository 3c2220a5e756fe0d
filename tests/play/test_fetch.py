"""The fetch thread against readers that break, fall silent or change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

import pytest

from sakura.errors import StoreError
from sakura.play.fetch import Fetcher, Retry
from sakura.play.messages import Fetch
from tests.play.readers import FaultyReader, dies_at, flips, goes_stale_at, no_fault

DATA = bytes(range(256)) * 256
WHOLE = Fetch(7, 1000, 50_000, ())
NOW = Retry(delays_s=(0.0,), silence_s=0.01, num_silences=2)


@dataclass(eq=False)
class Sink:
    """Collects what it is told, and says when the fetch is over."""

    num_bytes: int
    data: bytearray = field(default_factory=bytearray)
    reason: str | None = None
    stumbles: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def arrived(self, fetch: int, data: bytes) -> None:
        self.data += data
        if len(self.data) >= self.num_bytes:
            self.over.set()

    def stumbled(self, fetch: int, reason: str) -> None:
        self.stumbles.append(reason)

    def failed(self, fetch: int, reason: str) -> None:
        self.reason = reason
        self.over.set()


@contextmanager
def fetching(reader: FaultyReader, retry: Retry = NOW) -> Iterator[Fetcher]:
    reader.is_playing = True
    fetcher = Fetcher(reader, '"1"', retry)
    fetcher.start(num_warm=2)
    try:
        yield fetcher
    finally:
        fetcher.close()
    assert reader.num_open == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "sakura-fetch"]


def outcome(reader: FaultyReader) -> Sink:
    sink = Sink(WHOLE.stop - WHOLE.start)
    with fetching(reader) as fetcher:
        fetcher.fetch(sink, WHOLE)
        assert sink.over.wait(60)
    return sink


def test_all_bytes_arrive_in_order() -> None:
    sink = outcome(FaultyReader(DATA))
    assert (bytes(sink.data), sink.reason) == (DATA[1000:50_000], None)


def test_a_broken_transfer_is_resumed_where_it_stopped() -> None:
    broken = iter([no_fault, dies_at(0), *[no_fault] * 100])
    reader = FaultyReader(DATA, lambda offset, piece: next(broken)(offset, piece))
    sink = outcome(reader)
    assert (bytes(sink.data), sink.reason) == (DATA[1000:50_000], None)
    assert reader.asked == [(1000, 50_000), (1000 + 4096, 50_000)]


def test_a_transfer_that_breaks_twice_without_a_byte_has_failed() -> None:
    reader = FaultyReader(DATA, dies_at(20_000))
    sink = outcome(reader)
    assert sink.reason == "the connection ended inside the transfer"
    assert bytes(sink.data) == DATA[1000 : 1000 + 4 * 4096]
    assert len(reader.asked) == 2
    assert sink.stumbles == [sink.reason]


def test_a_transfer_may_break_as_often_as_it_gets_on() -> None:
    """Every other piece breaks the connection, and each byte is delivered once."""
    broken = cycle([no_fault, dies_at(0)])
    reader = FaultyReader(DATA, lambda offset, piece: next(broken)(offset, piece))
    sink = outcome(reader)
    assert (bytes(sink.data), sink.reason) == (DATA[1000:50_000], None)
    assert len(sink.stumbles) == 11  # pieces of 4096 bytes, but for the last one
    starts = [start for start, _ in reader.asked]
    assert starts == list(range(1000, 50_000, 4096))


def test_a_peer_that_drips_is_given_up() -> None:
    """A byte between two failures is no progress."""
    broken = cycle([lambda offset, piece: piece[:1], dies_at(0)])
    reader = FaultyReader(DATA, lambda offset, piece: next(broken)(offset, piece))
    sink = outcome(reader)
    assert sink.reason == "the connection ended inside the transfer"
    assert len(sink.data) < 10


def test_bytes_of_another_fetch_keep_a_broken_one_alive() -> None:
    """One range cannot be had until the other has come: neither is given up."""
    first, second = Fetch(1, 0, 40_960, ()), Fetch(2, 40_960, 45_056, ())
    num_refused = 0

    class Reader(FaultyReader):
        async def stream(
            self, start: int, stop: int, etag: str | None = None
        ) -> AsyncIterator[bytes]:
            nonlocal num_refused
            if start >= second.start and not slow.over.is_set():
                num_refused += 1
                refused.set()
                raise StoreError("busy")
            async for piece in super().stream(start, stop, etag):
                yield piece
                if start < second.start and not slow.over.is_set():
                    refused.clear()
                    while not refused.is_set():
                        await asyncio.sleep(0)

    refused = threading.Event()
    slow, fast = Sink(40_960), Sink(4096)
    with fetching(Reader(DATA), Retry(delays_s=(0.0,) * 4, silence_s=30)) as fetcher:
        fetcher.fetch(slow, first)
        fetcher.fetch(fast, second)
        assert fast.over.wait(60)
    assert (slow.reason, fast.reason) == (None, None)
    assert num_refused >= 9  # once a piece of the other, and more often than is survived in a row
    assert bytes(slow.data + fast.data) == DATA[:45_056]


def test_another_object_is_not_asked_for_again() -> None:
    reader = FaultyReader(DATA, goes_stale_at(20_000))
    assert outcome(reader).reason == "the object changed"
    assert len(reader.asked) == 1


def test_a_silent_connection_is_replaced_and_at_last_given_up() -> None:
    reader = FaultyReader(DATA, hangs_at=30_000)
    sink = outcome(reader)
    assert sink.reason == "no byte came for too long"
    assert [start for start, _ in reader.asked] == [1000, 33_768, 33_768]
    assert bytes(sink.data) == DATA[1000:33_768]


def test_errors_nobody_expects_are_reported_too() -> None:
    def fault(offset: int, piece: bytes) -> bytes:
        raise ZeroDivisionError("seven")

    assert outcome(FaultyReader(DATA, fault)).reason == "ZeroDivisionError: seven"


def test_an_abandoned_fetch_drops_its_connection() -> None:
    reader = FaultyReader(DATA, hangs_at=10_000)
    sink = Sink(4096)
    with fetching(reader, Retry()) as fetcher:
        fetcher.fetch(sink, WHOLE)
        assert sink.over.wait(60)
        fetcher.abandon(sink, WHOLE.fetch)
        fetcher.abandon(sink, 99)
        again = Sink(1000)
        fetcher.fetch(again, Fetch(WHOLE.fetch, 0, 1000, ()))
        assert again.over.wait(60)
        assert (sink.reason, bytes(again.data)) == (None, DATA[:1000])


def test_closing_ends_what_is_in_flight() -> None:
    reader = FaultyReader(DATA, hangs_at=10_000)
    sink = Sink(4096)
    with fetching(reader, Retry()) as fetcher:
        fetcher.fetch(sink, WHOLE)
        assert sink.over.wait(60)
    assert sink.reason is None


def test_faults_do_what_they_say() -> None:
    assert flips(5, 1)(4, b"abc") == b"acc"
    with pytest.raises(StoreError):
        dies_at(3)(0, b"abcd")
