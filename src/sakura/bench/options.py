"""What a user of the demo may choose, and who watches it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sakura.bench.devices import DEFAULT_LIKE, LinkScale
from sakura.bench.tasks import TASKS
from sakura.events import Event
from sakura.store.trace import Trace

DEFAULT_TRACE = "ghent-car"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Choices of a demo run.

    Attributes:
        out: folder for pictures, page and report.
        trace: name of a shipped trace, or a CSV file.
        rtt_ms: round trip of the recorded network, before scaling.
        like: MODEL@DEVICE that the link is scaled like.
        repetitions: of every run; the median counts.
        floor_db: fidelity that SAKURA keeps against uncompressed state.
        tasks: which of the shipped edits.
    """

    out: Path = Path("out/demo")
    trace: str = DEFAULT_TRACE
    rtt_ms: float = 40.0
    like: str = DEFAULT_LIKE
    repetitions: int = 3
    floor_db: float = 40.0
    tasks: tuple[str, ...] = TASKS


@dataclass(frozen=True, slots=True)
class Link:
    """The recorded network and how it is scaled to this machine."""

    trace: Trace
    rtt_s: float
    scale: LinkScale


class Watch(Protocol):
    """Sees what the demo is doing, for a progress display."""

    def stage(self, text: str, fraction: float) -> None:
        """The demo does `text` and has come to `fraction` (0 to 1) of all its work."""

    def event(self, event: Event) -> None:
        """Something happened in a run; called from its threads."""
