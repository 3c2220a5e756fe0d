"""Reference of the quantiser: coefficients to nested indices, to symbols, and back to coefficients.

Mid-tread, uniform; every refinement splits a bin into exactly three. Index arrays hold values in
the order (2, num_coefs, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.classes import class_at
from sakura.codec.plan import LayerPlan, ShardPlan, scale_at, value_places
from sakura.codec.rans import context_of
from sakura.codec.tables import MAX_INDEX, NUM_EDGE_SYMBOLS, NUM_START_CLASSES, ClassTables

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """A shard ready for the entropy coder.

    Args:
        index: int16, flat, at step x 3^finest.
        finest: exponent of the last layer.
        energy: float64 (T, 2), sum of squares of each tile of K and V.
        error: float64 (L, T, 2), the same of what each layer leaves.
        clipped: int64 (L,), number of values beyond what the layer can express.
    """

    index: Array
    finest: int
    energy: Array
    error: Array
    clipped: Array


def quantize_columns(plan: ShardPlan, coef: Array, finest: int) -> Array:
    """Quantise at step x 3^finest, without regard to alphabets.

    Args:
        plan: columns.
        coef: float32 (2, num_coefs, N), finite.
        finest: exponent of the last layer, 0 or negative.

    Returns:
        Flat int16 indices in the layout of `plan.shape`, 0 in columns that never start; values
        beyond every edge are cut.
    """
    step = plan.step * scale_at(np.array(finest))
    exact = np.rint(coef.ravel() / per_value(plan, step))
    is_coded = per_value(plan, plan.first_exponent >= finest) & np.isfinite(exact)
    return np.where(is_coded, np.clip(exact, -_FARTHEST, _FARTHEST), 0).astype(np.int16)


def index_at(finest_index: Array, passes: Array | int, edge: Array) -> Array:
    """Indices `passes` passes coarser, cut to the open edge bin; exact, because the bins nest."""
    coarse: Array = np.sign(finest_index).astype(np.int64) * np.minimum(
        _coarser(finest_index, passes), edge
    )
    return coarse


def count_clipped(plan: ShardPlan, finest_index: Array, passes: int, exponent: int) -> int:
    """Number of values that lie more than half a step beyond the edge index after a layer."""
    edge = edges(plan, exponent)
    return int(((_coarser(finest_index, passes) > edge) & (edge > 0)).sum())


def edges(plan: ShardPlan, exponent: int) -> Array:
    """Edge index of every value at an exponent, int32 flat; 0 in columns not yet started."""
    return per_value(plan, plan.edge_at(exponent).astype(np.int32))


def _coarser(finest_index: Array, passes: Array | int) -> Array:
    scale = 3**passes
    size: Array = (np.abs(finest_index.astype(np.int64)) + scale // 2) // scale
    return size


def quantize_shard(tables: ClassTables, plan: ShardPlan, coef: Array, num_layers: int) -> Quantized:
    """Quantise float32 (2, N, num_coefs), and measure what each layer leaves."""
    source = np.ascontiguousarray(coef.transpose(0, 2, 1))
    finest = 1 - num_layers
    index = quantize_columns(plan, source, finest)
    error, clipped = [], []
    for layer in range(num_layers):
        passes = num_layers - 1 - layer
        exponent = np.where(plan.first_exponent >= -layer, -layer, UNSTARTED).astype(np.int8)
        standing = index_at(index, passes, edges(plan, -layer))
        values = dequantize(plan, standing, *column_scales(tables, plan, exponent))
        error.append(tile_squares(plan, source - values))
        clipped.append(count_clipped(plan, index, passes, -layer))
    return Quantized(index, finest, tile_squares(plan, source), np.array(error), np.array(clipped))


def tile_squares(plan: ShardPlan, values: Array) -> Array:
    """Sums of squares of float32 (2, num_coefs, N), float64 (T, 2)."""
    squares = np.square(values, dtype=np.float64).sum(1)  # (2, N)
    starts = np.cumsum(plan.tile_width, dtype=np.int64) - plan.tile_width
    if len(starts) == 0:
        return np.zeros((0, 2))
    return np.add.reduceat(squares, starts, axis=1).T


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


_FARTHEST = 32767  # beyond every edge at the finest step, and so at every coarser one
UNSTARTED = 127
"""Exponent of a column of which nothing is decoded."""


def per_value(plan: ShardPlan, per_column: Array) -> Array:
    """Spread one number a column over the flat layout (2, num_coefs, N)."""
    flat = np.empty(2 * plan.num_coefs * plan.num_tokens, per_column.dtype)
    flat[plan.values] = np.repeat(per_column, plan.width)
    return flat
