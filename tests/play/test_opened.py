"""What is here before an edit begins is decoded, and never asked for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sakura.play.flash import FlashCache
from sakura.play.opened import Opened
from sakura.play.ranges import Chunk, FetchList, Place
from tests.play.heads import DATA_START, make_head
from tests.play.test_flash import data_of, kept

HEAD = make_head(2, 3, [9000, 70_000], 2)
NOTHING = np.full((3, 2), -1)
places = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 1), st.integers(0, 1))


def all_chunks() -> list[Chunk]:
    return everything(FetchList(HEAD, NOTHING))


def everything(fetch_list: FetchList) -> list[Chunk]:
    taken: list[Chunk] = []
    while more := fetch_list.take(1 << 30, lambda _: True):
        taken += more
    return taken


@given(st.sets(places), st.integers(0, 500_000))
def test_every_chunk_is_here_or_asked_for(held: set[Place], opened_bytes: int) -> None:
    fetch_list = FetchList(HEAD, NOTHING, opened_bytes, held)
    here = {chunk.place for chunk in fetch_list.opened}
    asked = {chunk.place for chunk in everything(fetch_list)}
    expected = {c.place for c in all_chunks() if c.place in held or c.stop <= opened_bytes}
    assert here == expected
    assert asked == {chunk.place for chunk in all_chunks()} - expected
    assert fetch_list.num_passed_bytes == sum(chunk.num_bytes for chunk in fetch_list.opened)


def test_each_source_gives_its_bytes_and_flash_comes_last(tmp_path: Path) -> None:
    prefix = bytes(range(256)) * ((DATA_START + 20_000) // 256)
    first, second, *_, last = all_chunks()
    with closing(FlashCache(tmp_path)) as cache:
        cache.put(kept(), [(last.place, data_of(last.place)), (second.place, b"flash")])
        with closing(cache.snapshot(kept())) as snapshot:
            opened = Opened(prefix, {second.place: b"leftover"}, snapshot)
            assert bytes(opened.data(first)) == prefix[first.start : first.stop]
            assert bytes(opened.data(second)) == b"leftover"
            assert bytes(opened.data(last)) == data_of(last.place)
            assert [opened.is_cached(c) for c in (first, second, last)] == [False, False, True]
            assert opened.places == {second.place, last.place}
