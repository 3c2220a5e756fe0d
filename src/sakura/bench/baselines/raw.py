"""Uncompressed bfloat16, plain and behind zstd: what a store without a K/V codec would send."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.bench.baselines.base import (
    HEADER_BYTES,
    check_state,
    read_header,
    write_header,
)
from sakura.codec.bf16 import from_bf16, to_bf16

Array = NDArray[Any]


class RawBf16:
    """Two bytes a value."""

    name, shares, points = "bf16", "nothing", (16.0,)

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        return write_header(state, point) + to_bf16(state).tobytes()

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        shape, _ = read_header(data)
        return from_bf16(np.frombuffer(data, "<u2", offset=HEADER_BYTES)).reshape(shape)


class ZstdBf16:
    """The same with all high bytes before all low bytes, which suits zstd better."""

    name, shares, points = "bf16+zstd", "nothing", (16.0,)
    _LEVEL = 9

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        import zstandard

        state = check_state(state)
        planes = to_bf16(state).ravel().view(np.uint8).reshape(-1, 2).T.tobytes()
        return write_header(state, point) + zstandard.compress(planes, self._LEVEL)

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        import zstandard

        shape, _ = read_header(data)
        planes = np.frombuffer(zstandard.decompress(data[HEADER_BYTES:]), np.uint8)
        bits = np.ascontiguousarray(planes.reshape(2, -1).T).view("<u2")
        return from_bf16(bits.ravel()).reshape(shape)
