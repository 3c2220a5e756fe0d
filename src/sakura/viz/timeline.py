"""One run as a picture: network, decode and execute lanes, stalls, throughput, level, buffer.

Drawn from the event log alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sakura.errors import InputError
from sakura.events import Event
from sakura.store.writer import put_atomic
from sakura.units import BPS_PER_MBPS
from sakura.viz import lanes
from sakura.viz.lanes import Bar, Curve

FETCH, FAILED, STALL, COMPUTE = "#3b82f6", "#f59e0b", "#dc2626", "#64748b"
LEVELS = ("#f9c6db", "#f08db8", "#d94a8c", "#9d1f5e")
"""Colour of level 0 to 3, and of anything above."""
INK, FAINT = "#1f2937", "#d1d5db"
_DPI = 130


@dataclass(frozen=True, slots=True)
class _Row:
    """One axis of the figure: its label and its share of the height."""

    name: str
    height: float


ROWS = (
    _Row("network", 1.3),
    _Row("decode", 0.9),
    _Row("execute", 1.0),
    _Row("throughput\nMbit/s", 1.0),
    _Row("level", 0.8),
    _Row("buffer\nms", 0.8),
)


def write_timeline(path: str | Path, events: Sequence[Event], title: str = "") -> None:
    """Draw a run into a PNG file.

    Args:
        path: of the picture; written whole or not at all.
        events: of one run, in order.
        title: first line of the picture.

    Raises:
        InputError: matplotlib is missing, or there is nothing to draw.
    """
    put_atomic(path, [timeline_png(events, title)])


def timeline_png(events: Sequence[Event], title: str = "") -> bytes:
    """The PNG file that `write_timeline` writes."""
    if not events:
        raise InputError("the event log is empty", hint="give a log written by --events")
    figure, axes = _figure()
    network, decode, execute, throughput, level, buffer = axes
    duration_s = max(lanes.end_s(events), 1e-6)
    fetches = lanes.fetch_bars(events)
    draw_bars(network, fetches)
    for fault_s in lanes.fault_times(events):
        network.axvline(fault_s, color=STALL, lw=1.2)
    layers = lanes.decode_bars(events)
    draw_bars(decode, layers)
    blocks, stalls = lanes.block_bars(events), lanes.stall_bars(events)
    draw_bars(execute, [*blocks, *stalls])
    mark_steps(execute, lanes.step_starts(events))
    draw_curve(
        throughput, lanes.curve(events, "throughput", "bps", 1 / BPS_PER_MBPS), duration_s, FETCH
    )
    draw_levels(level, lanes.level_curve(events), duration_s)
    draw_curve(buffer, lanes.curve(events, "buffer", "buffer_s", 1e3), duration_s, "#0f766e")
    for axis in axes:
        for stall in stalls:
            axis.axvspan(stall.start_s, stall.end_s, color=STALL, alpha=0.08, lw=0, zorder=0)
    axes[-1].set_xlim(0, duration_s * 1.01)
    axes[-1].set_xlabel("seconds since the edit began", color=INK)
    figure.suptitle(title or _title(events), x=0.11, ha="left", fontsize=11, color=INK)
    add_legend(figure, [*fetches, *layers, *blocks, *stalls])
    buffer_file = io.BytesIO()
    figure.savefig(buffer_file, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer_file.getvalue()


def _figure() -> tuple[Any, list[Any]]:
    """A figure with one axis per row, all over the same seconds."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = 'pip install "sakura-kv[viz]"'
        raise InputError("timelines need matplotlib", hint=hint) from error
    figure = Figure(figsize=(10, 6.2), facecolor="white")
    FigureCanvasAgg(figure)
    grid = {"height_ratios": [row.height for row in ROWS], "hspace": 0.18}
    grid |= {"left": 0.11, "right": 0.985, "top": 0.885, "bottom": 0.08}
    axes = list(figure.subplots(len(ROWS), 1, sharex=True, gridspec_kw=grid))
    for axis, row in zip(axes, ROWS, strict=True):
        place = {"xy": (0, 0.5), "xycoords": "axes fraction", "textcoords": "offset points"}
        axis.annotate(row.name, xytext=(-22, 0), ha="right", va="center", fontsize=9, **place)
        axis.tick_params(labelsize=8, colors=INK, length=2)
        axis.spines[["top", "right"]].set_visible(False)
        axis.spines[["left", "bottom"]].set_color(FAINT)
        axis.grid(axis="x", color=FAINT, lw=0.5, alpha=0.6)
        axis.set_axisbelow(True)
    return figure, axes


def color_of(bar: Bar) -> str:
    """What colour a bar has; shades of one colour are levels."""
    if bar.kind in ("inject", "decode"):
        return LEVELS[min(max(round(bar.level or 0), 0), len(LEVELS) - 1)]
    return {"fetch": FETCH, "failed": FAILED, "stall": STALL}.get(bar.kind, COMPUTE)


def draw_bars(axis: Any, bars: Sequence[Bar]) -> None:
    """Draw bars in their lanes, first lane on top."""
    num_lanes = 1 + max((bar.lane for bar in bars), default=0)
    for bar in bars:
        axis.broken_barh(
            [(bar.start_s, bar.end_s - bar.start_s)],
            (bar.lane + 0.08, 0.84),
            facecolor=color_of(bar),
            edgecolor="white",
            lw=0.3,
        )
    axis.set_ylim(num_lanes, 0)
    axis.set_yticks([])
    if not bars:
        axis.text(
            *(0.5, 0.5), "none", transform=axis.transAxes, ha="center", va="center", color=COMPUTE
        )


def mark_steps(axis: Any, steps: Sequence[tuple[int, float]]) -> None:
    """Number the steps above the execute lane."""
    for step, start_s in steps:
        axis.axvline(start_s, color=INK, lw=0.8)
        axis.annotate(
            str(step),
            (start_s, 1),
            xytext=(2, 1),
            textcoords="offset points",
            xycoords=("data", "axes fraction"),
            fontsize=7,
            color=INK,
        )


def draw_curve(axis: Any, curve: Curve, duration_s: float, color: str) -> None:
    """Draw a step function up to the end of the run, from 0 upwards."""
    if curve.times_s:
        times, values = [*curve.times_s, duration_s], [*curve.values, curve.values[-1]]
        axis.step(times, values, where="post", color=color, lw=1.4)
        axis.fill_between(times, values, step="post", color=color, alpha=0.12, lw=0)
    top = max(curve.values, default=0.0)
    axis.set_ylim(0, top * 1.15 if top > 0 else 1)


def draw_levels(axis: Any, curve: Curve, duration_s: float) -> None:
    """Draw the level of each injected block as a dot; computed blocks leave gaps."""
    axis.scatter(curve.times_s, curve.values, s=9, color=LEVELS[2], lw=0, clip_on=False)
    top = max(3.0, *curve.values) if curve.values else 3.0
    axis.set_ylim(-0.4, top + 0.4)
    axis.set_yticks(range(round(top) + 1))


def add_legend(figure: Any, bars: Sequence[Bar]) -> None:
    """Name the colours that occur."""
    from matplotlib.patches import Patch

    kinds = {bar.kind for bar in bars}
    patches = [Patch(color=FETCH, label="fetch")] if "fetch" in kinds else []
    if "failed" in kinds:
        patches.append(Patch(color=FAILED, label="fetch, cut short"))
    if "compute" in kinds:
        patches.append(Patch(color=COMPUTE, label="all tokens computed"))
    levels = {round(bar.level or 0) for bar in bars if bar.kind in ("inject", "decode")}
    patches += [
        Patch(color=color, label=f"level {index}")
        for index, color in enumerate(LEVELS)
        if index in levels
    ]
    if "stall" in kinds:
        patches.append(Patch(color=STALL, label="stall"))
    figure.legend(
        handles=patches,
        loc="upper right",
        bbox_to_anchor=(0.99, 0.95),
        ncols=len(patches),
        fontsize=7.5,
        frameon=False,
        handlelength=1,
        columnspacing=1.2,
    )


def _title(events: Sequence[Event]) -> str:
    """A title from the log itself."""
    start = next((event.data for event in events if event.kind == "run_start"), {})
    parts = [str(start[key]) for key in ("task", "policy") if key in start]
    return " · ".join([*parts, f"{lanes.end_s(events):.3f} s"])
