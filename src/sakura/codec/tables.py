"""The class tables of the codec: what a symbol costs and where a bin is reconstructed.

A class says how large sigma is in units of the step. This module holds the fixed numbers and their
checks; it does not know how they were fitted (`tablegen`) nor how they are coded (`rans`,
`native/`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.errors import CodecError

Array = NDArray[Any]

CLASSES_PER_TRIT = 3
"""Classes per factor 3 of sigma/step, so that one refinement moves a column by exactly this many
classes."""
NUM_START_CLASSES = CLASSES_PER_TRIT
NUM_CLASSES = 12
MAX_INDEX = 7
"""A start symbol is an index in [-7, 7]."""
NUM_START_SYMBOLS = 2 * MAX_INDEX + 1
NUM_CONTEXTS = 4
"""Contexts of a refinement: min(|q|, 2), and 3 for a value in the open bin at the edge."""
EDGE_CONTEXT = 3
NUM_EDGE_SYMBOLS = 15
"""Refining the open edge bin: three symbols inside its first step, eleven beyond, the last is open
again."""
NUM_TABLES = NUM_START_CLASSES + (NUM_CLASSES - NUM_START_CLASSES) * NUM_CONTEXTS
TOTAL = 256
"""Frequencies of a table sum to this."""
SHRINK_UNIT = 128
"""Shrink values count in 1/128 of a step."""

# Class 0 begins at sigma/step = 0.36: below, coding a column costs more rate than its distortion is
# worth (benchmarks/codec_rate.py). Literals, because a power of 3 must be the same double on every
# platform.
FIRST_THRESHOLD_CLASS = -9
THRESHOLDS: tuple[float, ...] = (
    0.013333333333333334,
    0.019229994270765445,
    0.02773445097402539,
    0.04,
    0.057689982812296335,
    0.08320335292207616,
    0.12,
    0.173069948436889,
    0.2496100587662285,
    0.36,
    0.519209845310667,
    0.7488301762986855,
    1.08,
    1.5576295359320012,
    2.2464905288960564,
    3.24,
    4.672888607796003,
    6.739471586688169,
    9.72,
    14.018665823388009,
    20.21841476006451,
    29.16,
    42.05599747016403,
    60.65524428019352,
)
"""Lower bounds of the classes -9 .. 14: 0.36 * 3^(c/3)."""
MAX_CLASS0 = FIRST_THRESHOLD_CLASS + len(THRESHOLDS) - 1


@dataclass(frozen=True, eq=False)
class ClassTables:
    """Frequencies and reconstruction offsets of every class.

    Args:
        start: uint8 (NUM_START_CLASSES, 15), frequency of index q at column q + 7; zero outside the
            alphabet -m..m.
        ternary: uint8 (NUM_CLASSES - NUM_START_CLASSES, 3, 3): class, context min(|q|, 2), symbol.
        edge: uint8 (NUM_CLASSES - NUM_START_CLASSES, 15): class, symbol; for values in the open
            edge bin.
        shrink: uint8 (NUM_CLASSES, 2): pull toward zero of |q| = 1 and |q| >= 2, in 1/128 of the
            step.

    Raises:
        CodecError: a shape is wrong, a row does not sum to 256, an alphabet has a gap, or a shrink
            reaches half a step.
    """

    start: Array
    ternary: Array
    edge: Array
    shrink: Array

    def __post_init__(self) -> None:
        """Refuse tables that could not be decoded safely."""
        for name, shape in _SHAPES.items():
            _check_array(name, getattr(self, name), shape)
        if any(
            (t.sum(-1, dtype=int) != TOTAL).any() for t in (self.start, self.ternary, self.edge)
        ):
            raise CodecError("a class table does not sum to 256")
        if (self.ternary == 0).any() or (self.edge == 0).any():
            raise CodecError("a refinement table has a symbol of frequency 0")
        for row in self.start:
            limit = int(np.abs(np.flatnonzero(row) - MAX_INDEX).max())
            if limit < 2 or np.count_nonzero(row) != 2 * limit + 1:
                raise CodecError("a start table is not an alphabet -m..m with m >= 2")
        if (self.shrink > SHRINK_UNIT // 2).any():
            raise CodecError("a shrink is above half a step")

    @cached_property
    def limits(self) -> Array:
        """Largest |q| of each start class, int64 (NUM_START_CLASSES,)."""
        return np.count_nonzero(self.start, axis=1) // 2

    @cached_property
    def frequencies(self) -> Array:
        """All tables in one array, uint16 (NUM_TABLES, 16): start tables, then (class, context)
        refinement tables."""
        flat = np.zeros((NUM_TABLES, 16), np.uint16)
        flat[:NUM_START_CLASSES, :NUM_START_SYMBOLS] = self.start
        refinement = flat[NUM_START_CLASSES:].reshape(-1, NUM_CONTEXTS, 16)
        refinement[:, :EDGE_CONTEXT, :3] = self.ternary
        refinement[:, EDGE_CONTEXT, :NUM_EDGE_SYMBOLS] = self.edge
        return flat

    @cached_property
    def cumulatives(self) -> Array:
        """Exclusive running sums of `frequencies`, uint16 (NUM_TABLES, 16)."""
        sums: Array = np.cumsum(self.frequencies, axis=1, dtype=np.uint16) - self.frequencies
        return sums

    @cached_property
    def slots(self) -> Array:
        """Decoding view, uint32 (NUM_TABLES, 256): symbol | frequency << 8 | (slot - cumulative) <<
        16."""
        slots = np.empty((NUM_TABLES, TOTAL), np.uint32)
        for row, counts, sums in zip(slots, self.frequencies, self.cumulatives, strict=True):
            symbol = np.repeat(np.arange(16), counts)
            row[:] = (
                symbol | counts[symbol].astype(int) << 8 | (np.arange(TOTAL) - sums[symbol]) << 16
            )
        return slots

    @cached_property
    def shrink_steps(self) -> Array:
        """`shrink` in steps, float32 (NUM_CLASSES, 2); exact, as 128 is a power of two."""
        return (self.shrink / SHRINK_UNIT).astype(np.float32)

    def to_bytes(self) -> bytes:
        """Canonical bytes: start, ternary, edge, shrink, row-major, one byte a value."""
        return b"".join(getattr(self, name).tobytes() for name in _SHAPES)


_NUM_FINE = NUM_CLASSES - NUM_START_CLASSES
_SHAPES: dict[str, tuple[int, ...]] = {
    "start": (NUM_START_CLASSES, NUM_START_SYMBOLS),
    "ternary": (_NUM_FINE, 3, 3),
    "edge": (_NUM_FINE, NUM_EDGE_SYMBOLS),
    "shrink": (NUM_CLASSES, 2),
}
TABLE_BYTES = sum(math.prod(shape) for shape in _SHAPES.values())


def tables_from_bytes(data: bytes) -> ClassTables:
    """Parse `ClassTables.to_bytes`; CodecError when the length or the content is wrong."""
    if len(data) != TABLE_BYTES:
        raise CodecError(f"class tables take {TABLE_BYTES} bytes, found {len(data)}")
    flat, place, arrays = np.frombuffer(data, np.uint8), 0, {}
    for name, shape in _SHAPES.items():
        arrays[name] = flat[place : place + math.prod(shape)].reshape(shape)
        place += math.prod(shape)
    return ClassTables(**arrays)


def default_tables() -> ClassTables:
    """Tables of the built-in source model (half Laplacian, half Gaussian); see `tablegen`."""
    return tables_from_bytes(bytes.fromhex(DEFAULT_HEX))


def _check_array(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.dtype != np.uint8 or array.shape != shape:
        raise CodecError(f"table {name} is {array.dtype} {array.shape}, expected uint8 {shape}")


# Output of `python -m sakura.codec.tablegen`; tests regenerate and compare.
DEFAULT_HEX = (
    "0000000000011cc61c0100000000000000000001032ca02c03010000000000000001020b357a350b0201000000"
    "447745bd360db339144a6c4a974a1fa6401a4e644e7d51328e4b275060506d543f785236525c526455476b5441"
    "535a535f554c6355485359545c554f5f554c5457555a55515b5550545854585751595651863e1d0d0603010101"
    "010101010101683d24150c070403020101010101014f37261a120c0906040302010101013a2d231b15100c0a07"
    "0604030302072a231d1915110e0c0a0807060504151e1a171412100e0d0b0a090807062d151312100f0e0d0b0b"
    "0a090807074d0f0e0d0c0c0b0a0a0909080807076f0a0a0a090908080807070707060690211f171b0e13090c06"
    "080405030302020102010101010100"
)
