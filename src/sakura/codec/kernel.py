"""What a kernel does, and the numpy one, which is the specification in code. Knows no library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sakura.codec import quantize, rans
from sakura.codec.bf16 import to_bf16
from sakura.codec.plan import LayerPlan, ShardPlan
from sakura.codec.quantize import Quantized
from sakura.codec.tables import ClassTables
from sakura.codec.transform import rotate_back

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Where a decoder stands: int16 flat indices in the layout of the plan, and int8 (C,) exponent
    of each column or UNSTARTED."""

    index: Array
    exponent: Array


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Where K and V go.

    Args:
        basis: float32 (G, E, R), channel bases of the block.
        values: (2, N, H, D), contiguous; float32, or uint16 for the bits of bfloat16.
        is_wanted: bool (T, G), tiles of groups to write; None for all.
    """

    basis: Array
    values: Array
    is_wanted: Array | None = None


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
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, out: Array
    ) -> None:
        """Write coefficients (2, num_coefs, N): float32, or uint16 for the bits of bfloat16."""
        ...

    def reconstruct(
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, target: Target
    ) -> None:
        """Write K and V, see `transform.rotate_back`."""
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
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, out: Array
    ) -> None:
        """See `Kernel.dequantize`."""
        out[:] = _as_dtype(self._coefficients(tables, plan, standing), out.dtype)

    def reconstruct(
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, target: Target
    ) -> None:
        """See `Kernel.reconstruct`."""
        coef = self._coefficients(tables, plan, standing).transpose(0, 2, 1)
        values = _as_dtype(rotate_back(target.basis, coef), target.values.dtype)
        if target.is_wanted is None:
            target.values[:] = values.reshape(target.values.shape)
            return
        shape = 2, plan.num_tokens, len(target.basis), -1
        is_wanted = np.repeat(target.is_wanted, plan.tile_width, axis=0)
        target.values.reshape(shape)[:, is_wanted] = values.reshape(shape)[:, is_wanted]

    @staticmethod
    def _coefficients(tables: ClassTables, plan: ShardPlan, standing: Standing) -> Array:
        if (standing.exponent == quantize.UNSTARTED).all():
            return np.zeros(plan.shape, np.float32)
        step, shrink = quantize.column_scales(tables, plan, standing.exponent)
        return quantize.dequantize(plan, standing.index, step, shrink)


def _as_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    assert dtype in (np.float32, np.uint16)
    return values if dtype == np.float32 else to_bf16(values)
