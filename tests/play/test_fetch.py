"""The fetch thread against readers that break, fall silent or change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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
    over: threading.Event = field(default_factory=threading.Event)

    def arrived(self, fetch: int, data: bytes) -> None:
        assert fetch == WHOLE.fetch
        self.data += data
        if len(self.data) >= self.num_bytes:
            self.over.set()

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


def test_a_transfer_that_breaks_twice_has_failed() -> None:
    reader = FaultyReader(DATA, dies_at(20_000))
    sink = outcome(reader)
    assert sink.reason == "the connection ended inside the transfer"
    assert bytes(sink.data) == DATA[1000 : 1000 + 4 * 4096]
    assert len(reader.asked) == 2


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
