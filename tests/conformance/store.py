"""What every RangeReader does. A reader is done when its subclass of ReaderConformance passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import pytest

from sakura.errors import NotFoundError, StaleError, StoreError
from sakura.store.base import RangeReader

T = TypeVar("T")

DATA = bytes((i * i + i // 251) % 256 for i in range(200_000))
OTHER = DATA[::-1]
RANGES = [(0, 1), (0, len(DATA)), (1, 2), (65_535, 65_537), (100_000, 170_000), (199_999, 200_000)]
NO_RANGES = [(0, 0), (5, 5), (6, 5), (-1, 5)]
OUTSIDE = [(0, 200_001), (199_999, 200_001), (200_000, 200_001), (10**12, 10**12 + 1)]


class Place(Protocol):
    """Where a test puts objects, and how it reads them."""

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object."""

    def reader(self, name: str) -> RangeReader:
        """A new reader of it; the object need not exist."""


def run(action: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end, with a limit that only a hang reaches."""
    return asyncio.run(asyncio.wait_for(action, 60))


@asynccontextmanager
async def opened(reader: RangeReader) -> AsyncIterator[RangeReader]:
    try:
        yield reader
    finally:
        await reader.close()


async def collect(reader: RangeReader, start: int, stop: int, etag: str | None = None) -> bytes:
    return b"".join([piece async for piece in reader.stream(start, stop, etag)])


class ReaderConformance:
    """Subclass it, and provide the fixture `place`."""

    @pytest.fixture
    def place(self) -> Place:
        raise NotImplementedError

    def test_head_names_the_object(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                info = await reader.head()
                assert (info.name, info.num_bytes) == ("a.skv", len(DATA))
                assert info.etag
                assert await reader.head() == info

        place.put("a.skv", DATA)
        run(check())

    @pytest.mark.parametrize(("start", "stop"), RANGES)
    def test_range_is_exact(self, place: Place, start: int, stop: int) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                etag = (await reader.head()).etag
                assert await collect(reader, start, stop, etag) == DATA[start:stop]
                pieces = [piece async for piece in reader.stream(start, stop)]
                assert all(isinstance(piece, bytes) and piece for piece in pieces)

        place.put("a.skv", DATA)
        run(check())

    @pytest.mark.parametrize(("start", "stop"), NO_RANGES + OUTSIDE)
    def test_impossible_range_is_refused(self, place: Place, start: int, stop: int) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                with pytest.raises(StoreError):
                    await collect(reader, start, stop)

        place.put("a.skv", DATA)
        run(check())
        with pytest.raises(StoreError):
            place.reader("a.skv").read(start, stop)

    def test_missing_object(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("none.skv")) as reader:
                for action in (reader.head(), collect(reader, 0, 1), reader.read_prefix(8)):
                    with pytest.raises(NotFoundError):
                        await action

        run(check())
        with pytest.raises(NotFoundError):
            place.reader("none.skv").stat()

    def test_replaced_object_is_stale(self, place: Place) -> None:
        """Same size, other bytes: only the ETag can tell."""

        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                old = (await reader.head()).etag
                place.put("a.skv", OTHER)
                assert (await reader.head()).etag != old
                with pytest.raises(StaleError):
                    await collect(reader, 0, 100, old)
                assert await collect(reader, 0, 100) == OTHER[:100]

        place.put("a.skv", DATA)
        run(check())

    @pytest.mark.parametrize("num_bytes", [1, 1000, len(DATA), len(DATA) + 1, 10**9])
    def test_prefix_opens_in_one_call(self, place: Place, num_bytes: int) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                info, data = await reader.read_prefix(num_bytes)
                assert info == await reader.head()
                assert data == DATA[:num_bytes]

        place.put("a.skv", DATA)
        run(check())

    def test_prefix_of_an_empty_object(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("empty.skv")) as reader:
                info, data = await reader.read_prefix(64)
                assert (info.num_bytes, data) == (0, b"")

        place.put("empty.skv", b"")
        run(check())

    def test_name_needs_no_care(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("beach at dusk+50%.skv")) as reader:
                assert (await reader.head()).name == "beach at dusk+50%.skv"
                assert await collect(reader, 10, 20) == DATA[10:20]

        place.put("beach at dusk+50%.skv", DATA)
        run(check())

    def test_closed_iterator_abandons_and_the_reader_lives_on(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                for _ in range(20):
                    transfer = reader.stream(0, len(DATA))
                    first = await anext(transfer)
                    assert DATA.startswith(first)
                    await transfer.aclose()  # type: ignore[attr-defined]
                assert await collect(reader, 0, len(DATA)) == DATA

        place.put("a.skv", DATA)
        run(check())

    def test_cancelled_task_abandons_and_the_reader_lives_on(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                task = asyncio.create_task(collect(reader, 0, len(DATA)))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await collect(reader, 7, 9) == DATA[7:9]

        place.put("a.skv", DATA)
        run(check())

    def test_transfers_in_parallel(self, place: Place) -> None:
        async def check() -> None:
            async with opened(place.reader("a.skv")) as reader:
                spans = [(i * 20_000, i * 20_000 + 19_000) for i in range(10)]
                parts = await asyncio.gather(*(collect(reader, *span) for span in spans))
                assert parts == [DATA[start:stop] for start, stop in spans]

        place.put("a.skv", DATA)
        run(check())

    def test_blocking_calls_agree(self, place: Place) -> None:
        place.put("a.skv", DATA)
        reader = place.reader("a.skv")
        info = reader.stat()
        assert (info.name, info.num_bytes) == ("a.skv", len(DATA))
        assert reader.read(3, 70_000, info.etag) == DATA[3:70_000]
        with pytest.raises(StaleError):
            reader.read(3, 4, '"another"')
