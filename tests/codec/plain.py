"""A second decoder, written from docs/codec.md with plain integers and no code of the codec.

It is slow and has no error handling; its agreement with the product is what a golden file cannot
show: that the text of the format is enough to read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Column:
    """One tile of one coefficient."""

    class0: int
    step: float
    places: list[tuple[int, int, int]]
    exponent: int | None = None
    edge: int = 0


@dataclass
class PlainShard:
    """Decoder state: indices by (kv, token, coefficient)."""

    start: list[list[int]]
    ternary: list[list[list[int]]]
    edge: list[list[int]]
    shrink: list[list[int]]
    columns: list[Column]
    index: dict[tuple[int, int, int], int] = field(default_factory=dict)


def make_columns(
    sigma: list[list[float]], delta: tuple[float, float], widths: list[int], gains: list[int]
) -> list[Column]:
    """Section 3: columns in coding order."""
    columns, token = [], 0
    for width, gain in zip(widths, gains, strict=True):
        for kv in range(2):
            step = delta[kv] / 2 ** (gain / 4)
            for coef, s in enumerate(sigma[kv]):
                class0 = math.floor(3 * math.log(s / step / 0.36, 3)) if s > 0 else -10
                places = [(kv, token + i, coef) for i in range(width)]
                columns.append(Column(max(-10, min(class0, 14)), step, places))
        token += width
    return sorted(columns, key=lambda c: -c.class0)


def decode_layer(shard: PlainShard, layer: int, data: bytes) -> None:
    """Sections 4 and 5: one whole layer."""
    units = layer_units(shard.columns, layer)
    if not units:
        assert data == b""
        return
    num_symbols = sum(len(c.places) for c, _ in units)
    lanes = 1
    while lanes < 64 and num_symbols >= 2 * lanes * 2048:
        lanes *= 2
    lanes = min(lanes, max(len(c.places) for c, _ in units))
    states = [data[2 * i] + 256 * data[2 * i + 1] for i in range(lanes)]
    rest = iter(data[2 * lanes :])
    for column, exponent in units:
        for start in range(0, len(column.places), lanes):
            run = column.places[start : start + lanes]
            for lane in [*range(0, len(run), 2), *range(1, len(run), 2)]:
                states[lane] = decode_value(shard, column, exponent, run[lane], states[lane])
                if states[lane] < 256:
                    states[lane] = states[lane] * 256 + next(rest)
        finish_unit(shard, column, exponent)
    assert next(rest, None) is None
    assert states == [256] * lanes


def layer_units(columns: list[Column], layer: int) -> list[tuple[Column, int]]:
    """Columns of each pass, coarsest pass first."""
    exponents = [4, 3, 2, 1, 0] if layer == 0 else [-layer]
    return [(c, e) for e in exponents for c in columns if min(c.class0 // 3, 4) >= e]


def decode_value(
    shard: PlainShard, column: Column, exponent: int, place: tuple[int, int, int], state: int
) -> int:
    """Decode one value in place; the state before the byte read."""
    old = shard.index.get(place, 0)
    class_ = min(column.class0 - 3 * exponent, 11)
    if column.exponent is None:
        counts = shard.start[class_]
    elif abs(old) == column.edge:
        counts = shard.edge[class_ - 3]
    else:
        counts = shard.ternary[class_ - 3][min(abs(old), 2)]
    slot, symbol = state % 256, 0
    while slot >= counts[symbol]:
        slot -= counts[symbol]
        symbol += 1
    if column.exponent is None:
        shard.index[place] = symbol - 7
    else:
        shard.index[place] = 3 * old + (-1 if old < 0 else 1) * (symbol - 1)
    return counts[symbol] * (state // 256) + slot


def finish_unit(shard: PlainShard, column: Column, exponent: int) -> None:
    """Move a column to its new step."""
    if column.exponent is None:
        class_ = column.class0 - 3 * exponent
        column.edge = max(i for i, f in enumerate(shard.start[class_]) if f) - 7
    else:
        column.edge = 3 * column.edge + 13
    column.exponent = exponent


def value_of(shard: PlainShard, column: Column, place: tuple[int, int, int]) -> float:
    """Section 6: reconstruction."""
    q = shard.index.get(place, 0)
    if column.exponent is None or q == 0:
        return 0.0
    class_ = min(column.class0 - 3 * column.exponent, 11)
    pull = shard.shrink[class_][0 if abs(q) == 1 else 1] / 128
    size = (abs(q) - pull) * column.step * 3.0**column.exponent
    return -size if q < 0 else size
