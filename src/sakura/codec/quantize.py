"""Reference of the quantiser: coefficients to nested indices, to symbols, and back to coefficients.

Mid-tread, uniform; every refinement splits a bin into exactly three. Index arrays hold values in
the order (2, num_coefs, N).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.classes import class_at
from sakura.codec.plan import LayerPlan, ShardPlan, scale_at, value_places
from sakura.codec.rans import context_of
from sakura.codec.tables import MAX_INDEX, NUM_EDGE_SYMBOLS, NUM_START_CLASSES, ClassTables

Array = NDArray[Any]


def quantize_columns(plan: ShardPlan, coef: Array, finest: int) -> Array:
    """Quantise at step x 3^finest, without regard to alphabets.

    Args:
        plan: columns.
        coef: float32 (2, num_coefs, N), finite.
        finest: exponent of the last layer, 0 or negative.

    Returns:
        Flat int32 indices in the layout of `plan.shape`, 0 in columns that never start.
    """
    step = plan.step * scale_at(np.array(finest))
    exact = np.rint(coef.ravel() / per_value(plan, step))
    is_coded = per_value(plan, plan.first_exponent >= finest)
    return np.where(is_coded, np.clip(exact, -_FARTHEST, _FARTHEST), 0).astype(np.int32)


def index_at(finest_index: Array, passes: Array | int, edge: Array) -> Array:
    """Indices `passes` passes coarser, cut to the open edge bin; exact, because the bins nest."""
    coarse: Array = np.sign(finest_index) * np.minimum(_coarser(finest_index, passes), edge)
    return coarse


def clipped_share(plan: ShardPlan, finest_index: Array, passes: int, exponent: int) -> float:
    """Share of all values that lie more than half a step beyond the edge index after a layer."""
    edge = edges(plan, exponent)
    is_clipped = (_coarser(finest_index, passes) > edge) & (edge > 0)
    return float(is_clipped.mean()) if is_clipped.size else 0.0


def edges(plan: ShardPlan, exponent: int) -> Array:
    """Edge index of every value at an exponent, int32 flat; 0 in columns not yet started."""
    return per_value(plan, plan.edge_at(exponent).astype(np.int32))


def _coarser(finest_index: Array, passes: Array | int) -> Array:
    scale = 3**passes
    size: Array = (np.abs(finest_index) + scale // 2) // scale
    return size


def layer_symbols(
    tables: ClassTables, plan: LayerPlan, finest_index: Array, finest: int
) -> tuple[Array, Array]:
    """Symbols of a layer and the table of each, both uint8, unit after unit."""
    values = finest_index[value_places(plan.offset, plan.width)]
    passes = np.repeat(plan.exponent.astype(np.int64) - finest, plan.width)
    first = np.repeat(plan.table, plan.width)
    edge = np.repeat(plan.edge.astype(np.int64), plan.width)
    is_start = first < NUM_START_CLASSES
    next_edge = np.where(
        is_start, tables.limits[first % NUM_START_CLASSES], 3 * edge + NUM_EDGE_SYMBOLS - 2
    )
    index, coarse = index_at(values, passes, next_edge), index_at(values, passes + 1, edge)
    away = np.where(coarse < 0, -1, 1) * (index - 3 * coarse) + 1
    symbols = np.where(is_start, index + MAX_INDEX, away)
    table = np.where(is_start, first, first + context_of(coarse, edge))
    return symbols.astype(np.uint8), table.astype(np.uint8)


def column_scales(tables: ClassTables, plan: ShardPlan, exponent: Array) -> tuple[Array, Array]:
    """Step and shrink of every column at its exponent.

    Args:
        tables: shrinks.
        plan: columns.
        exponent: int8 (C,), where each column stands; UNSTARTED = nothing decoded.

    Returns:
        Float32 (C,), zero where nothing is decoded, and float32 (C, 2).
    """
    is_started = exponent != UNSTARTED
    place = np.where(is_started, exponent, 0)
    step = np.where(is_started, plan.step * scale_at(place), 0.0).astype(np.float32)
    class_ = np.maximum(class_at(plan.class0.astype(np.int16), place), 0)
    return step, tables.shrink_steps[class_]


def dequantize(plan: ShardPlan, index: Array, step: Array, shrink: Array) -> Array:
    """Float32 (2, num_coefs, N): sign(q) (|q| - shrink) step, and 0 for q = 0."""
    size = np.abs(index)
    pull = np.where(size >= 2, per_value(plan, shrink[:, 1]), per_value(plan, shrink[:, 0]))
    value = (size.astype(np.float32) - pull) * per_value(plan, step)
    value = np.where(index < 0, -value, value)
    return np.where(index == 0, np.float32(0), value).reshape(plan.shape)


_FARTHEST = 1 << 20  # beyond every edge, and safe in int32
UNSTARTED = 127
"""Exponent of a column of which nothing is decoded."""


def per_value(plan: ShardPlan, per_column: Array) -> Array:
    """Spread one number a column over the flat layout (2, num_coefs, N)."""
    flat = np.empty(2 * plan.num_coefs * plan.num_tokens, per_column.dtype)
    flat[plan.values] = np.repeat(per_column, plan.width)
    return flat
