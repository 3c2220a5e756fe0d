"""A server that misbehaves, byte by byte: HttpReader reports it, and never returns wrong bytes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sakura.errors import NotFoundError, SakuraError, StaleError, StoreError
from sakura.store.http import HttpReader, HttpTimeouts
from tests.conformance.store import run

GOOD = (
    b"HTTP/1.1 206 x\r\nContent-Range: bytes 10-13/100\r\n"
    b'Content-Length: 4\r\nETag: "a"\r\n\r\nabcd'
)


@contextmanager
def answering(
    *pieces: bytes, hold: bool = False, asked: list[bytes] | None = None
) -> Iterator[str]:
    """A server that answers every request with `pieces`; `hold` keeps the connections open.

    The requests are appended to `asked`.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65536)
                if asked is not None:
                    asked.append(request)
                for piece in pieces:
                    connection.sendall(piece)
                if hold:
                    done.wait(60)

    server = threading.Thread(target=answer)
    server.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/a.skv"
    finally:
        done.set()
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        server.join(60)
        listener.close()


def test_good_answer_is_read() -> None:
    with answering(GOOD) as url:
        assert HttpReader(url).read(10, 14, '"a"') == b"abcd"


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        (b"206", b"404", NotFoundError, "no such object"),
        (b"206", b"410", NotFoundError, "no such object"),
        (b"206", b"412", StaleError, "changed"),
        (b"206", b"200", StoreError, "ignores byte ranges"),
        (b"206", b"403", StoreError, "refused"),
        (b"206", b"503", StoreError, "503"),
        (b"206", b"416", StoreError, "object has 100 bytes"),
        (b"10-13", b"10-14", StoreError, "Content-Range"),
        (b"10-13", b"11-14", StoreError, "Content-Range"),
        (b"13/100", b"12/100", StoreError, "Content-Range"),
        (b"13/100", b"13/*", StoreError, "Content-Range"),
        (b"Content-Range", b"Content-Other", StoreError, "Content-Range"),
        (b'"a"', b'"b"', StaleError, "changed"),
        (b"ETag", b"Etog", StaleError, "changed"),
        (b"ETag:", b"Content-Encoding: gzip\r\nETag:", StoreError, "compresses"),
        (b"HTTP/1.1", b"WHAT/1.1", StoreError, "failed"),
        (b"abcd", b"abc", StoreError, "ended inside"),
        (GOOD, b"", StoreError, "failed"),
    ],
)
def test_bad_answer_is_refused(old: bytes, new: bytes, kind: type[SakuraError], words: str) -> None:
    assert old in GOOD
    with answering(GOOD.replace(old, new, 1)) as url, pytest.raises(kind, match=words) as caught:
        HttpReader(url).read(10, 14, '"a"')
    assert type(caught.value) is kind


def test_range_cut_by_the_server_is_an_error() -> None:
    """Shorter than asked, though the object goes on: a proxy that answers what it likes."""
    cut = GOOD.replace(b"10-13", b"10-12").replace(b"Length: 4", b"Length: 3")[:-1]
    with answering(cut) as url, pytest.raises(StoreError, match="Content-Range"):
        HttpReader(url).read(10, 14)


def test_head_without_length_is_refused() -> None:
    with answering(b"HTTP/1.1 200 x\r\n\r\n") as url, pytest.raises(StoreError, match="Content-L"):
        HttpReader(url).stat()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(StoreError, match="cannot connect") as caught:
        HttpReader(f"http://127.0.0.1:{port}/a.skv").stat()
    assert caught.value.hint


def test_silent_server_times_out() -> None:
    with answering(hold=True) as url, pytest.raises(StoreError, match="timed out"):
        HttpReader(url, HttpTimeouts(silence_s=0.02)).read(0, 4)


def test_weak_etag_is_compared_but_not_sent() -> None:
    """If-Match never accepts a weak tag, so sending one would make every object look stale."""
    with answering(GOOD.replace(b'"a"', b'W/"a"')) as url:
        assert HttpReader(url).read(10, 14, 'W/"a"') == b"abcd"


@pytest.mark.parametrize("answer", [GOOD.replace(b"206", b"403"), b"nonsense", b""])
def test_presigned_query_is_sent_as_it_is_and_kept_out_of_messages(answer: bytes) -> None:
    asked: list[bytes] = []
    with answering(answer, asked=asked) as url, pytest.raises(StoreError) as caught:
        HttpReader(f"{url}?Signature=s3cret%2Fx%2B").read(0, 4)
    assert asked[0].startswith(b"GET /a.skv?Signature=s3cret%2Fx%2B HTTP/1.1\r\n")
    assert "s3cret" not in str(caught.value)


def test_pieces_come_before_the_range_is_whole() -> None:
    """The point of streaming: the server holds the rest back until the first piece was seen."""
    seen = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(GOOD[:-2])
            assert seen.wait(60)
            connection.sendall(GOOD[-2:])

    async def check() -> list[bytes]:
        reader = HttpReader(f"http://127.0.0.1:{listener.getsockname()[1]}/a.skv")
        pieces = []
        async for piece in reader.stream(10, 14):
            pieces.append(piece)
            seen.set()
        await reader.close()
        return pieces

    server = threading.Thread(target=answer)
    server.start()
    with listener:
        assert run(check()) == [b"ab", b"cd"]
        server.join(60)


def test_abandoned_transfer_closes_its_connection() -> None:
    """The server of an endless body sees the connection end after aclose."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            last = 10**12 - 1
            head = f"HTTP/1.1 206 x\r\nContent-Range: bytes 0-{last}/{last + 1}\r\n"
            connection.sendall(f"{head}Content-Length: {last + 1}\r\n\r\n".encode())
            try:
                while True:
                    connection.sendall(bytes(65536))
            except OSError:
                ended.set()

    async def check() -> None:
        reader = HttpReader(f"http://127.0.0.1:{listener.getsockname()[1]}/a.skv")
        transfer = reader.stream(0, 10**12)
        await anext(transfer)
        await transfer.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(ended.wait, 60)
        await reader.close()

    server = threading.Thread(target=answer)
    server.start()
    with listener:
        run(check())
        server.join(60)
