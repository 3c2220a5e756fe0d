"""Derives class tables from a source model: a distribution of |x|/sigma on a fine grid.

Run as a module it prints the built-in tables of `tables`. It knows nothing of profiles or streams.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.tables import (
    CLASSES_PER_TRIT,
    FIRST_THRESHOLD_CLASS,
    MAX_INDEX,
    NUM_CLASSES,
    NUM_EDGE_SYMBOLS,
    NUM_START_CLASSES,
    NUM_START_SYMBOLS,
    SHRINK_UNIT,
    THRESHOLDS,
    TOTAL,
    ClassTables,
)

Array = NDArray[Any]

GRID_STEP = 1 / 64
NUM_GRID = 2048
"""Cells of the |x|/sigma histogram: 0 .. 32 sigma."""
_SPREAD = (1 / 6, 1 / 2, 5 / 6)
"""Where inside a class the tables are averaged, as a share of its width in log sigma."""
_MAX_BEYOND = 1e-3
"""Probability mass that a start alphabet may leave beyond its edge, for the refinements to
resolve."""


def default_shape() -> Array:
    """Probability of each grid cell for half Laplacian, half Gaussian, float64 (NUM_GRID,)."""
    edges = np.arange(NUM_GRID + 1) * GRID_STEP
    below = [
        0.5 * (1 - math.exp(-math.sqrt(2) * z)) + 0.5 * math.erf(z / math.sqrt(2)) for z in edges
    ]
    shape: Array = np.diff(np.array(below))
    return shape / shape.sum()


def tables_for_shape(shape: Array) -> ClassTables:
    """Best 8-bit tables and centroids for |x|/sigma distributed as `shape` (float64 (NUM_GRID,),
    sums to 1)."""
    cells = [_bins(shape, c) for c in range(NUM_CLASSES)]
    start = np.stack([_start_row(cells[c][0]) for c in range(NUM_START_CLASSES)])
    ternary = np.stack([_ternary_rows(cells[c][0]) for c in range(NUM_START_CLASSES, NUM_CLASSES)])
    edge = np.stack([_edge_row(c) for c in range(NUM_START_CLASSES, NUM_CLASSES)])
    shrink = np.stack([_shrink_row(*cells[c]) for c in range(NUM_CLASSES)])
    return ClassTables(start=start, ternary=ternary, edge=edge, shrink=shrink)


def _bins(shape: Array, class_: int) -> tuple[Array, Array]:
    """Probability and first moment (in steps) of each |q|, averaged over the sigma range of a
    class."""
    fine = 16  # points per grid cell: a cell is wider than a bin of the finest class
    z = (np.arange(NUM_GRID * fine) + 0.5) * (GRID_STEP / fine)
    weight = np.repeat(shape / fine, fine)
    low = THRESHOLDS[class_ - FIRST_THRESHOLD_CLASS]
    size = int(NUM_GRID * GRID_STEP * low * 3 ** (1 / CLASSES_PER_TRIT)) + 4
    mass, moment = np.zeros(size), np.zeros(size)
    for share in _SPREAD:
        x = z * (low * 3 ** (share / CLASSES_PER_TRIT))
        index = np.floor(x + 0.5).astype(int)
        mass += np.bincount(index, weight, size) / len(_SPREAD)
        moment += np.bincount(index, weight * x, size) / len(_SPREAD)
    return mass, moment


def _start_row(mass: Array) -> Array:
    """Symmetric frequencies over -m..m, the smallest m that clips no more than `_MAX_BEYOND`."""
    beyond = 1 - np.cumsum(mass)
    limit = next((m for m in range(2, MAX_INDEX) if beyond[m] <= _MAX_BEYOND), MAX_INDEX)
    inside = mass[: limit + 1].copy()
    inside[limit] += mass[limit + 1 :].sum()
    counts = _symmetric_counts(inside)
    row = np.zeros(NUM_START_SYMBOLS, np.uint8)
    row[MAX_INDEX : MAX_INDEX + limit + 1] = counts
    row[MAX_INDEX - limit : MAX_INDEX + 1] = counts[::-1]
    return row


def _symmetric_counts(mass: Array) -> Array:
    """Frequencies of q = 0 and of each +-q (per sign) that minimise the rate under a total of
    256."""
    counts = np.ones(len(mass), int)
    counts[0] = TOTAL - 2 * (len(mass) - 1)
    while True:
        # Moving two units from zero to a pair changes the rate by these; the cost is convex, so
        # greedy is optimal.
        gain = mass[1:] * np.log2((counts[1:] + 1) / counts[1:])
        loss = mass[0] * math.log2(counts[0] / (counts[0] - 2)) if counts[0] > 2 else math.inf
        best = int(gain.argmax())
        if gain[best] <= loss:
            return counts
        counts[0] -= 2
        counts[best + 1] += 1


def _ternary_rows(mass: Array) -> Array:
    """Frequencies (context, symbol) when bins of three steps are split into three."""
    padded = np.pad(mass, (0, 9))
    num_coarse = (len(mass) + 1) // 3 + 1
    parts = np.stack([padded[3 * a - 1 : 3 * a + 2] for a in range(1, num_coarse)])
    contexts = (np.array([padded[1] / 2, padded[0], padded[1] / 2]), parts[0], parts[1:].sum(0))
    triples = _triples()
    share = np.stack(contexts) + 1e-9
    cost = -(share / share.sum(1, keepdims=True)) @ np.log2(triples)
    # Rounded, so that a tie (the contexts are symmetric) goes to the first triple on any machine.
    cost = cost.round(9)
    return triples[:, cost.argmin(1)].T.astype(np.uint8)


@cache
def _triples() -> Array:
    """All frequency triples that sum to 256, int (3, 32385)."""
    first, second = np.meshgrid(np.arange(1, TOTAL), np.arange(1, TOTAL), indexing="ij")
    triples = np.stack([first, second, TOTAL - first - second]).reshape(3, -1)
    return triples[:, triples[2] >= 1]


def _edge_row(class_: int) -> Array:
    """Frequencies of the open edge bin: an exponential tail that falls by e over one sigma,
    wherever the bin begins.

    Not fitted: values out there are too rare to count, and tails of real states are heavier than
    the model's.
    """
    sigma = THRESHOLDS[class_ - FIRST_THRESHOLD_CLASS] * 3 ** (0.5 / CLASSES_PER_TRIT)
    inside = np.exp(-np.arange(NUM_EDGE_SYMBOLS) / sigma)
    mass = inside - np.append(inside[1:], 0)
    counts = np.ones(NUM_EDGE_SYMBOLS, int)
    while counts.sum() < TOTAL:
        counts[(mass * np.log2((counts + 1) / counts)).argmax()] += 1
    return counts.astype(np.uint8)


def _shrink_row(mass: Array, moment: Array) -> Array:
    """Distance from the mid-point to the centroid for |q| = 1 and for all |q| >= 2, in 1/128
    step."""
    index = np.arange(len(mass))
    groups = (index == 1, (index >= 2) & (index <= 40))
    pulls = [((index * mass - moment)[g].sum() / max(mass[g].sum(), 1e-12)) for g in groups]
    return np.clip(np.rint(np.array(pulls) * SHRINK_UNIT), 0, SHRINK_UNIT // 2).astype(np.uint8)


def main() -> None:
    """Print the built-in tables as the hex literal kept in `tables`."""
    text = tables_for_shape(default_shape()).to_bytes().hex()
    for i in range(0, len(text), 90):
        print(f'    "{text[i : i + 90]}"')


if __name__ == "__main__":
    main()
