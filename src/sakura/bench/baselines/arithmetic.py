"""The textbook arithmetic coder that CacheGen uses, for many streams at once.

Witten, Neal and Cleary, "Arithmetic coding for data compression" (1987): 32-bit bounds, 16-bit
probabilities, bit-wise renormalisation with pending bits. Streams are independent; numpy advances
all of them together, symbol by symbol.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_TOP, _HALF, _QUARTER = 0xFFFFFFFF, 1 << 31, 1 << 30
_ONE = 1 << 16


def chunk_cdf(symbols: Array, num_bins: int) -> Array:
    """Cumulative tables (G, num_bins + 1) uint16 of symbols (G, n) in 0 .. num_bins - 1: every
    symbol keeps at least 1/65536."""
    num_streams, length = symbols.shape
    rows = np.arange(num_streams)[:, None] * num_bins
    counts = np.bincount((rows + symbols).ravel(), minlength=num_streams * num_bins)
    below = np.cumsum(counts.reshape(num_streams, num_bins), 1)
    below = np.concatenate([np.zeros((num_streams, 1), np.int64), below], 1)
    scaled = (0xFFFF - num_bins) * below // max(length, 1) + np.arange(num_bins + 1)
    return scaled.astype("<u2")


class _Bits:
    """Bits written so far by each stream."""

    def __init__(self, num_streams: int, most: int) -> None:
        self.bits = np.zeros((num_streams, most), np.uint8)
        self.length = np.zeros(num_streams, np.int64)
        self.pending = np.zeros(num_streams, np.int64)

    def emit(self, rows: Array, bit: int) -> None:
        """One bit, then the pending ones, which are its opposite."""
        self.bits[rows, self.length[rows]] = bit
        self.length[rows] += 1
        waiting = rows[self.pending[rows] > 0]
        while len(waiting):
            self.bits[waiting, self.length[waiting]] = 1 - bit
            self.length[waiting] += 1
            self.pending[waiting] -= 1
            waiting = waiting[self.pending[waiting] > 0]


def encode(symbols: Array, cdf: Array) -> tuple[bytes, Array]:
    """Streams, one after another, and the length of each in bytes.

    Args:
        symbols: (G, n) integers.
        cdf: (G, num_bins + 1) from `chunk_cdf`.
    """
    num_streams, length = symbols.shape
    bounds = _bounds(cdf)
    low = np.zeros(num_streams, np.int64)
    high = np.full(num_streams, _TOP, np.int64)
    out, rows = _Bits(num_streams, 16 * length + 48), np.arange(num_streams)
    for column in range(length):
        symbol = symbols[:, column].astype(np.int64)
        low, high = _narrow(low, high, bounds[rows, symbol], bounds[rows, symbol + 1])
        _renormalise(low, high, out)
    out.pending += 1
    out.emit(rows[low < _QUARTER], 0)
    out.emit(rows[low >= _QUARTER], 1)
    sizes = (out.length + 7) // 8
    packed = np.packbits(out.bits, axis=1)
    is_used = np.arange(packed.shape[1]) < sizes[:, None]
    return packed[is_used].tobytes(), sizes


def decode(data: bytes, sizes: Array, cdf: Array, length: int) -> Array:
    """Symbols (G, length), uint8, of the streams of `encode`."""
    num_streams = len(sizes)
    bounds, rows = _bounds(cdf), np.arange(num_streams)
    bits, width = _unpacked(data, sizes), 0
    value = np.zeros(num_streams, np.int64)
    for width in range(32):
        value = 2 * value + bits[:, width]
    place = np.full(num_streams, 32)
    low, high = np.zeros(num_streams, np.int64), np.full(num_streams, _TOP, np.int64)
    symbols = np.empty((num_streams, length), np.uint8)
    for column in range(length):
        count = ((value - low + 1) * _ONE - 1) // (high - low + 1)
        symbol = (bounds[:, 1:-1] <= count[:, None]).sum(1)
        symbols[:, column] = symbol
        low, high = _narrow(low, high, bounds[rows, symbol], bounds[rows, symbol + 1])
        _follow(low, high, value, (bits, place))
    return symbols


def _bounds(cdf: Array) -> Array:
    bounds = cdf.astype(np.int64)
    bounds[:, -1] = _ONE
    return bounds


def _narrow(low: Array, high: Array, below: Array, above: Array) -> tuple[Array, Array]:
    span = high - low + 1
    return low + (span * below >> 16), low - 1 + (span * above >> 16)


def _shift(low: Array, high: Array, rows: Array, offset: Array) -> None:
    low[rows] = 2 * (low[rows] - offset)
    high[rows] = 2 * (high[rows] - offset) + 1


def _settled(low: Array, high: Array, rows: Array) -> tuple[Array, Array]:
    """Rows that can shift a bit out, and what to take off their bounds first."""
    lows, highs = low[rows], high[rows]
    is_middle = (lows >= _QUARTER) & (highs < 3 * _QUARTER)
    is_ready = (highs < _HALF) | (lows >= _HALF) | is_middle
    offset = np.where(lows >= _HALF, _HALF, np.where(highs < _HALF, 0, _QUARTER))
    return rows[is_ready], offset[is_ready]


def _renormalise(low: Array, high: Array, out: _Bits) -> None:
    rows, offset = _settled(low, high, np.arange(len(low)))
    while len(rows):
        out.emit(rows[offset == 0], 0)
        out.emit(rows[offset == _HALF], 1)
        out.pending[rows[offset == _QUARTER]] += 1
        _shift(low, high, rows, offset)
        rows, offset = _settled(low, high, rows)


def _follow(low: Array, high: Array, value: Array, source: tuple[Array, Array]) -> None:
    """Renormalise while decoding, reading from (bits, place); both are moved on."""
    bits, place = source
    rows, offset = _settled(low, high, np.arange(len(low)))
    while len(rows):
        _shift(low, high, rows, offset)
        value[rows] = 2 * (value[rows] - offset) + bits[rows, place[rows]]
        place[rows] += 1
        rows, offset = _settled(low, high, rows)


def _unpacked(data: bytes, sizes: Array) -> Array:
    """Bits of each stream, (G, longest + 8 bytes), zero behind the end."""
    longest = int(sizes.max(initial=0)) + 8
    rows = np.zeros((len(sizes), longest), np.uint8)
    rows[np.arange(longest) < sizes[:, None]] = np.frombuffer(data, np.uint8)
    return np.unpackbits(rows, axis=1)
