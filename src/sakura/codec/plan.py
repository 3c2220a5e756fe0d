"""Plans a shard: which columns each layer codes, in which order, with which table. Pure; knows no
stream bytes.

A *column* is one tile x one coefficient; a *unit* is one coding pass over a column.
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
    """Columns of a shard in coding order: by class, tile, plane, coefficient.

    Args:
        num_tokens: N.
        num_coefs: H * Dh.
        class0: int8 (C,), class of each column at the base step, never rising; negative = not in
            the base layer.
        limits: largest |index| of each start alphabet.
        step: float64 (C,), base step.
        offset: int32 (C,), place of the column's first value in an array (2, num_coefs, N).
        width: uint8 (C,), tokens of the column's tile.
    """

    num_tokens: int
    num_coefs: int
    class0: Array
    limits: tuple[int, ...]
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

    def edge_at(self, exponent: int) -> Array:
        """|index| of each column's open edge bin at an exponent, int16; 0 where not started."""
        return np.repeat(class_edges(exponent, self.limits), self.class_counts)

    def _pass(self, exponent: int) -> tuple[Array, Array, Array, Array]:
        """Columns that a pass brings to one exponent: a prefix of the coding order."""
        rows = class_pass(exponent, self.limits)
        counts = self.class_counts[: len(rows.table)]
        table, edge = np.repeat(rows.table, counts), np.repeat(rows.edge, counts)
        column = np.arange(len(table), dtype=np.int32)
        return column, np.full(len(table), exponent, np.int8), table, edge


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
        sigma: float32 (2, num_coefs), standard deviations of the coefficients of both planes.
        limits: int (NUM_START_CLASSES,), largest |index| of each start alphabet.
        delta: base step of each plane.
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
    class0 = np.searchsorted(THRESHOLDS, ratio.ravel(), side="right") + LOWEST_CLASS0
    order = np.argsort(-class0.astype(np.int8), kind="stable")
    place = np.arange(2 * num_coefs, dtype=np.int32) * tiles.num_tokens
    start = np.array(tiles.starts, np.int32).reshape(num_tiles, 1)
    tile = order // (2 * num_coefs)
    class0 = class0[order].astype(np.int8)
    return ShardPlan(
        num_tokens=tiles.num_tokens,
        num_coefs=num_coefs,
        class0=class0,
        limits=tuple(limits.tolist()),
        step=step.ravel()[order // num_coefs],
        offset=(start + place).ravel()[order],
        width=np.array(tiles.widths, np.uint8)[tile],
    )
