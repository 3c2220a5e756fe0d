"""Non-blocking sockets and who is called when one is ready, with timeouts in microseconds."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable

from sakura.units import KIB

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
SOCKET_BUFFER = 64 * KIB
LONGEST_NAP_S = 60.0
"""The system has a longest timeout; callers ask again."""

Handler = Callable[[int], None]  # takes READ, WRITE or both


class Watch:
    """Calls handlers of ready sockets. By select: epoll rounds timeouts up to a millisecond."""

    def __init__(self) -> None:
        self._selector = selectors.SelectSelector()

    def want(self, source: socket.socket | int, mask: int, handler: Handler) -> None:
        """From now on call `handler` when `source` is ready for `mask`; 0 stops that."""
        known = self._selector.get_map().get(source)
        if known is None and mask:
            self._selector.register(source, mask, handler)
        elif known is not None and not mask:
            self._selector.unregister(source)
        elif known is not None and known.events != mask:
            self._selector.modify(source, mask, handler)

    def close(self, sock: socket.socket) -> None:
        """Stop watching `sock` and close it."""
        if sock in self._selector.get_map():
            self._selector.unregister(sock)
        sock.close()

    def wait(self, timeout_s: float | None) -> None:
        """Call the handlers of what becomes ready within `timeout_s`, at most `LONGEST_NAP_S`."""
        nap_s = None if timeout_s is None else min(timeout_s, LONGEST_NAP_S)
        for key, mask in self._selector.select(nap_s):
            key.data(mask)


def tune(sock: socket.socket) -> None:
    """Small buffers, so that bytes wait in the model's queue and not in the kernel's."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER)


def reset_on_close(sock: socket.socket) -> None:
    """Make `close` send a reset: the peer sees an error, not an empty answer."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
