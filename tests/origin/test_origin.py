"""The origin over a socket: what it serves, what it hides, and that nginx agrees on ranges."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sakura.errors import SakuraError, StoreError
from sakura.origin.serve import OriginProcess, listen
from tests.origin.nginx import nginx_over

DATA = bytes(range(256)) * 1000
SECRET = b"outside the root"


@dataclass
class Answer:
    status: int
    body: bytes
    headers: http.client.HTTPMessage = field(repr=False)


def ask(base: str, target: str, method: str = "GET", **headers: str) -> Answer:
    """One request with the target exactly as written."""
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=60)
    connection.putrequest(method, target, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    answer = Answer(response.status, response.read(), response.headers)
    connection.close()
    return answer


def raw(base: str, request: bytes) -> bytes:
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outer = tmp_path_factory.mktemp("outer")
    root = outer / "root"
    (root / "deep").mkdir(parents=True)
    (root / "beach.skv").write_bytes(DATA)
    (root / "deep" / "dusk.skv").write_bytes(DATA[:500])
    (root / "empty.skv").write_bytes(b"")
    (root / "note.txt").write_bytes(b"note")
    (root / ".beach.skv.part").write_bytes(SECRET)
    (root / ".hidden.skv").write_bytes(SECRET)
    (outer / "secret.skv").write_bytes(SECRET)
    (outer / "root-twin").mkdir()
    (outer / "root-twin" / "secret.skv").write_bytes(SECRET)
    (root / "leak.skv").symlink_to(outer / "secret.skv")
    (root / "leaks").symlink_to(outer)
    (root / "inside.skv").symlink_to(root / "beach.skv")
    (root / "loop.skv").symlink_to(root / "loop.skv")
    os.mkfifo(root / "pipe.skv")
    return root


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    with OriginProcess(folder) as origin:
        yield origin.url


def test_whole_object(base: str) -> None:
    answer = ask(base, "/beach.skv")
    assert (answer.status, answer.body) == (200, DATA)
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert "immutable" in answer.headers["Cache-Control"]
    assert answer.headers["ETag"].startswith('"')
    assert ask(base, "/deep/dusk.skv").body == DATA[:500]
    assert ask(base, "/inside.skv").body == DATA


def test_range(base: str) -> None:
    answer = ask(base, "/beach.skv", Range="bytes=1000-70999")
    assert (answer.status, answer.body) == (206, DATA[1000:71_000])
    assert answer.headers["Content-Range"] == f"bytes 1000-70999/{len(DATA)}"
    assert answer.headers["Content-Length"] == "70000"


def test_head_tells_what_get_would(base: str) -> None:
    head = ask(base, "/beach.skv", "HEAD", Range="bytes=0-9")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(DATA))
    assert head.headers["ETag"] == ask(base, "/beach.skv").headers["ETag"]


def test_unsatisfiable_range(base: str) -> None:
    answer = ask(base, "/beach.skv", Range="bytes=999999-")
    assert (answer.status, answer.headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")


def test_conditions(base: str) -> None:
    etag = ask(base, "/beach.skv", "HEAD").headers["ETag"]
    fresh = ask(base, "/beach.skv", If_None_Match=etag)
    assert (fresh.status, fresh.body, fresh.headers["ETag"]) == (304, b"", etag)
    assert ask(base, "/beach.skv", If_Match='"old"', Range="bytes=0-9").status == 412
    assert ask(base, "/beach.skv", If_Match=etag, Range="bytes=0-9").body == DATA[:10]
    assert ask(base, "/beach.skv", If_Range=etag, Range="bytes=0-9").body == DATA[:10]
    assert ask(base, "/beach.skv", If_Range='"old"', Range="bytes=0-9").body == DATA


def test_etag_changes_with_the_content(base: str, folder: Path) -> None:
    """Same size, replaced by rename within one clock tick of the file system."""
    tags = set()
    for turn in range(5):
        (folder / "new.part").write_bytes(b"%d" % turn)
        os.replace(folder / "new.part", folder / "turns.skv")
        tags.add(ask(base, "/turns.skv", "HEAD").headers["ETag"])
    (folder / "turns.skv").unlink()
    assert len(tags) == 5


def test_keep_alive_connection_serves_again(base: str) -> None:
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=60)
    for target, status in [("/beach.skv", 200), ("/none", 404), ("/v1/templates", 200)]:
        connection.request("GET", target)
        response = connection.getresponse()
        assert response.status == status
        response.read()
    connection.close()


@pytest.mark.parametrize(
    "target",
    [
        "/", "//", "/deep", "/deep/", "/none.skv", "/.hidden.skv", "/.beach.skv.part",
        "/../secret.skv", "/deep/../../secret.skv", "/%2e%2e/secret.skv", "/..%2fsecret.skv",
        "/%2e%2e%2fsecret.skv", "/%252e%252e/secret.skv", "/deep/..%5c..%5csecret.skv",
        "/..\\secret.skv", "//secret.skv", "/./beach.skv", "/deep//dusk.skv", "/beach.skv/",
        "/beach.skv/x", "/beach.skv%00", "/%00", "/beach.skv%00.txt", "/leak.skv",
        "/leaks/secret.skv", "/leaks/root-twin/secret.skv", "/loop.skv", "/pipe.skv",
        "/../root-twin/secret.skv", "/%ff%fe.skv", "/%ed%a0%80", "/" + "a" * 300, "/" + "a/" * 2000,
        "/C:/secret.skv", "/~root", "/beach.skv;x", "/%",
    ],
)  # fmt: skip
def test_nothing_but_objects(base: str, target: str) -> None:
    answer = ask(base, target)
    assert answer.status == 404
    assert SECRET not in answer.body


def test_absolute_paths_do_not_leave(base: str, folder: Path) -> None:
    outside = folder.parent / "secret.skv"
    for target in (f"/{outside}", f"{outside}", f"/%2f{str(outside)[1:]}"):
        answer = ask(base, target)
        assert answer.status == 404
        assert SECRET not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
def test_read_only(base: str, method: str) -> None:
    for target in ("/beach.skv", "/v1/templates", "/new.skv"):
        answer = ask(base, target, method)
        assert answer.status == 405
        assert "GET" in answer.headers["Allow"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    path=st.binary(max_size=40),
    name=st.sampled_from(
        [b"Range", b"If-Match", b"If-Range", b"If-None-Match", b"Origin", b"Host"]
    ),
    value=st.binary(max_size=40),
)
def test_no_input_makes_a_server_error(base: str, path: bytes, name: bytes, value: bytes) -> None:
    request = b"GET /" + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    answer = raw(base, request + name + b": " + value + b"\r\n\r\n")
    assert not answer.startswith(b"HTTP/1.1 5")
    assert SECRET not in answer


def test_browsers_may_read(base: str) -> None:
    answer = ask(base, "/beach.skv", Origin="https://example.org", Range="bytes=0-9")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    exposed = answer.headers["Access-Control-Expose-Headers"]
    assert {"ETag", "Content-Range", "Accept-Ranges"} <= set(exposed.split(", "))
    preflight = ask(base, "/beach.skv", "OPTIONS", Access_Control_Request_Headers="range,if-match")
    assert preflight.status == 204
    allowed = preflight.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {"range", "if-match", "if-range"} <= set(allowed)
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    assert ask(base, "/none").headers["Access-Control-Allow-Origin"] == "*"


def test_templates_are_listed(base: str) -> None:
    answer = ask(base, "/v1/templates")
    found = {entry["name"]: entry for entry in json.loads(answer.body)["templates"]}
    assert sorted(found) == ["beach", "deep/dusk", "empty", "inside"]
    assert found["deep/dusk"]["object"] == "deep/dusk.skv"
    assert found["deep/dusk"]["num_bytes"] == 500
    etag = ask(base, "/beach.skv", "HEAD").headers["ETag"]
    assert found["beach"]["etag"] == etag
    assert str(Path.cwd().anchor + "tmp") not in answer.body.decode()


def test_health_and_metrics(folder: Path) -> None:
    with OriginProcess(folder) as origin:
        assert ask(origin.url, "/healthz").body == b"ok\n"
        ask(origin.url, "/beach.skv", Range="bytes=0-99")
        ask(origin.url, "/none")
        ask(origin.url, "/none", "BREW")
        lines = ask(origin.url, "/metrics").body.decode().splitlines()
    assert 'sakura_origin_requests_total{method="GET",status="206"} 1' in lines
    assert 'sakura_origin_requests_total{method="GET",status="404"} 1' in lines
    assert 'sakura_origin_requests_total{method="other",status="405"} 1' in lines
    # "ok", 100 bytes of the object, and two short messages
    assert "sakura_origin_body_bytes_total 128" in lines
    assert "sakura_origin_requests_in_flight 1" in lines  # the one that asked


def test_missing_root_is_explained(tmp_path: Path) -> None:
    with pytest.raises(SakuraError, match="no such folder"):
        OriginProcess(tmp_path / "none")


def test_taken_port_is_explained() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(StoreError, match="cannot") as caught:
        listen("127.0.0.1", taken.getsockname()[1])
    assert caught.value.hint
    with pytest.raises(StoreError):
        listen("127.0.0.1", 99_999)


def test_accepted_sockets_hold_little_unsent() -> None:
    """Lets a client's change of mind take effect fast; inherited from the listener on Linux."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            held = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
    assert held == 65536


RANGES = [
    "bytes=0-0", "bytes=0-", "bytes=5-9", "bytes=-7", "bytes=-999999999", "bytes=70000-140000",
    "bytes=255999-255999", "bytes=0-999999999", "bytes=256000-", "bytes=999999-1000000",
]  # fmt: skip


def test_nginx_answers_the_same(
    base: str, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A bundle folder needs no server of ours: the same requests, the same answers."""
    with nginx_over(folder, tmp_path_factory.mktemp("nginx-run")) as other:
        for text in RANGES:
            ours = ask(base, "/beach.skv", Range=text)
            theirs = ask(other, "/beach.skv", Range=text)
            assert ours.status == theirs.status, text
            if ours.status == 206:
                assert ours.body == theirs.body
                for name in ("Content-Range", "Content-Length"):
                    assert ours.headers[name] == theirs.headers[name]
        for header in ("If_Match", "If_Range", "If_None_Match"):
            for known in (True, False):
                statuses = []
                for server in (base, other):
                    etag = ask(server, "/beach.skv", "HEAD").headers["ETag"]
                    value = etag if known else '"old"'
                    answer = ask(server, "/beach.skv", Range="bytes=0-9", **{header: value})
                    statuses.append(answer.status)
                assert statuses[0] == statuses[1], (header, known)
        for target in ("/.hidden.skv", "/none.skv", "/../secret.skv"):
            assert ask(other, target).status in (400, 404)
        theirs = ask(other, "/beach.skv", Range="bytes=0-1,4-5")
        assert (theirs.status, theirs.body) == (200, DATA)
        assert theirs.headers["Access-Control-Allow-Origin"] == "*"
