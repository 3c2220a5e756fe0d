"""An event log as bars and curves: which interval belongs in which lane. Pure; draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sakura.events import Event


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted from `start_s` to `end_s`.

    Attributes:
        kind: fetch | failed | decode | compute | inject | stall.
        level: of a layer that was decoded or a block that was injected, otherwise None.
        lane: row of the bar among those that overlap it, from 0.
    """

    start_s: float
    end_s: float
    kind: str
    level: float | None = None
    lane: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """A step function: `values[i]` holds from `times_s[i]` on."""

    times_s: tuple[float, ...]
    values: tuple[float, ...]


def end_s(events: Sequence[Event]) -> float:
    """When the run ended: at `run_end`, or with the last event of a log that was cut short."""
    ends = [event.t_s for event in events if event.kind == "run_end"]
    return ends[-1] if ends else max((event.t_s for event in events), default=0.0)


def fetch_bars(events: Sequence[Event]) -> list[Bar]:
    """One bar per range; one that was still open at the end of the run ends there."""
    starts: dict[int, float] = {}
    bars: list[Bar] = []
    for event in events:
        if event.kind == "fetch_start":
            starts[event.data["fetch"]] = event.t_s
        elif event.kind == "fetch_end" and event.data["fetch"] in starts:
            kind = "fetch" if event.data.get("ok", True) else "failed"
            bars.append(Bar(starts.pop(event.data["fetch"]), event.t_s, kind))
    last = end_s(events)
    bars += [Bar(start, max(start, last), "fetch") for start in starts.values()]
    return stacked(bars)


def decode_bars(events: Iterable[Event]) -> list[Bar]:
    """One bar per decoded layer."""
    return stacked(
        Bar(event.data["start_s"], event.t_s, "decode", event.data["level"])
        for event in events
        if event.kind == "decode"
    )


def block_bars(events: Iterable[Event]) -> list[Bar]:
    """One bar per executed block, kind `compute` or `inject`."""
    return [
        Bar(event.data["start_s"], event.t_s, event.data["mode"], event.data.get("level"))
        for event in events
        if event.kind == "block"
    ]


def stall_bars(events: Iterable[Event]) -> list[Bar]:
    """One bar per wait of the executor."""
    return [
        Bar(event.data["start_s"], event.t_s, "stall") for event in events if event.kind == "stall"
    ]


def step_starts(events: Iterable[Event]) -> list[tuple[int, float]]:
    """(step, when it began)."""
    return [(event.data["step"], event.data["start_s"]) for event in events if event.kind == "step"]


def stacked(bars: Iterable[Bar]) -> list[Bar]:
    """The bars by start time, each in the first lane that is free by then."""
    free_s: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda bar: (bar.start_s, bar.end_s)):
        lane = next((i for i, time_s in enumerate(free_s) if time_s <= bar.start_s), len(free_s))
        free_s[lane:] = [bar.end_s, *free_s[lane + 1 :]]
        placed.append(replace(bar, lane=lane))
    return placed


def curve(events: Iterable[Event], kind: str, key: str, scale: float = 1.0) -> Curve:
    """A number that events of one kind carry, over time."""
    points = [(event.t_s, event.data[key] * scale) for event in events if event.kind == kind]
    return Curve(tuple(t for t, _ in points), tuple(v for _, v in points))


def level_curve(events: Iterable[Event]) -> Curve:
    """Level of the injected blocks over time."""
    bars = [bar for bar in block_bars(events) if bar.kind == "inject" and bar.level is not None]
    return Curve(tuple(bar.start_s for bar in bars), tuple(float(bar.level or 0) for bar in bars))


def fault_times(events: Iterable[Event]) -> list[float]:
    """When a fetch failed, or bytes or a layer were refused."""
    return [event.t_s for event in events if event.kind == "fault"]
