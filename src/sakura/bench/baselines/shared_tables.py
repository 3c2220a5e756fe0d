"""Entropy coding with tables that both sides have from calibration: one table a row of symbols.

The coder is the range coder of `constriction`, one stream for all rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_PRIOR = 4.0
"""Samples that the Laplacian prior is worth in a table."""
_WIDEST = 1023
_ESCAPE = np.dtype([("place", "<u4"), ("value", "<i4")])


@dataclass(frozen=True, slots=True, eq=False)
class SharedTables:
    """Distributions of integers -limit .. limit.

    Args:
        probabilities: (G, 2 * limit + 1) float32.
    """

    probabilities: Array

    @property
    def limit(self) -> int:
        """Largest size of a symbol that needs no escape."""
        return self.probabilities.shape[1] // 2

    def encode(self, symbols: Array) -> bytes:
        """A stream of symbols (G, n), integers of any size."""
        import constriction

        limit = self.limit
        is_escaped = np.abs(symbols) > limit
        escapes = np.zeros(int(is_escaped.sum()), _ESCAPE)
        escapes["place"] = np.flatnonzero(is_escaped)
        escapes["value"] = symbols[is_escaped]
        kept = np.where(is_escaped, 0, symbols).astype(np.int32) + limit
        coder = constriction.stream.queue.RangeEncoder()
        for row, model in zip(kept, self._models(), strict=True):
            coder.encode(row, model)
        words = coder.get_compressed().astype("<u4").tobytes()
        return struct.pack("<II", len(escapes), len(words)) + escapes.tobytes() + words

    def decode(self, data: bytes, length: int) -> tuple[Array, int]:
        """Symbols (G, length) int32 and how many bytes they took."""
        import constriction

        num_escapes, num_bytes = struct.unpack_from("<II", data)
        escapes = np.frombuffer(data, _ESCAPE, num_escapes, 8)
        start = 8 + escapes.nbytes
        words = np.frombuffer(data, "<u4", num_bytes // 4, start).astype(np.uint32)
        coder = constriction.stream.queue.RangeDecoder(words)
        symbols = np.empty((len(self.probabilities), length), np.int32)
        for row, model in zip(symbols, self._models(), strict=True):
            row[:] = coder.decode(model, length)
        symbols -= self.limit
        symbols.ravel()[escapes["place"]] = escapes["value"]
        return symbols, start + num_bytes

    def _models(self) -> Iterable[Any]:
        import constriction

        for row in self.probabilities:
            yield constriction.stream.model.Categorical(row, perfect=False)


def fit_tables(symbols: Iterable[Array]) -> SharedTables:
    """Tables of rows from calibration symbols, arrays (G, n) that differ in n: their histogram,
    smoothed by a Laplacian of the same spread."""
    planes = list(symbols)
    largest = max((int(np.abs(plane).max(initial=0)) for plane in planes), default=0)
    limit = min(largest + 2 + largest // 4, _WIDEST)
    size, num_rows = 2 * limit + 1, len(planes[0])
    counts = np.zeros((num_rows, size))
    rows = np.arange(num_rows)[:, None] * size
    for plane in planes:
        kept = np.clip(plane, -limit, limit) + limit
        counts += np.bincount((rows + kept).ravel(), minlength=counts.size).reshape(counts.shape)
    total = counts.sum(1, keepdims=True)
    values = np.abs(np.arange(-limit, limit + 1))
    spread = ((counts * values).sum(1, keepdims=True) + 0.5) / (total + 1)
    prior = np.exp(-values / np.maximum(spread, 0.05)) + 1e-9
    prior /= prior.sum(1, keepdims=True)
    smoothed = (counts + _PRIOR * prior) / (total + _PRIOR)
    return SharedTables(smoothed.astype(np.float32))
