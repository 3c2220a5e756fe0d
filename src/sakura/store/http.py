"""Byte ranges over http(s) with aiohttp, one connection per transfer in flight.

Every response is checked against its request (status, Content-Range, ETag, length); there is no
retry here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp
from yarl import URL

from sakura.errors import NotFoundError, StaleError, StoreError
from sakura.store.base import ObjectInfo, check_etag, check_inside, check_range, short_read
from sakura.units import KIB

T = TypeVar("T")

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19})")
_MAX_CONNECTIONS = 16
_MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """When a silent peer is an error. The player's stall timer is much shorter; these catch dead
    hosts.
    """

    connect_s: float = 5.0
    silence_s: float = 15.0


class HttpReader:
    """A RangeReader over one http(s) URL; query strings (presigned URLs) are kept as they are."""

    def __init__(self, url: str, timeouts: HttpTimeouts | None = None) -> None:
        self._target = URL(url, encoded=True)
        self._timeouts = timeouts or HttpTimeouts()
        self._session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return _public(str(self._target))  # a presigned query is a secret and stays out of messages

    @property
    def _name(self) -> str:
        return unquote(self._target.raw_path.rsplit("/", 1)[-1])

    async def head(self) -> ObjectInfo:
        with _translated(self.url):
            async with self._open().head(self._target, allow_redirects=True) as response:
                _check_status(response, 200, self.url)
                length = response.headers.get("Content-Length", "")
                if not re.fullmatch("[0-9]{1,19}", length):
                    raise StoreError("response has no usable Content-Length", where=self.url)
                return ObjectInfo(self._name, int(length), response.headers.get("ETag"))

    async def stream(self, start: int, stop: int, etag: str | None = None) -> AsyncIterator[bytes]:
        check_range(start, stop, self.url)
        with _translated(self.url):
            async with self._get(start, stop, etag) as response:
                info = self._check_partial(response, start, stop)
                check_etag(etag, info.etag, self.url)
                check_inside(stop, info, self.url)
                num_left = stop - start
                async for piece in response.content.iter_any():
                    num_left -= len(piece)
                    yield piece
                if num_left:  # aiohttp already raises on a body shorter than its Content-Length
                    raise short_read(stop - start - num_left, start, stop, self.url)

    async def read_prefix(self, num_bytes: int) -> tuple[ObjectInfo, bytes]:
        check_range(0, num_bytes, self.url)
        with _translated(self.url):
            async with self._get(0, num_bytes, None) as response:
                if response.status == 416 and response.headers.get("Content-Range") == "bytes */0":
                    return ObjectInfo(self._name, 0, response.headers.get("ETag")), b""
                if response.status == 200 and response.headers.get("Content-Length") == "0":
                    return ObjectInfo(self._name, 0, response.headers.get("ETag")), b""
                info = self._check_partial(response, 0, num_bytes)
                return info, await response.read()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def stat(self) -> ObjectInfo:
        return asyncio.run(self._alone(HttpReader.head))

    def read(self, start: int, stop: int, etag: str | None = None) -> bytes:
        async def joined(reader: HttpReader) -> bytes:
            return b"".join([piece async for piece in reader.stream(start, stop, etag)])

        return asyncio.run(self._alone(joined))

    async def _alone(self, action: Callable[[HttpReader], Awaitable[T]]) -> T:
        """Run one action on a reader of its own, so that no session outlives its event loop."""
        reader = HttpReader(str(self._target), self._timeouts)
        try:
            return await action(reader)
        finally:
            await reader.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = self._timeouts
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=limits.connect_s, sock_read=limits.silence_s
            )
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS),
                timeout=timeout,
                headers={"Accept-Encoding": "identity"},
                auto_decompress=False,
                read_bufsize=32 * KIB,
            )
        return self._session

    def _get(
        self, start: int, stop: int, etag: str | None
    ) -> aiohttp.client._RequestContextManager:
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        if etag is not None and not etag.startswith("W/"):  # a weak tag never satisfies If-Match
            headers["If-Match"] = etag
        return self._open().get(self._target, headers=headers, max_redirects=_MAX_REDIRECTS)

    def _check_partial(self, response: aiohttp.ClientResponse, start: int, stop: int) -> ObjectInfo:
        """Refuse everything but the range asked for, cut at most by the object's end."""
        if response.status == 416:
            found = response.headers.get("Content-Range", "bytes */?").rsplit("/", 1)[-1]
            raise StoreError(f"range ends at {stop}, the object has {found} bytes", where=self.url)
        _check_status(response, 206, self.url)
        content_range = response.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(content_range)
        if match is None:
            raise StoreError(f"Content-Range is {content_range!r}", where=self.url)
        first, last, total = (int(part) for part in match.groups())
        if (
            first != start
            or last != min(stop, total) - 1
            or response.content_length != last - first + 1
        ):
            raise StoreError(
                f"asked for bytes [{start}, {stop}), got Content-Range {content_range!r} "
                f"with {response.content_length} bytes",
                where=self.url,
            )
        return ObjectInfo(self._name, total, response.headers.get("ETag"))


def _public(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rsplit("@", 1)[-1], parts.path, "", ""))


def _check_status(response: aiohttp.ClientResponse, expected: int, where: str) -> None:
    status = response.status
    if status in (404, 410):
        parts = urlsplit(where)
        hint = (
            f"check the name; a `sakura serve` origin lists its bundles at "
            f"{parts.scheme}://{parts.netloc}/v1/templates"
        )
        raise NotFoundError("no such object", where=where, hint=hint)
    if status == 412:
        raise StaleError("the object changed", where=where, hint="open the template again")
    if status == 200 and expected == 206:
        raise StoreError(
            "the server ignores byte ranges",
            where=where,
            hint="use `sakura serve`, nginx or another server that answers Range with 206",
        )
    if status in (401, 403):
        raise StoreError(
            f"access refused ({status})", where=where, hint="check the URL's signature or expiry"
        )
    if status != expected:
        raise StoreError(f"the server answered {status}, expected {expected}", where=where)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise StoreError(
            "the server compresses the object; ranges would be meaningless", where=where
        )


@contextmanager
def _translated(where: str) -> Iterator[None]:
    """Turn transport errors into StoreError; errors of ours pass."""
    try:
        yield
    except TimeoutError as error:
        raise StoreError("timed out", where=where, hint="check the network") from error
    except aiohttp.ClientConnectorError as error:
        raise StoreError(
            f"cannot connect: {error.os_error}", where=where, hint="is the origin running?"
        ) from error
    except aiohttp.ClientPayloadError as error:
        raise StoreError("the connection ended inside the transfer", where=where) from error
    except OSError as error:
        raise StoreError(f"request failed: {error}", where=where) from error
    except aiohttp.ClientError as error:  # its text may hold the whole URL, query and all
        raise StoreError(f"request failed: {_detail(error)}", where=where) from error


def _detail(error: aiohttp.ClientError) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        return error.message.partition("\n")[0].rstrip(":")
    return type(error).__name__
