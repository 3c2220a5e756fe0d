"""Runs the origin: in this process (`serve`) or in a child of it (`OriginProcess`)."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sakura.errors import StoreError
from sakura.origin.folder import Folder
from sakura.store.child import ChildHost, ChildProcess
from sakura.units import KIB

if TYPE_CHECKING:
    import uvicorn

# Unsent bytes the kernel may hold per connection: what a client abandons is then still in our
# hands.
_UNSENT_BYTES = 64 * KIB
_DRAIN_S = 1


def serve(root: str | Path, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Serve folder `root` until interrupted. Raises StoreError where it cannot."""
    listener = listen(host, port)
    bound_host, bound_port = listener.getsockname()[:2]
    server = make_server(root)
    print(f"serving {root} on http://{bound_host}:{bound_port}", file=sys.stderr)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        return  # uvicorn re-raises Ctrl-C after a clean shutdown


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    hint = "choose another port, or 0 for any free one"
    if not 0 <= port <= 65535:
        raise StoreError(f"{port} is no port number", hint=hint)
    try:
        listener = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise StoreError(f"cannot listen: {error}", where=f"{host}:{port}", hint=hint) from error
    with suppress(AttributeError):  # not on every system; accepted sockets inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    return listener


def make_server(root: str | Path) -> uvicorn.Server:
    """A uvicorn server over `root` that logs to stderr and ends within a second or two."""
    try:
        import uvicorn

        from sakura.origin.app import create_app
    except ImportError as error:
        hint = 'pip install "sakura-kv[serve]"'
        raise StoreError("the origin needs Starlette and uvicorn", hint=hint) from error
    config = uvicorn.Config(
        create_app(root),
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    return uvicorn.Server(config)


class OriginProcess(ChildHost):
    """Context manager: an origin over `root` in a process of its own, on a free loopback port."""

    def __init__(self, root: str | Path) -> None:
        Folder(root)  # complains here, not in the child
        super().__init__()
        self._root = Path(root).resolve()

    @property
    def url(self) -> str:
        """Base URL; append `/NAME.skv`."""
        return f"http://127.0.0.1:{self._running.ready['port']}"

    def _start(self) -> ChildProcess:
        return ChildProcess("sakura.origin.process", {"root": str(self._root)})
