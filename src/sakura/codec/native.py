"""The two kernels behind one protocol: the numpy reference and the compiled core, bound with
ctypes.

The core is loaded by path and never imported; ctypes releases the interpreter lock while it runs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sakura.codec import quantize, rans
from sakura.codec.plan import LayerPlan, ShardPlan
from sakura.codec.tables import ClassTables
from sakura.errors import CodecError

Array = NDArray[Any]

MODULE = "sakura.codec._core"
ABI_VERSION = 1
VARIABLE = "SAKURA_NATIVE"
"""Set to 0 to use the numpy reference even where the core is built."""


class Kernel(Protocol):
    """The inner loops of the codec; arguments as in `rans` and `quantize`."""

    @property
    def name(self) -> str:
        """`numpy` or `native`."""
        ...

    def encode_layer(
        self, tables: ClassTables, plan: LayerPlan, symbols: Array, table: Array
    ) -> bytes:
        """Stream of a layer."""
        ...

    def decode_layer(
        self, tables: ClassTables, plan: LayerPlan, data: bytes | memoryview, index: Array
    ) -> tuple[int, bool]:
        """Whole units decoded into `index`, and whether the stream ended cleanly."""
        ...

    def dequantize(self, plan: ShardPlan, index: Array, step: Array, shrink: Array) -> Array:
        """Float32 (2, num_coefs, N)."""
        ...


class NumpyKernel:
    """The specification in code."""

    name = "numpy"
    encode_layer = staticmethod(rans.encode_layer)
    decode_layer = staticmethod(rans.decode_layer)
    dequantize = staticmethod(quantize.dequantize)


class NativeKernel:
    """The compiled core (native/core.cpp)."""

    name = "native"

    def __init__(self, library: ctypes.CDLL) -> None:
        """Bind the functions of a loaded core; CodecError when it was built from another
        version."""
        library.sakura_abi_version.restype = ctypes.c_int32
        found = library.sakura_abi_version()
        if found != ABI_VERSION:
            raise CodecError(
                f"the native codec core has interface {found}, expected {ABI_VERSION}",
                hint=f"reinstall the package, or set {VARIABLE}=0 to do without it",
            )
        self._decode = library.sakura_decode_layer
        self._decode.restype = ctypes.c_int32
        self._encode = library.sakura_encode_layer
        self._encode.restype = ctypes.c_int64
        self._dequantize = library.sakura_dequantize
        self._dequantize.restype = ctypes.c_int32

    def encode_layer(
        self, tables: ClassTables, plan: LayerPlan, symbols: Array, table: Array
    ) -> bytes:
        """See `rans.encode_layer`."""
        if plan.num_units == 0:
            return b""
        assert symbols.dtype == np.uint8 and table.dtype == np.uint8 and symbols.size == table.size
        out = np.empty(symbols.size + 2 * plan.num_lanes, np.uint8)
        num_bytes = self._encode(
            _address(symbols),
            _address(table),
            ctypes.c_int64(symbols.size),
            _address(plan.width),
            ctypes.c_int32(plan.num_units),
            ctypes.c_int32(plan.num_lanes),
            _address(tables.frequencies),
            _address(tables.cumulatives),
            _address(out),
            ctypes.c_int64(out.size),
        )
        assert num_bytes >= 0, "the core refused a layer plan"
        return out[out.size - num_bytes :].tobytes()

    def decode_layer(
        self, tables: ClassTables, plan: LayerPlan, data: bytes | memoryview, index: Array
    ) -> tuple[int, bool]:
        """See `rans.decode_layer`."""
        assert index.dtype == np.int16 and index.ndim == 1
        source = np.frombuffer(data, np.uint8)
        is_clean = ctypes.c_int32(0)
        num_units = self._decode(
            _address(source),
            ctypes.c_int64(source.size),
            _address(tables.slots),
            _address(plan.offset),
            _address(plan.width),
            _address(plan.table),
            _address(plan.edge),
            ctypes.c_int32(plan.num_units),
            ctypes.c_int32(plan.num_lanes),
            _address(index),
            ctypes.c_int32(index.size),
            ctypes.byref(is_clean),
        )
        assert num_units >= 0, "the core refused a layer plan"
        return num_units, bool(is_clean.value)

    def dequantize(self, plan: ShardPlan, index: Array, step: Array, shrink: Array) -> Array:
        """See `quantize.dequantize`."""
        assert index.dtype == np.int16 and step.dtype == np.float32 and shrink.dtype == np.float32
        out = np.empty(plan.shape, np.float32)
        status = self._dequantize(
            _address(index),
            ctypes.c_int32(index.size),
            _address(plan.offset),
            _address(plan.width),
            _address(step),
            _address(shrink),
            ctypes.c_int32(len(step)),
            _address(out),
        )
        assert status == 0, "the core refused a shard plan"
        return out


def default_kernel() -> Kernel:
    """The native core where it is built and not switched off, else numpy."""
    if os.environ.get(VARIABLE) == "0":
        return NumpyKernel()
    return native_kernel() or NumpyKernel()


@cache
def native_kernel() -> NativeKernel | None:
    """The native core, or None when it is not built."""
    spec = importlib.util.find_spec(MODULE)
    if spec is None or spec.origin is None:
        return None
    return NativeKernel(ctypes.CDLL(spec.origin))


def _address(array: Array) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.__array_interface__["data"][0])
