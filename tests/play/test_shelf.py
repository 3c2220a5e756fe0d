"""Edits with a flash cache: nothing is fetched twice, and nothing else changes."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sakura.errors import NotFoundError, StoreError
from sakura.format import Head, parse_head
from sakura.play import EditResult, Player
from sakura.play import bundle as opening
from sakura.play.bundle import Bundle, from_reader
from sakura.play.flash import FlashCache
from sakura.store.base import ObjectInfo
from tests.play import bundles
from tests.play.bundles import Made
from tests.play.readers import FaultyReader, dies_at

SOURCE = "memory://faulty.skv"


@dataclass(eq=False)
class Reader(FaultyReader):
    """An origin with a version; where `refusal` is set, it answers nothing else."""

    etag: str | None = '"1"'
    refusal: Exception | None = None
    num_heads: int = 0
    num_prefixes: int = 0

    def stat(self) -> ObjectInfo:
        if self.refusal is not None:
            raise self.refusal
        return ObjectInfo("faulty.skv", len(self.data), self.etag)

    async def head(self) -> ObjectInfo:
        self.num_heads += 1
        return self.stat()

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        self.num_prefixes += 1
        return self.stat(), self.data[:num_bytes]

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        self.stat()
        async for piece in super().stream(start, stop, etag):
            yield piece


DOWN = StoreError("cannot connect")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith("sakura")] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def head_of(made: Made) -> Head:
    head = parse_head(made.data, len(made.data))
    assert isinstance(head, Head)
    return head


def num_shard_bytes(made: Made) -> int:
    shards = head_of(made).manifest.shards
    return sum(layer.num_bytes for shard in shards for layer in shard.layers)


def opened(reader: Reader, cache: FlashCache | None) -> Bundle:
    bundle = from_reader(reader, cache, SOURCE)
    reader.is_playing = True
    return bundle


def player(made: Made, reader: Reader, cache: FlashCache | None, **options: Any) -> Player:
    bundle = opened(reader, cache)
    options = {"profile": made.profile, "policy": "wait"} | options
    return Player(bundles.adapter(), bundle, **options)


def play(
    made: Made, reader: Reader, cache: FlashCache | None, num_edits: int = 1, **options: Any
) -> EditResult:
    """The last of some edits with one player; fewer where all is decoded before."""
    top = len(head_of(made).manifest.shards[0].layers) - 1
    with player(made, reader, cache, **options) as running:
        for _ in range(num_edits):
            result = running.edit(bundles.reference(), seed=3)
            if result.report.levels == ((top,) * 6,) * 8:
                break
    return result


def test_a_second_player_fetches_nothing_and_makes_the_same_picture(folder: Path) -> None:
    made = bundles.raw()
    plain = play(made, Reader(made.data), None)
    first = play(made, Reader(made.data), FlashCache(folder))
    reader = Reader(made.data)
    second = play(made, reader, FlashCache(folder))
    for result in (first, second):
        np.testing.assert_array_equal(result.image, plain.image)
    assert (plain.report.cached_bytes, first.report.cached_bytes) == (0, 0)
    assert first.report.num_bytes == plain.report.num_bytes > 0
    assert second.report.cached_bytes == num_shard_bytes(made)
    assert (second.report.num_bytes, second.report.head_bytes, reader.asked) == (0, 0, [])
    assert (reader.num_heads >= 1, reader.num_prefixes) == (True, 0)
    assert (second.report.cache_error, second.report.fetch_error) == (None, None)
    assert second.report.finished_by == "stream"


def test_an_edit_without_the_origin_is_that_with_it(folder: Path) -> None:
    made = bundles.raw()
    online = play(made, Reader(made.data), FlashCache(folder))
    reader = Reader(made.data, refusal=DOWN)
    with player(made, reader, FlashCache(folder)) as running:
        assert running._bundle.offline == "cannot connect"
        offline = running.edit(bundles.reference(), seed=3)
    np.testing.assert_array_equal(offline.image, online.image)
    assert (offline.report.num_bytes, offline.report.fetch_error) == (0, None)


def test_without_the_origin_all_layers_of_the_compressed_bundle_are_there(folder: Path) -> None:
    """Once everything is decoded, the picture is that of an edit that fetched it all."""
    made, num_edits = bundles.compressed(), 8
    online = play(made, Reader(made.data), FlashCache(folder), num_edits)
    offline = play(made, Reader(made.data, refusal=DOWN), FlashCache(folder), num_edits)
    top = len(head_of(made).manifest.shards[0].layers) - 1
    assert online.report.levels == offline.report.levels == ((top,) * 6,) * 8
    np.testing.assert_array_equal(offline.image, online.image)
    assert offline.report.fetch_error is None


def test_a_base_alone_works_offline_and_is_upgraded_later(folder: Path) -> None:
    made, cache = bundles.compressed(), FlashCache(folder)
    play(made, Reader(made.data), cache, 8)
    entry = next(path for path in folder.iterdir() if path.is_dir())
    for path in entry.glob("level-[1-9]"):
        path.unlink()
    offline = play(made, Reader(made.data, refusal=DOWN), cache)
    assert offline.report.num_bytes == 0
    assert offline.report.fetch_error is not None
    assert {level for row in offline.report.levels for level in row} <= {-1, 0}
    assert offline.report.injected_blocks > 0
    base = sum(shard.layers[0].num_bytes for shard in head_of(made).manifest.shards)
    assert offline.report.cached_bytes == base
    reader = Reader(made.data)
    play(made, reader, cache, 8)
    base_stop = max(head_of(made).span(s.layers[0])[1] for s in head_of(made).manifest.shards)
    assert reader.asked
    assert min(start for start, _ in reader.asked) >= base_stop


def test_another_version_is_not_mixed_in(folder: Path) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    play(made, Reader(made.data), cache)
    reader = Reader(made.data, etag='"2"')
    result = play(made, reader, cache)
    assert (result.report.cached_bytes, reader.num_prefixes) == (0, 1)
    assert len(cache.entries()) == 2
    # Offline, the version that was opened last counts.
    bundle = opened(Reader(made.data, refusal=DOWN), cache)
    assert bundle.info.etag == '"2"'


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_a_weak_tag_proves_nothing_but_the_manifest_does(folder: Path, etag: str | None) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    play(made, Reader(made.data, etag=etag), cache)
    reader = Reader(made.data, etag=etag)
    result = play(made, reader, cache)
    assert (reader.num_prefixes, result.report.num_bytes) == (1, 0)
    assert result.report.head_bytes > 0


def test_an_origin_that_says_it_is_gone_is_believed(folder: Path) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    play(made, Reader(made.data), cache)
    with pytest.raises(NotFoundError):
        opened(Reader(made.data, refusal=NotFoundError("gone")), cache)


def test_an_origin_that_is_silent_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    play(made, Reader(made.data), cache)
    monkeypatch.setattr(opening, "REVALIDATE_S", 0.01)

    class Silent(Reader):
        async def head(self) -> ObjectInfo:
            await asyncio.Event().wait()
            raise AssertionError

    assert opened(Silent(made.data), cache).offline == "the origin does not answer"


def test_an_empty_cache_does_not_hide_that_the_origin_is_down(folder: Path) -> None:
    with pytest.raises(StoreError, match="cannot connect"):
        opened(Reader(b"", refusal=DOWN), FlashCache(folder))


@pytest.mark.parametrize("name", ["head", "picture", "facts"])
def test_damage_to_an_entry_is_mended_by_the_origin(folder: Path, name: str) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    play(made, Reader(made.data), cache)
    (path,) = folder.glob(f"*/{name}")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    result = play(made, Reader(made.data), cache)
    np.testing.assert_array_equal(result.image, play(made, Reader(made.data), None).image)
    offline = play(made, Reader(made.data, refusal=DOWN), cache)
    np.testing.assert_array_equal(result.image, offline.image)


@pytest.mark.parametrize("is_online", [True, False])
def test_wrong_bytes_on_disk_are_refused_and_fetched_again(folder: Path, is_online: bool) -> None:
    made, cache = bundles.raw(), FlashCache(folder)
    expected = play(made, Reader(made.data), cache)
    (path,) = folder.glob("*/level-0")
    raw = bytearray(path.read_bytes())
    raw[-1000] ^= 1
    path.write_bytes(raw)
    reader = Reader(made.data, refusal=None if is_online else DOWN)
    result = play(made, reader, cache)
    report = result.report
    assert "digest" in (report.cache_error or "")
    assert (report.num_damaged, report.damaged_shards) == (0, ())
    if not is_online:
        assert report.fetch_error is not None
        assert report.finished_by == "mixed"
        return
    np.testing.assert_array_equal(result.image, expected.image)
    ((start, stop),) = reader.asked
    assert stop - start <= 65536
    again = play(made, Reader(made.data), cache)
    assert (again.report.num_bytes, again.report.cache_error) == (0, None)


def test_chunks_are_kept_even_if_the_edit_ends_before_they_are_decoded(folder: Path) -> None:
    made = bundles.compressed()
    position = len(made.data) // 2
    first = play(made, Reader(made.data, dies_at(position)), FlashCache(folder))
    assert first.report.fetch_error is not None
    reader = Reader(made.data)
    second = play(made, reader, FlashCache(folder), 8)
    assert second.report.cached_bytes > 0 or second.report.num_bytes == 0
    first_bytes = first.report.num_bytes
    assert first_bytes > 0
    spans = sorted(reader.asked)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert sum(stop - start for start, stop in spans) <= num_shard_bytes(made) - first_bytes + 65536


def test_damaged_bytes_from_the_origin_are_not_kept(folder: Path) -> None:
    made = bundles.raw()
    data = bytearray(made.data)
    start, _ = head_of(made).span(head_of(made).manifest.shards[5].layers[0])
    data[start + 9] ^= 1
    play(made, Reader(bytes(data)), FlashCache(folder))
    result = play(made, Reader(made.data), FlashCache(folder))
    assert result.report.cache_error is None
    assert result.report.num_bytes > 0
    assert result.report.finished_by == "stream"


def test_a_full_disk_costs_the_cache_and_not_the_edit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundles.raw()
    expected = play(made, Reader(made.data), None)

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        result = play(made, Reader(made.data), FlashCache(folder))
    np.testing.assert_array_equal(result.image, expected.image)
    assert "No space left" in (result.report.cache_error or "")
    assert result.report.num_bytes == expected.report.num_bytes
    assert play(made, Reader(made.data), FlashCache(folder)).report.cache_error is None


def test_a_cache_that_cannot_be_written_is_still_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundles.raw()
    play(made, Reader(made.data), FlashCache(folder))
    real = os.open

    def read_only(path: Any, flags: int, *mode: Any, **options: Any) -> int:
        if str(path).startswith(str(folder)) and flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", read_only)
    result = play(made, Reader(made.data), FlashCache(folder))
    assert "Read-only" in (result.report.cache_error or "")
    assert (result.report.num_bytes, result.report.cached_bytes) == (0, num_shard_bytes(made))


def test_a_small_cache_keeps_bases(folder: Path) -> None:
    made = bundles.compressed()
    shards = head_of(made).manifest.shards
    base = sum(shard.layers[0].num_bytes for shard in shards)
    head = head_of(made).data_start + (head_of(made).manifest.template.blob or shards[0]).length  # type: ignore[union-attr]
    with closing(FlashCache(folder, head + base + 48 * 44 + 60_000)) as cache:
        play(made, Reader(made.data), cache, 8)
        (entry,) = cache.entries()
    assert entry.level_bytes[0] == base + 44 * sum(len(shard.layers[0].chunks) for shard in shards)
    assert entry.num_bytes <= cache.max_bytes


def test_a_cache_may_be_named_by_its_folder_and_given_to_the_player_alone(folder: Path) -> None:
    made = bundles.raw()
    for expected in (0, num_shard_bytes(made)):
        bundle = opened(Reader(made.data), None)
        with Player(
            bundles.adapter(), bundle, profile=made.profile, policy="wait", cache=folder
        ) as running:
            result = running.edit(bundles.reference(), seed=3)
        assert result.report.cached_bytes == expected
    assert from_reader(Reader(b"", refusal=DOWN), FlashCache(folder), SOURCE).offline


def test_the_device_policy_leaves_the_cache_alone(folder: Path) -> None:
    made = bundles.raw()
    play(made, Reader(made.data), FlashCache(folder), policy="device")
    assert not folder.exists()


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from sakura.play.flash import FlashCache
from tests.play import bundles
from tests.play.test_shelf import Reader, player
made, seen = bundles.raw(), 0
def hear(event):
    global seen
    seen += event.kind == "decode"
    if seen == 20:
        os.kill(os.getpid(), 9)
with player(made, Reader(made.data), FlashCache(sys.argv[1]), listener=hear) as running:
    running.edit(bundles.reference(), seed=3)
"""


def test_an_edit_that_is_killed_leaves_what_it_had(folder: Path) -> None:
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(root)], env=env, timeout=120, check=False
    )
    assert done.returncode == -9
    made = bundles.raw()
    result = play(made, Reader(made.data), FlashCache(folder))
    np.testing.assert_array_equal(result.image, play(made, Reader(made.data), None).image)
    assert (result.report.cache_error, result.report.num_damaged) == (None, 0)
    assert result.report.cached_bytes + result.report.num_bytes == num_shard_bytes(made)
    assert result.report.cached_bytes > 0
