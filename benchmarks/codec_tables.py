"""Tables of `codec_baselines.py` in Markdown, from its JSON.

python benchmarks/codec_tables.py docs/results/codec_baselines.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

OURS = "sakura"
DEFAULT = "41/50 dB, "
"""Points of the bundle that the packager writes by default."""
PLAIN = ("int8", "int4", "bf16", "bf16+zstd")
"""Codecs with one point."""


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def size_text(num_bytes: float | None, num_elements: float) -> str:
    """Bytes and bits per element."""
    if num_bytes is None:
        return "-"
    return f"{num_bytes / 1e3:.1f} ({8 * num_bytes / num_elements:.4f})"


def ratio_text(ratio: float | None) -> str:
    """Three digits; a dash for nothing."""
    return "-" if ratio is None else f"{ratio:.3g}"


def sizes(compared: dict[str, Any], num_elements: float) -> str:
    """kB and bits per element of every codec at every fidelity."""
    found = compared["bytes_at"]
    targets = list(next(iter(found.values())))
    rows = [
        [f"`{codec}`", *(size_text(at[db], num_elements) for db in targets)]
        for codec, at in found.items()
        if codec not in PLAIN
    ]
    return markdown(["codec", *(f"{db} dB" for db in targets)], rows)


def ratios(compared: dict[str, Any]) -> str:
    """Our bytes over theirs at every fidelity."""
    found = compared["bytes_ratio"]
    targets = list(next(iter(found.values())))
    rows = [
        [f"`{codec}`", *(ratio_text(at[db]) for db in targets)]
        for codec, at in found.items()
        if codec not in PLAIN
    ]
    return markdown(["ours over", *(f"{db} dB" for db in targets)], rows)


def task_ratios(tasks: dict[str, Any], codecs: Sequence[str]) -> str:
    """Our bytes over theirs, task by task."""
    targets = list(next(iter(tasks.values()))[codecs[0]])
    rows = [
        [task, f"`{codec}`", *(ratio_text(found[codec][db]) for db in targets)]
        for task, found in tasks.items()
        for codec in codecs
    ]
    return markdown(["task", "ours over", *(f"{db} dB" for db in targets)], rows)


def single_points(result: dict[str, Any]) -> str:
    """Codecs with one point: what it costs, what it keeps, and ours at the same state error."""
    by_psnr, by_snr = result["mean"]["psnr_db"], result["mean"]["snr_db"]
    rows = []
    for codec in PLAIN:
        (edit,), (state,) = by_psnr["curves"][codec], by_snr["curves"][codec]
        (ratio,) = by_snr["bytes_ratio_at_their_own"][codec].values()
        num_bytes = f"{edit['num_bytes'] / 1e3:.0f}"
        qualities = f"{edit['quality']:.1f}", f"{state['quality']:.1f}"
        rows.append([f"`{codec}`", num_bytes, *qualities, ratio_text(ratio)])
    return markdown(["codec", "kB", "edit, dB", "state, dB", "ours over it, same state dB"], rows)


def levels(result: dict[str, Any]) -> str:
    """The default bundle, level by level: everything up to it, means over the templates; its share
    of bfloat16 state is that of all templates together."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in result["rate_fidelity"]:
        if row["codec"] == OURS and row["point"].startswith(DEFAULT):
            found.setdefault(row["point"].removeprefix(DEFAULT), []).append(row)
    rows = []
    for name, points in found.items():
        raw = [2 * result["num_elements"][p["subject"]] for p in points]
        parts = [
            fmean(p["head_bytes"] for p in points),
            fmean(p["num_bytes"] - p["head_bytes"] for p in points),
            fmean(p["picture_bytes"] for p in points),
        ]
        share = sum(raw) / sum(p["num_bytes"] for p in points)
        with_picture = sum(raw) / sum(p["num_bytes"] + p["picture_bytes"] for p in points)
        qualities = [p["psnr_db"] for p in points]
        rows.append(
            [
                name,
                *(f"{part / 1e3:.1f}" for part in parts),
                f"1/{share:.0f}",
                f"1/{with_picture:.0f}",
                f"{fmean(qualities):.1f}",
                f"{min(qualities):.1f}",
            ]
        )
    headers = ("head, kB", "streams, kB", "picture, kB", "of bf16", "with picture")
    return markdown(["up to", *headers, "edit, dB", "worst"], rows)


def search(result: dict[str, Any]) -> str:
    """What the tuning of CacheGen cost on training templates."""
    rows = []
    for tried in sorted(result["search"], key=lambda tried: tried["cost"]):
        at = tried["bytes_at_db"]
        cells = ("-" if size is None else f"{size / 1e3:.1f}" for size in at.values())
        rows.append([tried["steps"], tried["prediction"], str(tried["dead_zone"]), *cells])
    targets = (f"kB at {db} dB" for db in result["search"][0]["bytes_at_db"])
    return markdown(["steps", "prediction", "dead zone", *targets], rows)


def tables(result: dict[str, Any]) -> dict[str, str]:
    """Every table by its title."""
    num_elements = fmean(result["num_elements"].values())
    mean = result["mean"]
    return {
        "kB (bits per element) at a fidelity of the edit": sizes(mean["psnr_db"], num_elements),
        "The default bundle": levels(result),
        "Ratios, everything counted": ratios(mean["psnr_db"]),
        "Ratios task by task": task_ratios(
            result["tasks"], ("cachegen-tuned", "cachegen-shipped", "kvtc-like")
        ),
        "Ratios without the bundle's head": ratios(result["streams_only"]),
        "kB (bits per element) at a fidelity of the state": sizes(mean["snr_db"], num_elements),
        "Ratios at a fidelity of the state": ratios(mean["snr_db"]),
        "The same, tokens weighted by attention": ratios(mean["weighted_snr_db"]),
        "Codecs with one point": single_points(result),
        "Search for the tuning": search(result),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("json", type=Path)
    result = json.loads(parser.parse_args().json.read_text())
    for title, table in tables(result).items():
        print(f"## {title}\n\n{table}\n")


if __name__ == "__main__":
    main()
