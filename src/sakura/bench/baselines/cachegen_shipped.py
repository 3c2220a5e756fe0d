"""CacheGen as its code has it (UChi-JCL/CacheGen, 2024), on a diffusion transformer: layers become
blocks, a streaming chunk becomes one denoising step of all blocks.

One absmax scale per block and token over all channels, few bins, an arithmetic coder per channel in
sub-blocks of 256 tokens, and a table per channel in every chunk. Departures: an all-zero token
codes as zeros instead of NaN, sizes of streams are stored in 16 bits, the container is a header.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines.arithmetic import chunk_cdf, decode, encode
from sakura.bench.baselines.base import (
    HEADER_BYTES,
    channels,
    check_state,
    read_header,
    write_header,
)
from sakura.codec.bf16 import from_bf16, to_bf16

Array = NDArray[Any]

_SUB_BLOCK_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of the first blocks and of the rest; the share of blocks that count as first, for K and
    V."""

    first: int
    rest: int
    first_k: float = 10 / 32
    first_v: float = 2 / 32

    def per_block(self, num_blocks: int) -> Array:
        """(B, 2) bins."""
        place = np.arange(num_blocks)[:, None] / max(num_blocks, 1)
        return np.where(place < [self.first_k, self.first_v], self.first, self.rest)


LEVELS = {
    -3.0: Bins(4, 4),
    -2.0: Bins(6, 4),
    -1.0: Bins(8, 6),
    0.0: Bins(12, 8),
    1.0: Bins(16, 12, first_k=20 / 32),
    2.0: Bins(32, 16),
    3.0: Bins(32, 32),
}
"""Levels 1 to 3 are CacheGen's; the coarser ones continue them, so that there is a curve."""


class CacheGenShipped:
    """See the module."""

    name, shares = "cachegen-shipped", "bins of each level"
    points = tuple(LEVELS)

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        values = channels(state).transpose(2, 0, 1, 4, 3)  # (S, B, 2, C, N)
        bins = LEVELS[point].per_block(len(state))[:, :, None, None]
        parts = [write_header(state, point)]
        for chunk in values:
            scale = to_bf16(np.abs(chunk).max(2, initial=0, keepdims=True))
            symbols = _quantised(chunk, from_bf16(scale), bins // 2 - 1)
            symbols = symbols.reshape(math.prod(symbols.shape[:-1]), symbols.shape[-1])
            cdf = chunk_cdf(symbols, int(bins.max()))
            parts += [scale.tobytes(), cdf.tobytes(), *_streams(symbols, cdf)]
        return b"".join(parts)

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        (b, two, s, n, h, d), point = read_header(data)
        bins = LEVELS[point].per_block(b)
        source, chunks = _Source(data, HEADER_BYTES), []
        half = (bins // 2 - 1)[:, :, None, None]
        for _ in range(s):
            scale = from_bf16(source.take("<u2", b * two * n)).reshape(b, two, 1, n)
            width = int(bins.max(initial=0)) + 1
            cdf = source.take("<u2", b * two * h * d * width).reshape(-1, width)
            symbols = _symbols(source, cdf, n).reshape(b, two, h * d, n)
            chunks.append((symbols.astype(np.float32) - half) / half * scale)
        stacked = np.stack(chunks, 2) if chunks else np.zeros((b, two, 0, h * d, n))
        state = np.swapaxes(stacked, 3, 4).reshape(b, two, s, n, h, d)
        return np.ascontiguousarray(state, np.float32)


class _Source:
    """Bytes taken one array after another."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place

    def take(self, dtype: str, count: int) -> Array:
        values = np.frombuffer(self._data, dtype, count, self._place)
        self._place += values.nbytes
        return values


def _quantised(chunk: Array, scale: Array, half: Array) -> Array:
    factor = np.divide(half, scale, out=np.zeros(scale.shape, np.float32), where=scale > 0)
    # A scale rounded down to bfloat16 leaves the largest values just outside.
    return np.clip(np.rint(chunk * factor) + half, 0, 2 * half).astype(np.uint8)


def _streams(symbols: Array, cdf: Array) -> list[bytes]:
    parts = []
    for start in range(0, symbols.shape[1], _SUB_BLOCK_TOKENS):
        streams, sizes = encode(symbols[:, start : start + _SUB_BLOCK_TOKENS], cdf)
        parts += [sizes.astype("<u2").tobytes(), streams]
    return parts


def _symbols(source: _Source, cdf: Array, num_tokens: int) -> Array:
    parts = []
    for start in range(0, num_tokens, _SUB_BLOCK_TOKENS):
        sizes = source.take("<u2", len(cdf)).astype(np.int64)
        streams = source.take("u1", int(sizes.sum())).tobytes()
        parts.append(decode(streams, sizes, cdf, min(_SUB_BLOCK_TOKENS, num_tokens - start)))
    return np.concatenate(parts, 1) if parts else np.zeros((len(cdf), 0), np.uint8)
