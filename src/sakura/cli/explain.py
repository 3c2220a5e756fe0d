"""Why a run went as it did: its decisions with their reasons, as a table or as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sakura.cli.text import table
from sakura.events import Event

HEADERS = ("ms", "step", "block", "action", "reason")


def decisions(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Every decision of a run, in order."""
    return [{"t_s": e.t_s, **e.data} for e in events if e.kind == "decision"]


def explain(events: Iterable[Event]) -> str:
    """The same as a table; a run without decisions was made on the device alone."""
    rows = [
        (
            f"{row['t_s'] * 1e3:.1f}",
            str(row["step"]),
            str(row["block"]),
            row["action"],
            row["reason"],
        )
        for row in decisions(events)
    ]
    if not rows:
        return "no decisions: everything was computed on the device"
    return table(HEADERS, rows, num_left=5)
