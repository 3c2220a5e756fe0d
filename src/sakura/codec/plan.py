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
from sakura.codec.tables import (
    CLASSES_PER_TRIT,
    FIRST_THRESHOLD_CLASS,
    NUM_CLASSES,
    NUM_CONTEXTS,
    NUM_EDGE_SYMBOLS,
    NUM_START_CLASSES,
    THRESHOLDS,
)
from sakura.errors import CodecError

Array = NDArray[Any]

MAX_EXTRA = 4
"""A column starts at most this many factors of three above its base step: indices fit int16."""
MAX_LANES = 64
SYMBOLS_PER_LANE = 2048
"""A layer gets a lane for every so many symbols: an idle lane wastes about 1.5 bytes."""
_QUARTER_OCTAVE = (1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429)
_MAX_VALUES = 2**31 - 1
_MIN_DELTA, _MAX_DELTA = 2.0**-60, 2.0**60


@dataclass(frozen=True, slots=True, eq=False)
class LayerPlan:
    """Units of one layer in coding order.

    Args:
        column: int32 (U,), column of each unit.
        exponent: int8 (U,), step of the column after the unit = base step x 3^exponent.
        table: uint8 (U,), a start table, or the context-0 table of a refined class.
        edge: int16 (U,), |index| of the open edge bin before the unit; 0 for a start.
        offset: int32 (U,), place of the column's first value in the index array.
        width: uint8 (U,), values of the column.
        num_lanes: lanes of the stream.
    """

    column: Array
    exponent: Array
    table: Array
    edge: Array
    offset: Array
    width: Array
    num_lanes: int

    @property
    def num_units(self) -> int:
        """Coding passes in this layer."""
        return len(self.column)


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """Columns of a shard in coding order: larger class first; then by tile, K before V,
    coefficient.

    Args:
        num_tokens: N.
        num_coefs: H * Dh.
        class0: int8 (C,), class of each column at the base step, never rising; negative = not in
            the base layer.
        limit: int16 (C,), largest |index| of the column's start alphabet.
        step: float64 (C,), base step.
        offset: int32 (C,), place of the column's first value in an array (2, num_coefs, N).
        width: uint8 (C,), tokens of the column's tile.
    """

    num_tokens: int
    num_coefs: int
    class0: Array
    limit: Array
    step: Array
    offset: Array
    width: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the index array: (2, num_coefs, num_tokens)."""
        return 2, self.num_coefs, self.num_tokens

    @cached_property
    def first_exponent(self) -> Array:
        """Int8 (C,): exponent at which each column starts, never rising; below -3 it never does."""
        return np.minimum(self.class0 // CLASSES_PER_TRIT, MAX_EXTRA).astype(np.int8)

    @cached_property
    def values(self) -> Array:
        """Int64 (2 * num_coefs * N,): place in the index array of every value, column after
        column."""
        return value_places(self.offset, self.width)

    def layer(self, index: int) -> LayerPlan:
        """Plan of layer `index`, 0 .. MAX_LAYERS - 1."""
        if not 0 <= index < MAX_LAYERS:
            raise CodecError(f"layer {index} does not exist, expected 0..{MAX_LAYERS - 1}")
        top = max(int(self.first_exponent[0]), 0) if len(self.class0) else 0
        passes = range(top, -1, -1) if index == 0 else (-index,)
        column, exponent, table, edge = (
            np.concatenate(p) for p in zip(*map(self._pass, passes), strict=True)
        )
        width = self.width[column]
        return LayerPlan(
            column=column,
            exponent=exponent,
            table=table,
            edge=edge,
            offset=self.offset[column],
            width=width,
            num_lanes=num_lanes_for(int(width.sum(dtype=np.int64)), int(width.max(initial=0))),
        )

    def edge_at(self, exponent: int, num_columns: int | None = None) -> Array:
        """|index| of the open edge bin of the first columns at an exponent, int16; 0 where not
        started."""
        limit = self.limit[:num_columns]
        passes = self.first_exponent[:num_columns].astype(np.int64) - exponent
        scale = _POWERS_OF_THREE[np.maximum(passes, 0)]
        edge = scale * limit + (scale - 1) // 2 * (NUM_EDGE_SYMBOLS - 2)
        return np.where(passes < 0, 0, edge).astype(np.int16)

    def _pass(self, exponent: int) -> tuple[Array, Array, Array, Array]:
        """Columns that a pass brings to one exponent: those started before, refined, then those
        that start."""
        num_before, num_now = (self._num_started(e) for e in (exponent + 1, exponent))
        class_ = class_at(self.class0[:num_now], exponent)
        table = NUM_START_CLASSES + (class_ - NUM_START_CLASSES) * NUM_CONTEXTS
        table[num_before:] = class_[num_before:]
        column = np.arange(num_now, dtype=np.int32)
        exponents = np.full(num_now, exponent, np.int8)
        return column, exponents, table.astype(np.uint8), self.edge_at(exponent + 1, num_now)

    def _num_started(self, exponent: int) -> int:
        """Columns whose first exponent is at least `exponent`: a prefix of the coding order."""
        if exponent > MAX_EXTRA:
            return 0
        return int(np.count_nonzero(self.first_exponent >= exponent))


def value_places(offset: Array, width: Array) -> Array:
    """Place of every value of runs of `width` values that begin at `offset`, run after run;
    int64."""
    widths = width.astype(np.int64)
    before = np.cumsum(widths) - widths
    places: Array = np.repeat(offset - before, widths) + np.arange(widths.sum())
    return places


def class_at(class0: Array, exponent: Array | int) -> Array:
    """Class at step x 3^exponent of columns of base class `class0`, clamped to the last class;
    int16."""
    classes: Array = np.minimum(
        class0.astype(np.int16) - CLASSES_PER_TRIT * exponent, NUM_CLASSES - 1
    )
    return classes


def num_lanes_for(num_symbols: int, max_width: int) -> int:
    """Lanes of a stream: the largest power of two with 2048 symbols a lane, 1..64, never above
    `max_width`."""
    lanes = 1 << (max(num_symbols // SYMBOLS_PER_LANE, 1).bit_length() - 1)
    return min(lanes, MAX_LANES, max_width)


def scale_at(exponent: Array) -> Array:
    """3^exponent as float64 for exponents of a plan (-3 .. 4); 1 / 3^k below zero, so that it is
    the same everywhere."""
    scales: Array = _SCALES[exponent.astype(np.int64) + (MAX_LAYERS - 1)]
    return scales


_POWERS_OF_THREE = 3 ** np.arange(MAX_EXTRA + MAX_LAYERS + 1)
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
    factors = np.array([gain_factor(g) for g in tiles.gains], np.float64).reshape(num_tiles, 1)
    step = np.array(delta, np.float64) / factors  # (tiles, 2)
    ratio = sigma.astype(np.float64) / step[..., None]  # (tiles, 2, coefs)
    class0 = np.searchsorted(THRESHOLDS, ratio.ravel(), side="right") + (FIRST_THRESHOLD_CLASS - 1)
    order = np.argsort(-class0.astype(np.int8), kind="stable")
    place = np.arange(2 * num_coefs, dtype=np.int32) * tiles.num_tokens
    start = np.array(tiles.starts, np.int32).reshape(num_tiles, 1)
    tile = order // (2 * num_coefs)
    class0 = class0[order].astype(np.int8)
    return ShardPlan(
        num_tokens=tiles.num_tokens,
        num_coefs=num_coefs,
        class0=class0,
        limit=limits[class0 % CLASSES_PER_TRIT].astype(np.int16),
        step=step.ravel()[order // num_coefs],
        offset=(start + place).ravel()[order],
        width=np.array(tiles.widths, np.uint8)[tile],
    )
