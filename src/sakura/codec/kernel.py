"""What a kernel does, and the numpy one, which is the specification in code. Knows no library."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sakura.codec import quantize, rans
from sakura.codec.plan import LayerPlan, ShardPlan
from sakura.codec.quantize import Quantized
from sakura.codec.tables import ClassTables

Array = NDArray[Any]


class Kernel(Protocol):
    """The inner loops of the codec."""

    @property
    def name(self) -> str:
        """`numpy`, or `native` with the instruction set."""
        ...

    def quantize(
        self, tables: ClassTables, plan: ShardPlan, coef: Array, num_layers: int
    ) -> Quantized:
        """Float32 (2, N, num_coefs) to indices of the last layer; see `quantize.quantize_shard`."""
        ...

    def encode_layer(
        self, tables: ClassTables, plan: LayerPlan, index: Array, finest: int
    ) -> bytes:
        """Stream of a layer, from int16 indices at step x 3^finest."""
        ...

    def decode_layer(
        self, tables: ClassTables, plan: LayerPlan, data: bytes | memoryview, index: Array
    ) -> tuple[int, bool]:
        """Whole units decoded into `index`, and whether the stream ended cleanly; see
        `rans.decode_layer`."""
        ...

    def dequantize(
        self, tables: ClassTables, plan: ShardPlan, index: Array, exponent: Array
    ) -> Array:
        """Float32 (2, num_coefs, N) of indices, given the exponent of each column."""
        ...


class NumpyKernel:
    """The specification in code."""

    name = "numpy"
    quantize = staticmethod(quantize.quantize_shard)
    decode_layer = staticmethod(rans.decode_layer)

    def encode_layer(
        self, tables: ClassTables, plan: LayerPlan, index: Array, finest: int
    ) -> bytes:
        """See `Kernel.encode_layer`."""
        if plan.num_units == 0:
            return b""
        return rans.encode_layer(tables, plan, *quantize.layer_symbols(tables, plan, index, finest))

    def dequantize(
        self, tables: ClassTables, plan: ShardPlan, index: Array, exponent: Array
    ) -> Array:
        """See `Kernel.dequantize`."""
        if (exponent == quantize.UNSTARTED).all():
            return np.zeros(plan.shape, np.float32)
        return quantize.dequantize(plan, index, *quantize.column_scales(tables, plan, exponent))
