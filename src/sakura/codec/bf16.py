"""bfloat16 as numpy has none: its bits in uint16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.errors import CodecError

Array = NDArray[Any]


def to_bf16(values: Array) -> Array:
    """Round float32 to bfloat16 bits (uint16), ties to even; CodecError when a value overflows."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded: Array = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    if (rounded & 0x7F80 == 0x7F80).any():
        raise CodecError("a value is too large for bfloat16")
    return rounded


def from_bf16(bits: Array) -> Array:
    """Float32 of bfloat16 bits (uint16)."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
