"""Which reader a path or URL gets."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from sakura.errors import StoreError
from sakura.store.base import RangeReader
from sakura.store.files import FileReader, MemoryStore

HTTP_SCHEMES = ("http", "https")
BUCKET_SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def open_reader(source: str | Path, memory: MemoryStore | None = None) -> RangeReader:
    """A reader of one object; nothing is fetched yet.

    Args:
        source: a path, or a file, http, https, s3, gs, az or memory URL.
        memory: where `memory://NAME` objects live.
    """
    scheme = scheme_of(source)
    if scheme in ("", "file"):
        return FileReader(local_path(source))
    if scheme in HTTP_SCHEMES:
        return _open_http(str(source))
    if scheme in BUCKET_SCHEMES:
        from sakura.store.objects import BucketReader, open_bucket

        return BucketReader(*open_bucket(str(source)), str(source))
    if scheme == "memory" and memory is not None:
        return memory.reader(str(source).partition("://")[2])
    known = ", ".join(("file", *HTTP_SCHEMES, *BUCKET_SCHEMES))
    raise StoreError(f"no reader for scheme {scheme!r}", where=str(source), hint=f"known: {known}")


def scheme_of(source: str | Path) -> str:
    """`s3` of `s3://bucket/name`, empty for a path."""
    text = str(source) if isinstance(source, str) else ""
    return text.partition("://")[0].lower() if "://" in text else ""


def local_path(source: str | Path) -> Path:
    """The path that a path or file URL names."""
    if scheme_of(source) != "file":
        return Path(source)
    parts = urlsplit(str(source))
    if parts.netloc not in ("", "localhost"):
        raise StoreError("a file URL names no other host", where=str(source), hint="file:///path")
    return Path(unquote(parts.path))


def _open_http(url: str) -> RangeReader:
    try:
        from sakura.store.http import HttpReader
    except ImportError as error:
        hint = 'pip install "sakura-kv[http]"'
        raise StoreError("http sources need aiohttp", where=url, hint=hint) from error
    if not urlsplit(url).netloc:
        raise StoreError("the URL has no host", where=url)
    return HttpReader(url)
