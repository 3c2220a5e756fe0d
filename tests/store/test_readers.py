"""The conformance class over every reader; a real nginx, where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from sakura.errors import StaleError, StoreError
from sakura.origin.serve import OriginProcess
from sakura.store.base import RangeReader
from sakura.store.files import MemoryStore
from sakura.store.objects import BucketReader
from sakura.store.open import open_reader
from sakura.store.writer import put_atomic
from tests.conformance.store import DATA, Place, ReaderConformance
from tests.origin.nginx import nginx_over


class FolderPlace:
    """A folder of files, read directly or through the server at `base`."""

    def __init__(self, folder: Path, base: str | None = None) -> None:
        self._folder = folder
        self._base = base

    def put(self, name: str, data: bytes) -> None:
        put_atomic(self._folder / name, [data])

    def reader(self, name: str) -> RangeReader:
        if self._base is None:
            return open_reader(self._folder / name)
        return open_reader(f"{self._base}/{quote(name)}")


class MemoryPlace:
    def __init__(self) -> None:
        self._store = MemoryStore()

    def put(self, name: str, data: bytes) -> None:
        put_atomic(f"memory://{name}", [data], self._store)

    def reader(self, name: str) -> RangeReader:
        return open_reader(f"memory://{name}", self._store)


class BucketPlace:
    """Obstore's own memory store stands for a bucket: same code path, no network."""

    def __init__(self) -> None:
        store = pytest.importorskip("obstore.store", reason="needs the extra `cloud`")
        self._store = store.MemoryStore()

    def put(self, name: str, data: bytes) -> None:
        self._store.put(name, data)

    def reader(self, name: str) -> RangeReader:
        return BucketReader(self._store, name, f"s3://bucket/{name}")


class TestFile(ReaderConformance):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return FolderPlace(tmp_path)


class TestMemory(ReaderConformance):
    @pytest.fixture
    def place(self) -> Place:
        return MemoryPlace()


class TestBucket(ReaderConformance):
    @pytest.fixture
    def place(self) -> Place:
        return BucketPlace()


@pytest.fixture(scope="module")
def origin_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("origin")
    with OriginProcess(folder) as origin:
        yield FolderPlace(folder, origin.url)


class TestOrigin(ReaderConformance):
    @pytest.fixture
    def place(self, origin_place: Place) -> Place:
        return origin_place


@pytest.fixture(scope="module")
def nginx_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("nginx")
    with nginx_over(folder, tmp_path_factory.mktemp("nginx-run")) as base:
        yield FolderPlace(folder, base)


class TestNginx(ReaderConformance):
    @pytest.fixture
    def place(self, nginx_place: Place) -> Place:
        return nginx_place

    def test_replaced_object_is_stale(self, place: Place) -> None:
        """Nginx makes its ETag from size and whole seconds, so the replacement is dated."""
        place.put("dated.skv", DATA)
        folder = place._folder  # type: ignore[attr-defined]
        os.utime(folder / "dated.skv", (1_000_000_000, 1_000_000_000))
        reader = place.reader("dated.skv")
        old = reader.stat().etag
        place.put("dated.skv", DATA[::-1])
        with pytest.raises(StoreError, match="changed"):
            reader.read(0, 10, old)


class BucketOverHttpPlace(FolderPlace):
    """Obstore asks the origin: the statuses of a real server, the code path of a bucket."""

    def reader(self, name: str) -> RangeReader:
        store = pytest.importorskip("obstore.store", reason="needs the extra `cloud`")
        options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
        return BucketReader(store.HTTPStore(self._base, **options), name, f"s3://bucket/{name}")


class TestBucketOverHttp(ReaderConformance):
    @pytest.fixture
    def place(self, origin_place: FolderPlace) -> Place:
        return BucketOverHttpPlace(origin_place._folder, origin_place._base)


def test_bucket_reader_lets_the_process_end_well(origin_place: FolderPlace) -> None:
    """Obstore aborts an interpreter that ends right after an async request; ours must not."""
    pytest.importorskip("obstore.store", reason="needs the extra `cloud`")
    origin_place.put("exit.skv", DATA)
    code = (
        "import sys\n"
        "from obstore.store import HTTPStore\n"
        "from sakura.store.objects import BucketReader\n"
        "store = HTTPStore(sys.argv[1], client_options={'allow_http': True})\n"
        "print(len(BucketReader(store, 'exit.skv', 'x').read(0, 70_000)))\n"
    )
    search_path = os.pathsep.join(path for path in sys.path if path)
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", code, str(origin_place._base)],
            env=os.environ | {"PYTHONPATH": search_path},
            capture_output=True,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (0, b"70000\n"), ended.stderr


@pytest.mark.parametrize("url", ["ftp://host/a.skv", "memory://a.skv", "http:///a.skv"])
def test_unknown_source_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        open_reader(url)


def test_file_url_is_decoded(tmp_path: Path) -> None:
    put_atomic(tmp_path / "a b.skv", [b"abc"])
    assert open_reader(f"file://{tmp_path}/a%20b.skv").read(1, 3) == b"bc"
    with pytest.raises(StoreError, match="no other host"):
        open_reader("file://host/a.skv")


def test_folder_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        open_reader(tmp_path).stat()
    with pytest.raises(StoreError):
        open_reader(tmp_path).read(0, 1)


def test_a_bucket_has_no_lock_and_the_last_writer_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/guides/serving.md says; a reader of the replaced object is told."""
    stores = pytest.importorskip("obstore.store", reason="needs the extra `cloud`")
    bucket = stores.MemoryStore()
    monkeypatch.setattr("sakura.store.objects.open_bucket", lambda url: (bucket, "a.skv"))
    url = "s3://bucket/a.skv"
    put_atomic(url, [b"old"])
    reader = open_reader(url)
    etag = reader.stat().etag

    def second_writer() -> Iterator[bytes]:
        yield b"late "
        other = threading.Thread(target=put_atomic, args=(url, [b"early"]))
        other.start()
        other.join()
        yield b"bytes"

    assert put_atomic(url, second_writer()) == 10
    assert reader.read(0, 10) == b"late bytes"
    with pytest.raises(StaleError):
        reader.read(0, 3, etag)
