"""Plain int8 and int4: symmetric absmax with one bfloat16 scale per token and head, packed, no
entropy coder. That is how serving engines quantise a K/V cache."""

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


class Integers:
    """Absmax integers.

    Args:
        bits: 8 or 4.
    """

    shares = "nothing"

    def __init__(self, bits: int) -> None:
        self.name = f"int{bits}"
        self.points = (float(bits),)
        self._bits = bits

    def encode(self, state: Array, point: float) -> bytes:
        """See `Baseline.encode`."""
        state = check_state(state)
        scale = to_bf16(np.abs(state).max(-1, initial=0))
        step = from_bf16(scale)[..., None] / self._largest
        ratio = np.divide(state, step, out=np.zeros_like(state), where=step > 0)
        q = np.clip(np.rint(ratio), -self._largest, self._largest).astype(np.int8)
        return write_header(state, point) + scale.tobytes() + self._packed(q.ravel()).tobytes()

    def decode(self, data: bytes) -> Array:
        """See `Baseline.decode`."""
        shape, _ = read_header(data)
        num_scales = int(np.prod(shape[:5]))
        scale = np.frombuffer(data, "<u2", num_scales, HEADER_BYTES)
        step = from_bf16(scale).reshape(shape[:5])[..., None] / np.float32(self._largest)
        packed = np.frombuffer(data, np.uint8, offset=HEADER_BYTES + 2 * num_scales)
        q = self._unpacked(packed)[: num_scales * shape[5]].reshape(shape)
        return np.asarray(q * step, np.float32)

    @property
    def _largest(self) -> int:
        return (1 << (self._bits - 1)) - 1

    def _packed(self, q: Array) -> Array:
        if self._bits == 8:
            return q
        even = np.concatenate([q, np.zeros(len(q) % 2, np.int8)]).view(np.uint8) & 15
        return even[0::2] | even[1::2] << 4

    def _unpacked(self, packed: Array) -> Array:
        if self._bits == 8:
            return packed.view(np.int8)
        nibbles = np.stack([packed & 15, packed >> 4], 1).ravel()
        return (nibbles ^ 8).astype(np.int8) - 8
