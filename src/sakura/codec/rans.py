"""Reference of the entropy coder: many rANS lanes with 16-bit states over one byte stream
(docs/codec.md, section 5).

This module and `quantize` are the specification in code; the kernels in `native/` must give the
same bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.plan import LayerPlan
from sakura.codec.tables import EDGE_CONTEXT, MAX_INDEX, NUM_START_CLASSES, ClassTables
from sakura.errors import CodecError

Array = NDArray[Any]

STATE_LOW = 256
"""States live in [256, 65536); encoding starts, and decoding ends, with every lane at 256."""


def encode_layer(tables: ClassTables, plan: LayerPlan, symbols: Array, table: Array) -> bytes:
    """Encode the symbols of a layer.

    Args:
        tables: frequencies.
        plan: units in coding order.
        symbols: uint8 (sum of widths,), unit after unit.
        table: uint8, table of each symbol (context included).
    """
    if plan.num_units == 0:
        return b""
    state = np.full(plan.num_lanes, STATE_LOW, np.int64)
    count = tables.frequencies[table, symbols].astype(np.int64)
    below = tables.cumulatives[table, symbols].astype(np.int64)
    pieces = []
    for start, stop in reversed(_rounds(plan)):
        x, f = state[: stop - start], count[start:stop]
        full = x >= f << 8
        order = _read_order(len(x))
        pieces.append((x & 255)[order][full[order]].astype(np.uint8).tobytes())
        x = np.where(full, x >> 8, x)
        state[: len(x)] = (x // f << 8) + below[start:stop] + x % f
    pieces.append(state.astype("<u2").tobytes())
    return b"".join(reversed(pieces))


def decode_layer(
    tables: ClassTables, plan: LayerPlan, data: bytes | memoryview, index: Array
) -> tuple[int, bool]:
    """Decode whole units into `index` until the bytes run out.

    Args:
        tables: frequencies.
        plan: units in coding order.
        data: the stream or a prefix of it.
        index: int16, flat, contiguous: indices of the level below, updated in place.

    Returns:
        Number of units decoded, and whether the stream ended cleanly (all units, all bytes, all
        states at 256).
    """
    source = np.frombuffer(data, np.uint8)
    place = 2 * plan.num_lanes
    if len(source) < place:
        return 0, False
    state = source[:place].view("<u2").astype(np.int64)
    if (state < STATE_LOW).any():
        return 0, False
    for unit in range(plan.num_units):
        values = index[plan.offset[unit] : plan.offset[unit] + int(plan.width[unit])]
        table = int(plan.table[unit])
        is_start = table < NUM_START_CLASSES
        context = np.zeros_like(values) if is_start else context_of(values, plan.edge[unit])
        symbols, place = _decode_unit(tables.slots, table + context, source, place, state)
        if place < 0:
            return unit, False
        values[:] = symbols - MAX_INDEX if is_start else refine(values, symbols)
    return plan.num_units, place == len(source) and bool((state == STATE_LOW).all())


def context_of(index: Array, edge: Array) -> Array:
    """Context of a refinement: min(|q|, 2), plus one in the open edge bin (which begins at 2 or
    later)."""
    size = np.abs(index)
    context: Array = np.minimum(size, EDGE_CONTEXT - 1) + (size == edge)
    return context


def refine(values: Array, symbols: Array) -> Array:
    """Indices one pass finer: symbol 0 toward zero, 1 centre, 2 or more away (for q = 0: -1, 0,
    1)."""
    direction = np.where(values < 0, -1, 1)
    finer: Array = 3 * values + direction * (symbols - 1)
    return finer


def _decode_unit(
    slots: Array, table: Array, source: Array, place: int, state: Array
) -> tuple[Array, int]:
    """Symbols of one unit, given the table of each value; updates `state`.

    Also returns the place after the bytes read, or -1 when bytes are missing.
    """
    symbols = np.empty(len(table), np.int64)
    for start in range(0, len(table), len(state)):
        x = state[: len(table) - start]
        entry = slots[table[start : start + len(x)], x & 255].astype(np.int64)
        symbols[start : start + len(x)] = entry & 255
        x = (entry >> 8 & 255) * (x >> 8) + (entry >> 16)
        order = _read_order(len(x))
        reads = order[x[order] < STATE_LOW]
        if place + len(reads) > len(source):
            return symbols, -1
        x[reads] = x[reads] << 8 | source[place : place + len(reads)]
        place += len(reads)
        state[: len(x)] = x
    return symbols, place


def _rounds(plan: LayerPlan) -> list[tuple[int, int]]:
    """Symbol ranges coded at once: each unit in runs of one symbol a lane."""
    rounds, start = [], 0
    for width in plan.width.tolist():
        stop = start + width
        rounds += [(a, min(a + plan.num_lanes, stop)) for a in range(start, stop, plan.num_lanes)]
        start = stop
    return rounds


@cache
def _read_order(num_lanes: int) -> Array:
    """Lanes in the order in which they take bytes: even lanes, then odd lanes."""
    lanes = np.arange(num_lanes)
    order = np.concatenate([lanes[::2], lanes[1::2]])
    order.flags.writeable = False
    return order


def check_clean(is_clean: bool, num_units: int, plan: LayerPlan) -> None:
    """Raise CodecError unless a complete stream was used up exactly."""
    if num_units < plan.num_units:
        raise CodecError(f"the stream ends in column {num_units} of {plan.num_units}")
    if not is_clean:
        raise CodecError(
            "the stream does not end cleanly: bytes left over or a state away from 256"
        )
