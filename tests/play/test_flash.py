"""The flash cache: what goes in comes out or is gone, whatever happens to the files in between."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sakura.errors import InputError, StoreError
from sakura.format.shard import digest
from sakura.play import flash
from sakura.play.flash import FlashCache
from sakura.play.flash_entry import USED_BYTES, Kept
from sakura.play.flash_evict import Part, victims
from sakura.play.flash_log import HEADER_BYTES, encode
from sakura.play.ranges import Place

ROOM = 1 << 20
CHUNK = 1000
RECORD = HEADER_BYTES + CHUNK


def kept(number: int = 0, etag: str | None = '"1"') -> Kept:
    """Stands for a bundle: 100 bytes of head, of which 16 name the manifest."""
    head = bytes(16) + digest(b"%d" % number) + bytes(68)
    return Kept(f"http://origin/{number}.skv", etag, 12345, head, b"picture")


def data_of(place: Place, bundle: int = 0, num_bytes: int = CHUNK) -> bytes:
    """Bytes that no other chunk has."""
    return random.Random(repr((place, bundle))).randbytes(num_bytes)


def chunks(*levels: int, bundle: int = 0, num_shards: int = 1) -> list[tuple[Place, bytes]]:
    places = [(block, 0, level, 0) for level in levels for block in range(num_shards)]
    return [(place, data_of(place, bundle)) for place in places]


def found(cache: FlashCache, bundle: Kept) -> dict[Place, bytes]:
    with closing(cache.snapshot(bundle)) as snapshot:
        return {place: snapshot.read(place) for place in snapshot.places}


def levels_there(cache: FlashCache, bundle: Kept) -> set[int]:
    return {place[2] for place in found(cache, bundle)}


def size(folder: Path) -> int:
    """Bytes on disk, but for the 8 of the lock."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process is just replacing it
            total += path.stat().st_size if path.is_file() and path.name != "lock" else 0
    return total


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[FlashCache]:
    with closing(FlashCache(tmp_path / "cache", ROOM)) as made:
        yield made


def test_what_was_put_is_there_for_another_process(cache: FlashCache) -> None:
    given_chunks = chunks(0, 1, 2, num_shards=3)
    assert cache.put(kept(), given_chunks) == 9
    assert found(FlashCache(cache.path), kept()) == dict(given_chunks)


def test_a_record_is_written_as_documented(cache: FlashCache) -> None:
    (chunk,) = chunks(1)
    cache.put(kept(), [chunk])
    raw = (cache.path / kept().name / "level-1").read_bytes()
    assert raw[:4] == b"SKF1"
    numbers = [int.from_bytes(raw[at : at + 4], "little") for at in range(4, 24, 4)]
    assert numbers == [0, 0, 1, 0, CHUNK]
    assert (raw[24:40], raw[44:]) == (digest(chunk[1]), chunk[1])


def test_a_chunk_is_kept_once(cache: FlashCache) -> None:
    for other in (cache, FlashCache(cache.path), cache):
        assert other.put(kept(), chunks(0)) == 1
        other.close()
    assert (cache.path / kept().name / "level-0").stat().st_size == RECORD


def test_versions_are_never_mixed(cache: FlashCache) -> None:
    """Another etag, or another manifest under the same etag, is another entry."""
    versions = [kept(), kept(etag='"2"'), kept(1), kept(etag=None)]
    for number, version in enumerate(versions):
        assert found(cache, version) == {}
        cache.put(version, chunks(0, bundle=number))
    for number, version in enumerate(versions):
        assert found(cache, version) == dict(chunks(0, bundle=number))


def test_a_source_names_what_was_opened_from_it_last(cache: FlashCache) -> None:
    old, new = kept(etag='"1"'), kept(etag='"2"')
    assert cache.find("http://origin/a") is None
    cache.touch(new, "http://origin/a")
    cache.touch(old, "http://origin/b")
    cache.touch(old, "http://origin/a?secret=1")
    again = cache.find("http://origin/a")
    assert again is not None
    assert (again.name, again.head, again.picture) == (new.name, new.head, b"picture")
    assert (again.url, again.etag, again.num_bytes) == (new.url, new.etag, new.num_bytes)
    cache.touch(old, "http://origin/a")
    assert getattr(cache.find("http://origin/a"), "etag", None) == '"1"'
    everything = b"".join(path.read_bytes() for path in cache.path.rglob("*") if path.is_file())
    assert b"secret" not in everything


def test_the_list_of_sources_stays_short(cache: FlashCache) -> None:
    for number in range(100):
        cache.touch(kept(), f"http://origin/a?signed={number}")
    used = cache.path / kept().name / "used"
    assert used.stat().st_size < USED_BYTES
    assert cache.find("http://origin/a?signed=99") is not None
    assert cache.find("http://origin/a?signed=1") is None


def test_upper_levels_go_before_lower_ones_and_the_oldest_first(tmp_path: Path) -> None:
    base = USED_BYTES + sum(map(len, kept().files.values()))
    with closing(FlashCache(tmp_path, 3 * base + 6 * RECORD)) as cache:

        def there() -> list[set[int]]:
            return [levels_there(cache, kept(number)) for number in range(4)]

        for number in range(3):
            cache.put(kept(number), chunks(0, 2, bundle=number))
        cache.touch(kept(0))  # now 1 is the oldest
        assert cache.put(kept(0), chunks(1)) == 1
        assert there() == [{0, 1, 2}, {0}, {0, 2}, set()]
        assert cache.put(kept(0), chunks(3)) == 0
        more = [((block, 0, 2, 0), data_of((block, 0, 2, 0))) for block in (8, 9)]
        assert cache.put(kept(0), more) == 1  # instead of 2's, which is older; not instead of 1s
        assert there() == [{0, 1, 2}, {0}, {0}, set()]
        assert cache.put(kept(1), chunks(1, bundle=1)) == 1  # older, but lower
        assert there() == [{0, 1}, {0, 1}, {0}, set()]
        # A new base takes the place of refinements, then of the oldest base.
        assert cache.put(kept(3), chunks(0, bundle=3)) == 1
        assert there() == [{0}, {0}, {0}, {0}]
        assert cache.put(kept(4), chunks(0, bundle=4)) == 1
        assert there() == [{0}, set(), {0}, {0}]
        assert size(tmp_path) <= cache.max_bytes


parts = st.builds(
    Part, st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 5), st.integers(1, 100)
)


@given(st.lists(parts), st.integers(-10, 500), st.none() | parts)
def test_victims_are_the_cheapest_that_are_enough(
    there: list[Part], num_bytes: int, below: Part | None
) -> None:
    gone = victims(there, num_bytes, below)
    allowed = [part for part in there if below is None or part.worth < below.worth]
    if gone is None:
        assert sum(part.num_bytes for part in allowed) < num_bytes
        return
    freed = [part.num_bytes for part in gone]
    assert sum(freed) >= num_bytes
    assert not freed or sum(freed[:-1]) < num_bytes
    rest = list(allowed)
    for part in gone:
        rest.remove(part)
    assert all(gone[-1].worth <= part.worth for part in rest) if gone else num_bytes <= 0


def test_a_bundle_that_does_not_fit_is_not_kept(tmp_path: Path) -> None:
    cache = FlashCache(tmp_path / "cache", 100)
    cache.touch(kept(), "a")
    assert cache.put(kept(), chunks(0)) == 0
    assert (cache.find("a"), cache.entries(), size(cache.path)) == (None, [], 0)
    with pytest.raises(InputError):
        FlashCache(tmp_path, -1)


def test_entries_prune_and_clear(cache: FlashCache) -> None:
    for number in range(3):
        cache.put(kept(number), chunks(0, 2, bundle=number))
    newest, _, oldest = cache.entries()
    assert (newest.url, oldest.url) == (kept(2).url, kept(0).url)
    assert newest.level_bytes == (RECORD, 0, RECORD)
    assert (newest.etag, newest.object_bytes) == ('"1"', 12345)
    before = sum(entry.num_bytes for entry in cache.entries())
    freed = cache.prune(before - RECORD - 1)
    assert freed == 2 * RECORD
    assert [levels_there(cache, kept(n)) for n in range(3)] == [{0}, {0}, {0, 2}]
    assert cache.prune() == 0
    assert cache.clear() == before - freed
    assert (cache.entries(), size(cache.path)) == ([], 0)
    assert FlashCache(cache.path / "none").entries() == []


def test_what_is_not_the_caches_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ("0" * 32)).mkdir()
    (tmp_path / ("0" * 32) / "mine").write_text("precious")
    (tmp_path / "level-0").write_text("precious")
    cache = FlashCache(tmp_path, ROOM)
    cache.put(kept(), chunks(0))
    cache.clear()
    assert (tmp_path / ("0" * 32) / "mine").read_text() == "precious"
    assert (tmp_path / "level-0").read_text() == "precious"


def test_a_snapshot_outlives_eviction_and_is_harmless_when_closed(cache: FlashCache) -> None:
    cache.put(kept(), chunks(0))
    snapshot = cache.snapshot(kept())
    cache.clear()
    assert snapshot.read((0, 0, 0, 0)) == data_of((0, 0, 0, 0))
    snapshot.close()
    assert snapshot.read((0, 0, 0, 0)) == b""


def test_eviction_by_another_process_is_noticed_by_a_writer(cache: FlashCache) -> None:
    cache.put(kept(), chunks(0, 1))
    FlashCache(cache.path).clear()
    cache.put(kept(), chunks(1, num_shards=2))
    assert found(cache, kept()) == dict(chunks(1, num_shards=2))


def test_a_damaged_chunk_is_replaced_when_it_comes_again(cache: FlashCache) -> None:
    cache.put(kept(), chunks(0, num_shards=3))
    path = cache.path / kept().name / "level-0"
    raw = bytearray(path.read_bytes())
    raw[RECORD + HEADER_BYTES + 7] ^= 1
    path.write_bytes(raw)
    place = (1, 0, 0, 0)
    assert found(cache, kept())[place] != data_of(place)
    cache.put(kept(), chunks(0, num_shards=3))
    assert found(cache, kept()) == dict(chunks(0, num_shards=3))
    assert path.stat().st_size == 4 * RECORD


@pytest.mark.parametrize("name", ["facts", "head", "used", "picture"])
@pytest.mark.parametrize("damage", [b"", b"{", b'{"stamp": "x"}', bytes(200)])
def test_a_damaged_entry_is_no_entry(cache: FlashCache, name: str, damage: bytes) -> None:
    """Except for the picture, which whoever opens the bundle checks."""
    cache.touch(kept(), "a")
    (cache.path / kept().name / name).write_bytes(damage)
    again = cache.find("a")
    assert again is None if name != "picture" else again is not None and again.picture == damage
    cache.touch(kept(1), "b")
    assert cache.find("b") is not None
    cache.clear()
    assert size(cache.path) == 0


@given(cut=st.integers(0, 3 * RECORD), junk=st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_a_torn_end_costs_the_records_it_tears(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    with closing(FlashCache(tmp_path_factory.mktemp("torn"), ROOM)) as cache:
        whole = chunks(0, num_shards=3)
        cache.put(kept(), whole)
        path = cache.path / kept().name / "level-0"
        path.write_bytes(path.read_bytes()[:cut] + junk)
        there = found(cache, kept())
        assert dict(whole[: cut // RECORD]).items() <= there.items()
        assert len(there) <= cut // RECORD + 1  # junk may fill up a record whose header is whole
        cache.put(kept(), whole)
        assert found(cache, kept()) == dict(whole)


def test_what_stands_behind_the_last_record_is_cut_off(cache: FlashCache) -> None:
    cache.put(kept(), chunks(0))
    path = cache.path / kept().name / "level-0"
    path.write_bytes(path.read_bytes() + bytes(5 * RECORD))
    cache.put(kept(), chunks(0, num_shards=2))
    assert path.stat().st_size == 2 * RECORD


def test_a_header_with_a_wrong_bit_is_no_record(cache: FlashCache) -> None:
    cache.put(kept(), chunks(0, num_shards=2))
    path = cache.path / kept().name / "level-0"
    whole = path.read_bytes()
    for bit in range(8 * HEADER_BYTES):
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        assert found(cache, kept()) == {}, bit


class Machine(RuleBasedStateMachine):
    """Two writers, files cut and changed anywhere: only what was put comes out, or is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.environ["FLASH_TEST_FOLDER"]) / os.urandom(8).hex()
        self.limit = 3 * USED_BYTES + 12 * RECORD
        self.writers = [FlashCache(self.folder, self.limit) for _ in range(2)]
        self.digests: dict[tuple[str, Place], bytes] = {}

    bundle_numbers = st.integers(0, 3)
    writer_numbers = st.integers(0, 1)

    @rule(
        writer=writer_numbers,
        number=bundle_numbers,
        shards=st.lists(st.integers(0, 3), max_size=4),
        level=st.integers(0, 2),
        index=st.integers(0, 1),
    )
    def put(self, writer: int, number: int, shards: list[int], level: int, index: int) -> None:
        given_chunks = []
        for block in shards:
            place = (block, 0, level, index)
            given_chunks.append((place, data_of(place, number, CHUNK - 100 * block)))
            self.digests[kept(number).name, place] = digest(given_chunks[-1][1])
        num_there = self.writers[writer].put(kept(number), given_chunks)
        there = found(self.writers[writer], kept(number))
        assert num_there <= len(given_chunks)
        assert sum(there.get(place) == data for place, data in given_chunks) >= num_there

    @rule(writer=writer_numbers, number=bundle_numbers)
    def touch(self, writer: int, number: int) -> None:
        self.writers[writer].touch(kept(number), "source")

    @rule(writer=writer_numbers)
    def restart(self, writer: int) -> None:
        self.writers[writer].close()
        self.writers[writer] = FlashCache(self.folder, self.limit)

    @rule(writer=writer_numbers, share=st.floats(0, 1))
    def prune(self, writer: int, share: float) -> None:
        self.writers[writer].prune(int(share * self.limit))

    @rule(pick=st.integers(0, 1 << 16), at=st.floats(0, 1), bit=st.none() | st.integers(0, 7))
    def crash(self, pick: int, at: float, bit: int | None) -> None:
        """A file is cut short, or one bit of it changes."""
        files = sorted(path for path in self.folder.glob("*/*") if path.stat().st_size)
        if not files:
            return
        path = files[pick % len(files)]
        raw = bytearray(path.read_bytes())
        position = int(at * (len(raw) - 1))
        if bit is None:
            raw = raw[:position]
        else:
            raw[position] ^= 1 << bit
        with path.open("r+b") as file:
            file.write(raw)
            file.truncate()

    @invariant()
    def only_what_was_put_has_its_digest(self) -> None:
        for number in range(4):
            with closing(self.writers[0].snapshot(kept(number))) as snapshot:
                for place, (_, record) in snapshot.records.items():
                    expected = self.digests.get((kept(number).name, place))
                    data = snapshot.read(place)
                    is_right = digest(data) == record.digest
                    assert not is_right or record.digest == expected

    @invariant()
    def the_bound_holds(self) -> None:
        assert size(self.folder) <= self.limit

    def teardown(self) -> None:
        for writer in self.writers:
            writer.close()


def test_any_sequence_of_puts_evictions_and_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    monkeypatch.setenv("FLASH_TEST_FOLDER", str(tmp_path))
    monkeypatch.setattr("sakura.store.writer.os.fsync", lambda _: None)
    limits = settings(max_examples=25, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Machine, settings=limits)


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from tests.play.test_flash import CHUNK, data_of, kept
from sakura.play.flash import FlashCache
cache = FlashCache(sys.argv[1], int(sys.argv[4]))
first = int(sys.argv[2])
print("ready", flush=True)
for number in range(10**6 if len(sys.argv) < 6 else int(sys.argv[5])):
    place = (number, 0, (first + number) % 3, 0)
    assert cache.put(kept(number // 40 % 3), [(place, data_of(place, number // 40 % 3))]) in (0, 1)
"""


def writer(folder: Path, *args: int) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    first, *rest = (str(arg) for arg in args)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), *filter(None, sys.path)])}
    command = [sys.executable, "-c", WRITER, str(folder), first, str(root), *rest]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def check(folder: Path, limit: int) -> int:
    """Every chunk that is there is right; returns how many there are."""
    cache, num_chunks = FlashCache(folder, limit), 0
    for number in range(3):
        for place, data in found(cache, kept(number)).items():
            assert data == data_of(place, number)
            num_chunks += 1
    assert size(folder) <= limit
    return num_chunks


def test_a_writer_that_is_killed_loses_nothing_that_was_whole(tmp_path: Path) -> None:
    limit, num_before = 10_000 * RECORD, 0
    for round_number in range(4):
        with writer(tmp_path, round_number, limit) as process, ExitStack() as always:
            always.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            while check(tmp_path, limit) <= num_before + 3 * round_number + 2:
                assert process.poll() is None
        num_there = check(tmp_path, limit)
        assert num_there > num_before
        with closing(FlashCache(tmp_path, limit)) as cache:  # the lock died with its holder
            cache.put(kept(), chunks(0))
        num_before = check(tmp_path, limit)


def test_two_processes_at_once(tmp_path: Path) -> None:
    limit = 60 * RECORD
    with ExitStack() as always:
        processes = [always.enter_context(writer(tmp_path, first, limit, 120)) for first in (0, 1)]
        for process in processes:
            always.callback(process.kill)
        assert [process.wait(60) for process in processes] == [0, 0]
    assert 20 <= check(tmp_path, limit) <= 60


def test_a_lock_that_is_never_let_go_is_an_error(
    cache: FlashCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flash, "LOCK_S", 0.0)
    other = FlashCache(cache.path)
    with other._writing(), pytest.raises(StoreError, match="another process"):
        cache.put(kept(), chunks(0))
    assert cache.put(kept(), chunks(0)) == 1


@pytest.mark.parametrize("num_whole", [0, 1, 2])
def test_a_full_disk_keeps_what_was_whole(
    cache: FlashCache, monkeypatch: pytest.MonkeyPatch, num_whole: int
) -> None:
    cache.touch(kept())
    written, real = 0, os.pwrite

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        nonlocal written
        if written == num_whole * RECORD + 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = real(descriptor, data[: num_whole * RECORD + 500 - written], at)
        written += count
        return count

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(StoreError, match="No space left") as caught:
            cache.put(kept(), chunks(0, num_shards=4))
    assert caught.value.hint
    assert found(cache, kept()) == dict(chunks(0, num_shards=4)[:num_whole])
    path = cache.path / kept().name / "level-0"
    assert path.stat().st_size == num_whole * RECORD
    cache.put(kept(), chunks(0, num_shards=4))
    assert found(cache, kept()) == dict(chunks(0, num_shards=4))


def test_a_folder_that_cannot_be_made_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FlashCache(tmp_path / "file" / "cache")
    assert (cache.find("a"), cache.entries()) == (None, [])
    with pytest.raises(StoreError) as caught:
        cache.touch(kept())
    assert caught.value.hint


def test_records_of_another_bundle_do_not_pass_for_ones_own(cache: FlashCache) -> None:
    """Whoever swaps files gets chunks whose digests do not match."""
    cache.put(kept(), chunks(0))
    cache.put(kept(1), chunks(0, bundle=1))
    os.replace(cache.path / kept(1).name / "level-0", cache.path / kept().name / "level-0")
    assert found(cache, kept()) == dict(chunks(0, bundle=1))
    renamed = replace(kept(), etag='"2"')
    (cache.path / kept().name).rename(cache.path / renamed.name)
    assert cache.find("a") is None
    assert encode((0, 0, 0, 0), b"x") != encode((0, 0, 1, 0), b"x")
