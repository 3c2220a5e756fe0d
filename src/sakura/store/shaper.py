"""A TCP proxy on loopback that lets bytes through when the link model says so.

It keeps virtual time: an event that is handled late (a busy machine) is charged at the moment it
was due, so lateness never accumulates, and a byte never arrives before the model allows it. It
shows rate, delay, sharing, outages and slow start; it cannot show loss or the kernel's own
congestion control.
"""

from __future__ import annotations

import heapq
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from sakura.store.link import Bottleneck, LinkModel
from sakura.store.sockets import READ, SOCKET_BUFFER, WRITE, Handler, Watch, reset_on_close, tune

_IDLE_RTTS = 4
_MAX_EVENTS_PER_STEP = 1000  # so that a storm of due events cannot starve the sockets


@dataclass(slots=True, eq=False)
class Connection:
    """One client connection and its twin to the origin."""

    client: socket.socket
    ready_s: float  # end of the TCP handshake
    window: int
    upstream: socket.socket | None = None
    queued: bytearray = field(default_factory=bytearray)  # waits for the bottleneck
    unwritten: bytearray = field(
        default_factory=bytearray
    )  # delivered, the client's socket is full
    upward: bytearray = field(default_factory=bytearray)  # the origin's socket is full
    num_in_flight: int = 0  # read from the origin, not acknowledged
    num_undelivered: int = 0  # read from the origin, not given to the client
    idle_since_s: float = 0.0
    is_gone: bool = False  # the client left
    is_ended: bool = False  # the origin closed its side


class Shaper:
    """One thread, one selector, one heap of events in virtual time."""

    def __init__(self, model: LinkModel, target: tuple[str, int]) -> None:
        self._model = model
        self._target = target
        self._way_s = model.rtt_s / 2
        self._limit = model.window_bytes
        self._order = count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._connections: set[Connection] = set()
        self._watch = Watch()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.setblocking(False)
        self._watch.want(self._listener, READ, self._accept)
        self._stats = {"num_connections": 0, "delivered_bytes": 0, "wasted_bytes": 0, "busy_s": 0.0}
        self._restarts = 0
        self.restart(time.monotonic())

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def listen_to(self, descriptor: int, handler: Handler) -> None:
        """Call `handler` whenever `descriptor` is readable."""
        self._watch.want(descriptor, READ, handler)

    def restart(self, now: float) -> None:
        """Put the trace back to its beginning; queued bytes of clients that left are forgotten."""
        self._restarts += 1
        self._start_s = now
        self._bottleneck = Bottleneck(self._model, now)
        self._stats.update(delivered_bytes=0, wasted_bytes=0, busy_s=0.0)
        for connection in self._connections:
            connection.window = self._first_window()
            if connection.queued and not connection.is_gone:
                self._offer(connection, len(connection.queued), now)

    def stats(self, now: float) -> dict[str, float]:
        """Counters since the last restart, and when that was (CLOCK_MONOTONIC)."""
        return self._stats | {"start_s": self._start_s, "elapsed_s": now - self._start_s}

    def step(self) -> None:
        """Run what is due, then wait for the next event or socket."""
        now = time.monotonic()
        for _ in range(_MAX_EVENTS_PER_STEP):
            if not self._events or self._events[0][0] > now:
                break
            due_s, _, action, arguments = heapq.heappop(self._events)
            action(due_s, *arguments)
        wait_s = max(0.0, self._events[0][0] - time.monotonic()) if self._events else None
        self._watch.wait(wait_s)

    def _at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        if time_s != float("inf"):
            heapq.heappush(self._events, (time_s, next(self._order), action, arguments))

    def _first_window(self) -> int:
        initial = self._model.initial_window
        return self._limit if initial is None else min(initial, self._limit)

    # --- client side ---

    def _accept(self, _mask: int) -> None:
        client, _ = self._listener.accept()
        tune(client)
        ready_s = time.monotonic() + self._model.rtt_s
        connection = Connection(client, ready_s, self._first_window())
        self._connections.add(connection)
        self._stats["num_connections"] += 1
        self._watch_client(connection)

    def _client_ready(self, connection: Connection, mask: int) -> None:
        now = time.monotonic()
        if mask & WRITE and not connection.is_gone:
            self._write_down(now, connection)
        if mask & READ and not connection.is_gone:
            self._read_client(now, connection)

    def _read_client(self, now: float, connection: Connection) -> None:
        try:
            data = connection.client.recv(SOCKET_BUFFER)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        leaves_s = max(now, connection.ready_s) + self._way_s
        if data:
            self._at(leaves_s, self._send_up, connection, data)
        else:
            self._client_left(connection)
            self._at(leaves_s, self._hang_up, connection)

    def _client_left(self, connection: Connection) -> None:
        """The client is gone now; the origin hears of it later, and what is queued still uses the
        link.
        """
        connection.is_gone = True
        connection.unwritten.clear()
        self._watch.close(connection.client)

    def _send_up(self, _due_s: float, connection: Connection, data: bytes) -> None:
        if connection.upstream is None and not connection.is_ended:
            try:
                connection.upstream = socket.create_connection(self._target, timeout=5.0)
            except OSError:
                self._refuse(connection)
                return
            tune(connection.upstream)
        connection.upward += data
        self._write_up(connection)

    def _write_up(self, connection: Connection) -> None:
        if connection.upstream is None:
            return
        try:
            del connection.upward[: connection.upstream.send(connection.upward)]
        except BlockingIOError:
            pass
        except OSError:
            connection.upward.clear()
        self._watch_upstream(connection, is_starved=True)

    def _hang_up(self, _due_s: float, connection: Connection) -> None:
        if connection.upstream is not None:
            self._watch.close(connection.upstream)
            connection.upstream = None
        connection.is_ended = True
        self._connections.discard(connection)

    def _refuse(self, connection: Connection) -> None:
        """Reset the client: the origin is not there."""
        if not connection.is_gone:
            reset_on_close(connection.client)
        self._client_left(connection)
        self._hang_up(0.0, connection)

    # --- origin side ---

    def _upstream_ready(self, connection: Connection, mask: int) -> None:
        if mask & WRITE:
            self._write_up(connection)
        if mask & READ:
            self._pull(time.monotonic(), connection)

    def _pull(self, at_s: float, connection: Connection) -> None:
        """Read what the window allows; the bytes reach the bottleneck at `at_s`."""
        idle_s = 0.0 if connection.num_in_flight else at_s - connection.idle_since_s
        if idle_s > _IDLE_RTTS * self._model.rtt_s:
            connection.window = self._first_window()
        while connection.upstream is not None and not connection.is_ended:
            room = connection.window - connection.num_in_flight
            if room <= 0:
                self._watch_upstream(connection, is_starved=False)
                return
            try:
                data = connection.upstream.recv(min(room, SOCKET_BUFFER))
            except BlockingIOError:
                self._watch_upstream(connection, is_starved=True)
                return
            except OSError:
                data = b""
            if not data:
                self._origin_ended(at_s, connection)
                return
            connection.num_in_flight += len(data)
            connection.num_undelivered += len(data)
            connection.queued += data
            self._offer(connection, len(data), at_s)

    def _origin_ended(self, at_s: float, connection: Connection) -> None:
        connection.is_ended = True
        self._watch_upstream(connection, is_starved=False)
        if connection.num_undelivered == 0 and not connection.unwritten:
            self._at(at_s + self._way_s, self._close_down, connection)

    # --- the link ---

    def _offer(self, connection: Connection, num_bytes: int, at_s: float) -> None:
        was_idle = self._bottleneck.current is None
        self._bottleneck.offer(connection, num_bytes, at_s)
        if was_idle:
            self._schedule_departure()

    def _schedule_departure(self) -> None:
        current = self._bottleneck.current
        if current is not None:
            self._at(current.time_s, self._depart, self._restarts)

    def _depart(self, due_s: float, restarts: int) -> None:
        if restarts != self._restarts:
            return  # scheduled on the link as it was before a restart
        gone = self._bottleneck.depart()
        connection = gone.flow
        assert isinstance(connection, Connection)
        data = bytes(connection.queued[: gone.num_bytes])
        del connection.queued[: gone.num_bytes]
        self._stats["busy_s"] += gone.time_s - gone.start_s
        self._stats["wasted_bytes" if connection.is_gone else "delivered_bytes"] += len(data)
        self._at(due_s + self._way_s, self._deliver, connection, data)
        self._schedule_departure()

    def _deliver(self, due_s: float, connection: Connection, data: bytes) -> None:
        connection.num_undelivered -= len(data)
        if not connection.is_gone:
            was_blocked = bool(connection.unwritten)
            connection.unwritten += data
            if not was_blocked:
                self._write_down(due_s, connection)

    def _write_down(self, at_s: float, connection: Connection) -> None:
        """Give the client what it takes; that part is acknowledged half a round trip later."""
        try:
            num_sent = connection.client.send(connection.unwritten) if connection.unwritten else 0
        except BlockingIOError:
            num_sent = 0
        except OSError:
            self._client_left(connection)
            self._at(at_s + self._way_s, self._hang_up, connection)
            return
        del connection.unwritten[:num_sent]
        self._watch_client(connection)
        if num_sent:
            self._at(at_s + self._way_s, self._acknowledge, connection, num_sent)
        if connection.is_ended and not connection.unwritten and connection.num_undelivered == 0:
            self._close_down(at_s, connection)

    def _acknowledge(self, due_s: float, connection: Connection, num_bytes: int) -> None:
        connection.num_in_flight -= num_bytes
        connection.idle_since_s = due_s
        if self._model.initial_window is not None:
            connection.window = min(self._limit, connection.window + num_bytes)
        self._pull(due_s, connection)

    def _close_down(self, due_s: float, connection: Connection) -> None:
        if not connection.is_gone:
            self._client_left(connection)
        self._hang_up(due_s, connection)

    # --- what to wait for ---

    def _watch_client(self, connection: Connection) -> None:
        mask = READ | (WRITE if connection.unwritten else 0)
        self._watch.want(connection.client, mask, partial(self._client_ready, connection))

    def _watch_upstream(self, connection: Connection, is_starved: bool) -> None:
        if connection.upstream is not None:
            mask = READ if is_starved and not connection.is_ended else 0
            mask |= WRITE if connection.upward else 0
            handler = partial(self._upstream_ready, connection)
            self._watch.want(connection.upstream, mask, handler)
