"""The shaper's process: `python -m sakura.store.shape_process`, driven by JSON lines on stdin.

First line: the link. Then `{"do": "restart"}` or `{"do": "stats"}`. End of file ends the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

from sakura.store.link import LinkModel
from sakura.store.shaper import Shaper
from sakura.store.trace import Trace

_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1000


class Control:
    """Reads commands from the parent; `is_open` turns false when the parent is gone."""

    def __init__(self, shaper: Shaper) -> None:
        self._shaper = shaper
        self._rest = b""
        self.is_open = True

    def readable(self, _mask: int) -> None:
        """Take what the pipe holds and answer every whole line."""
        data = os.read(sys.stdin.fileno(), 65536)
        if not data:
            self.is_open = False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            _answer(self._obey(json.loads(line)))

    def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if command.get("do") == "restart":
            self._shaper.restart(time.monotonic())
        elif command.get("do") != "stats":
            return {"error": f"unknown command {command}"}
        return self._shaper.stats(time.monotonic())


def model_from(config: dict[str, Any]) -> LinkModel:
    """The link that a parent described."""
    trace = Trace(
        tuple(config["times_s"]), tuple(config["rates_bps"]), config["name"], config["duration_s"]
    )
    return LinkModel(
        trace, config["rtt_s"], config["loop"], config["queue_s"], config["initial_window"]
    )


def main() -> None:
    """Serve one link until the parent closes our stdin."""
    _sharpen_timers()
    config = json.loads(_read_line())
    shaper = Shaper(model_from(config), (config["host"], config["port"]))
    control = Control(shaper)
    shaper.listen_to(sys.stdin.fileno(), control.readable)
    _answer({"port": shaper.port})
    while control.is_open:
        shaper.step()


def _read_line() -> bytes:
    line = b""  # byte by byte: what follows belongs to Control
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _sharpen_timers() -> None:
    """Wake up within microseconds of a deadline where the kernel (Linux) can be asked to; 50 us is
    its default.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)


if __name__ == "__main__":
    main()
