"""A real shaped link. A busy machine makes bytes late: only what that cannot break is asserted."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sakura.errors import InputError, StoreError
from sakura.origin.serve import OriginProcess
from sakura.store.http import HttpReader
from sakura.store.link import LinkModel
from sakura.store.shaped import ShapedLink
from sakura.store.trace import Trace, load_trace
from tests.conformance.store import run

NUM_BYTES = 600_000
DATA = bytes(range(256)) * (NUM_BYTES // 256 + 1)
FAST = Trace.constant(200e6)

PARENT = """
import sys
from sakura.origin.serve import OriginProcess
from sakura.store.shaped import ShapedLink
from sakura.store.trace import Trace
with OriginProcess(sys.argv[1]) as origin, ShapedLink(origin.url, Trace.constant(1e6)) as link:
    print(origin.pid, link.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shaped")
    (folder / "a.skv").write_bytes(DATA)
    with OriginProcess(folder) as process:
        yield f"{process.url}/a.skv"


async def timed(url: str, start: int, stop: int) -> list[tuple[float, bytes]]:
    reader = HttpReader(url)
    pieces = [(time.monotonic(), piece) async for piece in reader.stream(start, stop)]
    await reader.close()
    return pieces


def assert_never_ahead(pieces: list[tuple[float, bytes]], link: ShapedLink, start_s: float) -> None:
    """By any moment, no more arrived than the trace carried until half a round trip before."""
    model, total = link.model, 0
    for at_s, piece in sorted(pieces, key=lambda one: one[0]):
        total += len(piece)
        assert total <= model.trace.bytes_by(at_s - start_s - model.rtt_s / 2, model.loop) + 1


@pytest.mark.parametrize(
    ("trace", "rtt_s"),
    [
        (Trace.constant(20e6), 0.02),
        (load_trace("ghent-car").scaled(time=0.01), 5e-4),
        (load_trace("5g-walk").scaled(time=0.006), 3e-4),
        (Trace.outage(40e6, 0.05, 0.05, 0.2), 0.01),
        (FAST, 0.0),
    ],
    ids=["steady", "compressed-100", "compressed-166", "outage", "no-delay"],
)
def test_bytes_are_right_and_never_ahead_of_the_trace(
    origin: str, trace: Trace, rtt_s: float
) -> None:
    with ShapedLink(origin, trace, rtt_s=rtt_s) as link:
        start_s = link.restart()
        pieces = run(timed(link.url, 0, NUM_BYTES))
        assert b"".join(piece for _, piece in pieces) == DATA[:NUM_BYTES]
        assert_never_ahead(pieces, link, start_s)
        assert link.stats()["delivered_bytes"] >= NUM_BYTES  # and the response's head


def test_link_was_busy_as_long_as_the_bytes_need(origin: str) -> None:
    """Charged time is virtual: exact however late this machine runs the shaper."""
    with ShapedLink(origin, Trace.constant(50e6), rtt_s=0.001) as link:
        run(timed(link.url, 0, NUM_BYTES))
        stats = link.stats()
        assert stats["busy_s"] == pytest.approx(stats["delivered_bytes"] * 8 / 50e6, rel=1e-9)
        assert stats["busy_s"] <= stats["elapsed_s"]


def test_first_byte_takes_two_round_trips(origin: str) -> None:
    """Handshake, then request and answer."""
    with ShapedLink(origin, FAST, rtt_s=0.05) as link:
        asked_s = time.monotonic()
        pieces = run(timed(link.url, 0, 100))
        assert pieces[0][0] - asked_s >= 0.1


def test_slow_start_needs_more_round_trips(origin: str) -> None:
    """Windows of 10, 20, 40, ... kB: 300 kB need five of them, one round trip apart."""

    async def seconds(url: str) -> float:
        reader = HttpReader(url)
        await reader.read_prefix(64)  # connects
        asked_s = time.monotonic()
        data = b"".join([piece async for piece in reader.stream(0, 300_000)])
        elapsed_s = time.monotonic() - asked_s
        await reader.close()
        assert data == DATA[:300_000]
        return elapsed_s

    model = LinkModel(Trace.constant(1e9), 0.05, initial_window=10_000)
    with ShapedLink(origin, model=model) as link:
        assert run(seconds(link.url)) >= (1 + 4) * 0.05


def test_connections_share_the_link(origin: str) -> None:
    async def together(url: str) -> list[list[tuple[float, bytes]]]:
        return await asyncio.gather(*(timed(url, i * 1000, i * 1000 + 100_000) for i in range(4)))

    with ShapedLink(origin, Trace.constant(40e6), rtt_s=0.002) as link:
        start_s = link.restart()
        parts = run(together(link.url))
        for i, part in enumerate(parts):
            assert b"".join(piece for _, piece in part) == DATA[i * 1000 : i * 1000 + 100_000]
        assert_never_ahead([piece for part in parts for piece in part], link, start_s)
        assert link.stats()["num_connections"] == 4


def test_restart_begins_the_trace_anew(origin: str) -> None:
    """A link that dies after 100 kB delivers again, for as long, after each restart."""
    trace = Trace((0.0, 0.1), (16e6, 0.0))
    with ShapedLink(origin, trace, rtt_s=0.0, loop=False) as link:
        for _ in range(2):
            start_s = link.restart()
            pieces = run(timed(link.url, 0, 10_000))
            assert_never_ahead(pieces, link, start_s)


def test_abandoned_bytes_still_use_the_link(origin: str) -> None:
    model = LinkModel(Trace.constant(8e6), 0.001, queue_s=0.2)

    async def abandon(url: str) -> None:
        reader = HttpReader(url)
        transfer = reader.stream(0, NUM_BYTES)
        await anext(transfer)
        await transfer.aclose()  # type: ignore[attr-defined]
        await reader.close()

    with ShapedLink(origin, model=model) as link:
        run(abandon(link.url))
        polls = 0
        while link.stats()["wasted_bytes"] == 0:  # every poll asks the other process
            polls += 1
            assert polls < 1_000_000
        assert link.stats()["wasted_bytes"] <= model.window_bytes


def test_dead_origin_resets_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ShapedLink(f"http://127.0.0.1:{port}", FAST, rtt_s=0.001) as link:
        with pytest.raises(StoreError):
            HttpReader(f"{link.url}/a.skv").stat()
        assert link.stats()["num_connections"] >= 1  # the shaper lives on


def test_slow_client_gets_everything(origin: str) -> None:
    """A client that does not read fills its socket; nothing is lost when it goes on."""
    with ShapedLink(origin, FAST, rtt_s=0.02) as link:
        port = int(link.url.rsplit(":", 1)[1].split("/")[0])
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
            client.connect(("127.0.0.1", port))
            client.sendall(b"GET /a.skv HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while link.stats()["delivered_bytes"] < 300_000:  # more than both sockets hold
                assert link.stats()["num_connections"] == 1
            received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.endswith(DATA)


def test_bad_links_are_refused() -> None:
    with pytest.raises(InputError):
        ShapedLink("https://127.0.0.1/", FAST)
    with pytest.raises(InputError):
        ShapedLink("http://127.0.0.1/")
    with pytest.raises(InputError):
        ShapedLink("http://127.0.0.1/", FAST, rtt_s=-1.0)


def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    """kill -9 leaves no time to clean up; the closed pipe has to do."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    with parent:
        assert parent.stdout is not None
        children = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        parent.send_signal(signal.SIGKILL)
    for child in children:
        assert select.select([child], [], [], 60)[0], "a child outlived its parent"
        os.close(child)


def test_guide_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = Path(__file__).parents[2] / "docs/guides/serving.md"
    block = re.search(r"```python\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    assert block is not None
    (tmp_path / "store").mkdir()
    monkeypatch.chdir(tmp_path)
    exec(compile(block[1], str(guide), "exec"), {})
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
