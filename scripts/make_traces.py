"""Writes the traces that ship with SAKURA: three made-up ones, and slices of recorded ones.

    python scripts/make_traces.py                     # the made-up ones, from fixed seeds
    python scripts/make_traces.py --recorded FOLDER   # also the slices, from CSV files

The made-up ones follow the statistics of recorded mobile links (samples of 1 s: lag-1
autocorrelation 0.7 to 0.95, coefficient of variation 0.4 to 0.7): an autoregressive process of
order 1 in the log rate, with dips and outages cut into it, scaled to the wanted mean.
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/sakura/assets/traces"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A made-up link. `cuts` are (start_s, length_s, factor): the rate is multiplied there."""

    name: str
    seed: int
    mean_mbps: float
    log_sigma: float
    memory: float
    cuts: tuple[tuple[int, int, float], ...] = ()
    duration_s: int = 240


RECIPES = (
    Recipe("lte-drive", 1, 30.0, 0.52, 0.88),
    Recipe(
        "5g-walk",
        2,
        32.0,
        0.42,
        0.85,
        ((31, 4, 0.06), (88, 6, 0.04), (140, 3, 0.1), (201, 5, 0.05)),
    ),
    Recipe("outage", 3, 28.0, 0.38, 0.85, ((60, 25, 0.0),), 180),
)

# name, original, first and last second
SLICES = (("ghent-car", "ghent4g_car_0001.csv", 100.0, 350.0),)


def made_up(recipe: Recipe) -> list[float]:
    """Mbit/s per second of the link."""
    draw = random.Random(recipe.seed)
    level, logs = 0.0, []
    step = recipe.log_sigma * math.sqrt(1 - recipe.memory**2)
    for _ in range(recipe.duration_s):
        level = recipe.memory * level + draw.gauss(0.0, step)
        logs.append(level)
    rates = [math.exp(value) for value in logs]
    for start, length, factor in recipe.cuts:
        rates[start : start + length] = [rate * factor for rate in rates[start : start + length]]
    mean = sum(rates) / len(rates)
    return [rate * recipe.mean_mbps / mean for rate in rates]


def write(name: str, rows: list[tuple[float, float]]) -> None:
    """Write one CSV."""
    lines = ["time_s,mbps", *(f"{time_s:.3f},{mbps:.3f}" for time_s, mbps in rows)]
    (TARGET / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def sliced(path: Path, start_s: float, stop_s: float) -> list[tuple[float, float]]:
    """The rows of a recorded trace in [start_s, stop_s), time counted from the first of them."""
    rows = [line.split(",") for line in path.read_text("utf-8").splitlines()[1:]]
    kept = [(float(t), float(v)) for t, v in rows if start_s <= float(t) < stop_s]
    return [(time_s - kept[0][0], mbps) for time_s, mbps in kept]


def main() -> None:
    """Write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recorded", type=Path, help="folder of the recorded traces' CSV files")
    folder = parser.parse_args().recorded
    for recipe in RECIPES:
        write(recipe.name, [(float(t), rate) for t, rate in enumerate(made_up(recipe))])
    for name, original, start_s, stop_s in SLICES if folder else ():
        write(name, sliced(folder / original, start_s, stop_s))


if __name__ == "__main__":
    main()
