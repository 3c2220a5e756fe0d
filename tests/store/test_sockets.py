"""Waiting for sockets."""

from __future__ import annotations

import socket

import pytest

from sakura.store.sockets import READ, Watch


@pytest.mark.parametrize("timeout_s", [1e300, 1e18, 1e10, None])
def test_no_timeout_is_too_long(timeout_s: float | None) -> None:
    near, far = socket.socketpair()
    with near, far:
        seen: list[int] = []
        watch = Watch()
        watch.want(near, READ, seen.append)
        far.send(b"x")
        watch.wait(timeout_s)
        assert seen == [READ]
