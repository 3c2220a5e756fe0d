"""The process behind OriginProcess: first line of stdin is the root, end of file ends it."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING

from sakura.errors import SakuraError
from sakura.origin.serve import listen, make_server

if TYPE_CHECKING:
    import uvicorn


def main() -> None:
    """Serve until the parent closes our stdin."""
    config = json.loads(sys.stdin.readline() or sys.exit(0))
    try:
        listener = listen("127.0.0.1", 0)
        server = make_server(config["root"])
    except SakuraError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    threading.Thread(target=_stop_with_parent, args=(server,), daemon=True).start()
    server.run(sockets=[listener])


def _stop_with_parent(server: uvicorn.Server) -> None:
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    main()
