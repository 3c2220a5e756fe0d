"""Plans a shard: which columns each layer codes, in which order, with which table. Pure; knows no
stream bytes.

A *column* is one tile x one coefficient of K or V; a *unit* is one coding pass over a column.
Because classes move by exactly three with each factor of three of the step, one sort by class
serves all layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec.base import MAX_LAYERS, TilePlan
from sakura.codec.classes import (
    LOWEST_CLASS0,
    MAX_EXTRA,
    NUM_CLASSES0,
    class_edges,
    class_pass,
)
from sakura.codec.tables import CLASSES_PER_TRIT, MAX_CLASS0, THRESHOLDS
from sakura.errors import CodecError

Array = NDArray[Any]

MAX_LANES = 64
SYMBOLS_PER_LANE = 2048
"""A layer gets a lane for every so many symbols: an idle lane wastes about 1.5 bytes."""
_QUARTER_OCTAVE = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
_MAX_VALUES = 2**31 - 1
_MIN_DELTA, _MAX_DELTA = 2.0**-60, 2.0**60


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """Columns of a shard in coding order: by class, tile, K before V, coefficient.

    Args:
        num_tokens: N.
        num_coefs: H * Dh.
        limits: largest |index| of each start alphabet.
        tile_width: uint8 (T,), tokens of each tile.
        tile_step: float64 (T, 2), base step of K and V.
        class_map: int8 (T, 2, num_coefs), class of each column at the base step; negative = not in
            the base layer.
        order: int32 (C,), place in `class_map` of each column in coding order.
    """

    num_tokens: int
    num_coefs: int
    limits: tuple[int, ...]
    tile_width: Array
    tile_step: Array
    class_map: Array
    order: Array

    @cached_property
    def class0(self) -> Array:
        """Int8 (C,): class at the base step, never rising."""
        return self.class_map.ravel()[self.order]

    @cached_property
    def step(self) -> Array:
        """Float64 (C,): base step."""
        return self.tile_step.ravel()[self.order // max(self.num_coefs, 1)]

    @cached_property
    def offset(self) -> Array:
        """Int32 (C,): place of the column's first value in an array (2, num_coefs, N)."""
        start = np.cumsum(self.tile_width, dtype=np.int32) - self.tile_width.astype(np.int32)
        place = np.arange(2 * self.num_coefs, dtype=np.int32) * self.num_tokens
        return (start[:, None] + place).ravel()[self.order]

    @cached_property
    def width(self) -> Array:
        """Uint8 (C,): tokens of the column's tile."""
        return np.repeat(self.tile_width, 2 * self.num_coefs)[self.order]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the index array: (2, num_coefs, num_tokens)."""
        return 2, self.num_coefs, self.num_tokens

    @cached_property
    def first_exponent(self) -> Array:
        """Int8 (C,): exponent at which each column starts, never rising; below -3 it never does."""
        return np.minimum(self.class0 // CLASSES_PER_TRIT, MAX_EXTRA).astype(np.int8)

    @cached_property
    def class_counts(self) -> Array:
        """Columns of each base class, largest class first."""
        return np.bincount(MAX_CLASS0 - self.class0.astype(np.int64), minlength=NUM_CLASSES0)

    @cached_property
    def values(self) -> Array:
        """Place in the index array of every value, column after column; int64."""
        return value_places(self.offset, self.width)

    def layer(self, index: int) -> LayerPlan:
        """Plan of layer `index`, 0 .. MAX_LAYERS - 1."""
        if not 0 <= index < MAX_LAYERS:
            raise CodecError(f"layer {index} does not exist, expected 0..{MAX_LAYERS - 1}")
        passes = range(MAX_EXTRA, -1, -1) if index == 0 else (-index,)
        runs = np.concatenate([self._pass(exponent) for exponent in passes])
        ends = runs[:, 0] + runs[:, 1]
        num_values = int(np.sum(self._values_to[ends] - self._values_to[runs[:, 0]]))
        last = int(ends.max(initial=0))
        num_lanes = num_lanes_for(num_values, int(self.width[:last].max(initial=0)))
        return LayerPlan(self, runs, num_values, num_lanes)

    def in_map(self, per_column: Array) -> Array:
        """One number a column, in the layout of `class_map`."""
        spread = np.empty(self.class_map.shape, per_column.dtype)
        spread.ravel()[self.order] = per_column
        return spread

    def edge_at(self, exponent: int) -> Array:
        """|index| of each column's open edge bin at an exponent, int16; 0 where not started."""
        return np.repeat(class_edges(exponent, self.limits), self.class_counts)

    @cached_property
    def _values_to(self) -> Array:
        """Values of the columns before each, int64 (C + 1,)."""
        return np.concatenate([[0], np.cumsum(self.width, dtype=np.int64)])

    def _pass(self, exponent: int) -> Array:
        """Runs that a pass brings to one exponent, a row per class."""
        rows = class_pass(exponent, self.limits)
        count = self.class_counts[: len(rows.table)]
        first = np.cumsum(count) - count
        parts = first, count, rows.table, rows.edge, np.full(len(count), exponent)
        return np.stack(parts, axis=1)[count > 0].astype(np.int32)


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """Units of one layer in coding order, as runs of columns that are treated alike.

    Args:
        shard: the columns.
        runs: int32 (R, 5): first column, number of columns, table (a start table, or the context-0
            table of a refined class), edge (|index| of the open edge bin before the unit; 0 for a
            start), exponent (step of the column after the unit = base step x 3^exponent).
        num_values: values of all units.
        num_lanes: lanes of the stream.
    """

    shard: ShardPlan
    runs: Array
    num_values: int
    num_lanes: int

    @cached_property
    def num_units(self) -> int:
        """Coding passes in this layer."""
        return int(self.runs[:, 1].sum())

    @cached_property
    def column(self) -> Array:
        """Int32 (U,), column of each unit."""
        return value_places(self.runs[:, 0], self.runs[:, 1]).astype(np.int32)

    @property
    def table(self) -> Array:
        """Int32 (U,), table of each unit."""
        return self._per_unit(2)

    @property
    def edge(self) -> Array:
        """Int32 (U,), edge of each unit."""
        return self._per_unit(3)

    @property
    def exponent(self) -> Array:
        """Int32 (U,), exponent of each unit."""
        return self._per_unit(4)

    @property
    def offset(self) -> Array:
        """Int32 (U,), place of the first value of each unit in the index array."""
        return self.shard.offset[self.column]

    @property
    def width(self) -> Array:
        """Uint8 (U,), values of each unit."""
        return self.shard.width[self.column]

    def _per_unit(self, field: int) -> Array:
        return np.repeat(self.runs[:, field], self.runs[:, 1])


def value_places(offset: Array, width: Array) -> Array:
    """Places of runs of `width` values that begin at `offset`, run after run; int64."""
    widths = width.astype(np.int64)
    before = np.cumsum(widths) - widths
    places: Array = np.repeat(offset - before, widths) + np.arange(widths.sum())
    return places


def num_lanes_for(num_symbols: int, max_width: int) -> int:
    """Lanes of a stream: a power of two with 2048 symbols a lane, 1..64, at most `max_width`."""
    lanes = 1 << (max(num_symbols // SYMBOLS_PER_LANE, 1).bit_length() - 1)
    return min(lanes, MAX_LANES, max_width)


def scale_at(exponent: Array) -> Array:
    """3^exponent (-3 .. 4) as float64; 1 / 3^k below zero, so that it is the same everywhere."""
    scales: Array = _SCALES[exponent.astype(np.int64) + (MAX_LAYERS - 1)]
    return scales


_SCALES = np.array([1 / 27, 1 / 9, 1 / 3, 1.0, 3.0, 9.0, 27.0, 81.0])


def gain_factor(gain: int) -> float:
    """2^(gain/4), the same double on every platform."""
    return math.ldexp(_QUARTER_OCTAVE[gain % 4], gain // 4)


def plan_shard(
    sigma: Array, limits: Array, delta: tuple[float, float], tiles: TilePlan
) -> ShardPlan:
    """Plan from the profile's sigmas.

    Args:
        sigma: float32 (2, num_coefs), standard deviations of K and V coefficients.
        limits: int (NUM_START_CLASSES,), largest |index| of each start alphabet.
        delta: base step of K and V.
        tiles: token tiles.

    Raises:
        CodecError: a step is not a positive number of sane size.
    """
    for value in delta:
        if not _MIN_DELTA <= value <= _MAX_DELTA:
            raise CodecError(f"base step {value} is outside 2^-60..2^60")
    num_coefs, num_tiles = sigma.shape[1], len(tiles.widths)
    if 2 * num_coefs * tiles.num_tokens > _MAX_VALUES:
        raise CodecError(f"a shard of {tiles.num_tokens} tokens x {num_coefs} is too large")
    # Tiles of one gain have the same steps and so the same classes.
    gains, kind = np.unique(np.array(tiles.gains, np.int64), return_inverse=True)
    factors = np.array([gain_factor(g) for g in gains.tolist()], np.float64)
    step = np.array(delta, np.float64) / factors[:, None]  # (gains, 2)
    ratio = sigma.astype(np.float64) / step[..., None]  # (gains, 2, coefs)
    found = np.searchsorted(THRESHOLDS, ratio.ravel(), side="right") + LOWEST_CLASS0
    class_map = found.astype(np.int8).reshape(-1, 2, num_coefs)[kind]
    order = np.argsort(-class_map.ravel(), kind="stable").astype(np.int32)
    return ShardPlan(
        num_tokens=tiles.num_tokens,
        num_coefs=num_coefs,
        limits=tuple(limits.tolist()),
        tile_width=np.array(tiles.widths, np.uint8).reshape(num_tiles),
        tile_step=step[kind],
        class_map=class_map,
        order=order,
    )
