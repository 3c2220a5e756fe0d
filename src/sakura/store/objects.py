"""Byte ranges of an object in a cloud bucket (s3, gs, az) through obstore.

obstore's own retries are off: a retry inside the library would hide a stall from the player.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sakura.errors import NotFoundError, StaleError, StoreError
from sakura.store.base import ObjectInfo, check_etag, check_inside, check_range, short_read

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore

T = TypeVar("T")

_OPTIONS: dict[str, Any] = {
    "client_options": {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=15),
        "timeout": timedelta(hours=1),  # of a whole body; the default of 30 s cuts slow links
    },
    "retry_config": {"max_retries": 0, "retry_timeout": timedelta(0)},
}


class BucketReader:
    """A RangeReader over one object of an obstore store."""

    def __init__(self, store: ObjectStore, name: str, url: str) -> None:
        _settle_before_exit()
        self._store = store
        self._name = name
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def head(self) -> ObjectInfo:
        import obstore

        with translated(self._url):
            return self._info(await obstore.head_async(self._store, self._name))

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        check_range(start, stop, self._url)
        with translated(self._url):
            result = await self._get(start, stop, etag)
            info = self._info(result.meta)
            check_etag(etag, info.etag, self._url)
            check_inside(stop, info, self._url)
            num_read = 0
            async for piece in result.stream(min_chunk_size=1):
                num_read += len(piece)
                yield bytes(piece)
            if num_read != stop - start:
                raise short_read(num_read, start, stop, self._url)

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        check_range(0, num_bytes, self._url)
        with translated(self._url):
            try:
                result = await self._get(0, num_bytes, None)
            except NotFoundError:
                raise
            except Exception:
                info = await self.head()  # every bucket refuses a range of an empty object
                if info.num_bytes:
                    raise
                return info, b""
            return self._info(result.meta), bytes(await result.bytes_async())

    async def close(self) -> None:
        return None

    def stat(self) -> ObjectInfo:
        return asyncio.run(self.head())

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        async def joined() -> bytes:
            return b"".join([piece async for piece in self.stream(start, stop, etag)])

        return asyncio.run(joined())

    async def _get(self, start: int, stop: int, etag: str | None) -> Any:
        import obstore

        options: GetOptions = {"range": (start, stop)}
        if etag is not None:
            options["if_match"] = etag
        return await obstore.get_async(self._store, self._name, options=options)

    def _info(self, meta: Any) -> ObjectInfo:
        return ObjectInfo(self._name, meta["size"], meta["e_tag"])


def open_bucket(url: str) -> tuple[ObjectStore, str]:
    """The store of an object's folder, and the object's name in it. Credentials come from the
    environment.
    """
    try:
        from obstore.store import from_url
    except ImportError as error:
        hint = 'pip install "sakura-kv[cloud]"'
        raise StoreError("cloud stores need obstore", where=url, hint=hint) from error
    folder, _, name = url.rpartition("/")
    with translated(url):
        store: ObjectStore = from_url(folder, **_OPTIONS)
    return store, name


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn obstore's exceptions into ours."""
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError as error:
        hint = "check bucket and name"
        raise NotFoundError("no such object", where=where, hint=hint) from error
    except exceptions.PreconditionError as error:
        raise StaleError(
            "the object changed", where=where, hint="open the template again"
        ) from error
    except (exceptions.UnauthenticatedError, exceptions.PermissionDeniedError) as error:
        raise StoreError(
            "access refused", where=where, hint="check the bucket's credentials"
        ) from error
    except (exceptions.BaseError, OSError) as error:
        raise StoreError(str(error).partition("\n")[0], where=where) from error


@cache
def _settle_before_exit() -> None:
    """Give obstore's threads time to leave Python: 0.12 aborts the process when they meet a dead
    interpreter.
    """
    atexit.register(time.sleep, 0.3)
