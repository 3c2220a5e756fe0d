"""One line of live progress on stderr, on a terminal only; what it is told it only notes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from sakura.events import Event
from sakura.units import format_rate

if TYPE_CHECKING:
    from rich.text import Text

_REFRESH_PER_S = 5
_BAR = 24


class Live:
    """Context manager. `stage` and `event` only note what they are told; a timer draws it.

    Args:
        quiet: show nothing, terminal or not.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._open = ExitStack()
        self._text, self._fraction = "", 0.0
        self._run: dict[str, str] = {}

    def stage(self, text: str, fraction: float) -> None:
        """The work has come to `text`, and to `fraction` (0 to 1) of all there is to do."""
        self._text, self._fraction = text, fraction
        self._run = {}

    def event(self, event: Event) -> None:
        """Something happened in a run; safe from any thread."""
        data = event.data
        if event.kind == "block":
            level = data.get("level")
            self._run["step"] = f"step {data['step']}"
            self._run["block"] = f"block {data['block']}"
            computed = data["mode"] == "compute"
            self._run["level"] = "computed" if computed else f"level {level}"
        elif event.kind == "throughput":
            self._run["throughput"] = format_rate(data["bps"])
        elif event.kind == "buffer":
            self._run["buffer"] = f"buffer {data['buffer_s'] * 1e3:.0f} ms"

    def render(self) -> Text:
        """The line as it is now; during a run, what it does stands below."""
        from rich.text import Text

        done = round(_BAR * min(max(self._fraction, 0.0), 1.0))
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append("━" * done, "magenta").append("━" * (_BAR - done), "dim")
        line.append(f" {self._fraction:4.0%} ").append(self._text, "bold")
        order = ("step", "block", "level", "throughput", "buffer")
        parts = [self._run[name] for name in order if name in self._run]
        return line.append("\n" + " · ".join(parts) if parts else "")

    def __enter__(self) -> Self:
        if self._shown:
            from rich.console import Console
            from rich.live import Live as RichLive

            display = RichLive(
                get_renderable=self.render,
                console=Console(stderr=True),
                refresh_per_second=_REFRESH_PER_S,
                transient=True,
            )
            self._open.enter_context(display)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
