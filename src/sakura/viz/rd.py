"""Rate-distortion curves as a picture: bits per element across, fidelity up."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sakura.errors import InputError
from sakura.store.writer import put_atomic

OURS_COLOUR, INK, FAINT = "#d94a8c", "#1f2937", "#d1d5db"
OTHERS = ("#3b82f6", "#f59e0b", "#16a34a", "#7c3aed", "#0891b2", "#64748b", "#a16207", "#dc2626")
_MARKERS = "os^Dv<>P"
_DPI = 110

Curve = Sequence[tuple[float, float]]
"""Bits per element and decibels of each point."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts of the picture."""

    title: str
    quality: str
    across: str = "bits per element of K and V, headers and tables counted"


def write_curves(path: str | Path, curves: Mapping[str, Curve], ours: str, labels: Labels) -> None:
    """Draw curves into a PNG file, written whole or not at all.

    Args:
        path: of the picture.
        curves: by codec; those without points are left out.
        ours: name whose curves, and those that begin with it, stand out.
        labels: texts.

    Raises:
        InputError: matplotlib is missing, or there is nothing to draw.
    """
    put_atomic(path, [curves_png(curves, ours, labels)])


def curves_png(curves: Mapping[str, Curve], ours: str, labels: Labels) -> bytes:
    """The picture of `write_curves`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("plots need matplotlib", hint='pip install "sakura-kv[viz]"') from error
    drawn = {name: curve for name, curve in curves.items() if curve}
    if not drawn:
        raise InputError("no curve has a point to draw")
    figure = Figure(figsize=(9.5, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    others = [name for name in drawn if not name.startswith(ours)]
    for name, curve in drawn.items():
        is_ours = name.startswith(ours)
        place = 0 if is_ours else others.index(name)
        axes.plot(
            *zip(*curve, strict=True),
            label=name,
            color=OURS_COLOUR if is_ours else OTHERS[place % len(OTHERS)],
            linestyle="--" if is_ours and name != ours else "-",
            linewidth=2.4 if is_ours else 1.3,
            marker="o" if is_ours else _MARKERS[place % len(_MARKERS)],
            markersize=5,
        )
    axes.set_xscale("log")
    axes.set_xlabel(labels.across, color=INK)
    axes.set_ylabel(labels.quality, color=INK)
    axes.set_title(labels.title, color=INK, loc="left")
    axes.grid(True, which="major", color=FAINT, linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI)
    return out.getvalue()
