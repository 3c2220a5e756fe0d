"""The compiled core (native/), bound with ctypes, and which kernel is used where.

The core is loaded by path and never imported; ctypes releases the interpreter lock while it runs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sakura.codec import abi
from sakura.codec.classes import class_edges
from sakura.codec.kernel import Kernel, NumpyKernel, Standing, Target
from sakura.codec.plan import LayerPlan, ShardPlan
from sakura.codec.quantize import Quantized
from sakura.codec.tables import ClassTables
from sakura.errors import CodecError

Array = NDArray[Any]

MODULE = "sakura.codec._core"
VARIABLE = "SAKURA_NATIVE"
"""Set to 0 to use the numpy reference even where the core is built, or to the name of an
instruction set (`scalar`, `sse4`, `avx2`, `avx512`, `neon`) to use that instead of the best."""
_SLACK = 8
_MAX_BASES = 64


class _Bases:
    """Channel bases as the core reads them, of the few blocks used last."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._recent: dict[int, tuple[Array, Array]] = {}

    def prepared(self, basis_2HDD: Array) -> Array:
        """Same basis, ready for `sakura_reconstruct`."""
        key = abi.address(basis_2HDD)
        found = self._recent.pop(key, None)
        if found is None or (
            found[0] is not basis_2HDD and not np.shares_memory(found[0], basis_2HDD)
        ):
            _, num_heads, head_dim, _ = basis_2HDD.shape
            room = abi.aligned(self._library.sakura_basis_size(num_heads, head_dim))
            self._library.sakura_prepare_basis(key, num_heads, head_dim, abi.address(room))
            found = (basis_2HDD, room)
        self._recent[key] = found
        while len(self._recent) > _MAX_BASES:
            self._recent.pop(next(iter(self._recent)), None)
        return found[1]


class NativeKernel:
    """The core compiled for one instruction set."""

    def __init__(self, library: ctypes.CDLL, number: int) -> None:
        """Kernel `number` of a loaded core."""
        self._library, self._number = library, number
        self.isa: str = library.sakura_kernel_name(number).decode()
        self._tables: WeakKeyDictionary[ClassTables, Array] = WeakKeyDictionary()
        self._bases = _Bases(library)

    @property
    def name(self) -> str:
        """Such as `native-avx2`."""
        return f"native-{self.isa}"

    def quantize(
        self, tables: ClassTables, plan: ShardPlan, coef: Array, num_layers: int
    ) -> Quantized:
        """See `quantize.quantize_shard`."""
        coef = np.ascontiguousarray(coef, np.float32)
        num_tiles, finest = len(plan.tile_width), 1 - num_layers
        square = np.zeros((1 + num_layers, num_tiles, 2))
        clipped = np.zeros(num_layers, np.int64)
        edge = np.stack([class_edges(-layer, plan.limits) for layer in range(num_layers)])
        index = np.empty(2 * plan.num_coefs * plan.num_tokens, np.int16)
        sums = abi.Sums(*map(abi.address, (square, clipped, edge)), num_layers)
        self._check(
            self._library.sakura_quantize(
                self._number,
                _shard(plan, tables),
                abi.address(coef),
                sums,
                abi.address(index),
            )
        )
        return Quantized(index, finest, square[0], square[1:], clipped)

    def encode_layer(
        self, tables: ClassTables, plan: LayerPlan, index: Array, finest: int
    ) -> bytes:
        """See `Kernel.encode_layer`."""
        if plan.num_units == 0:
            return b""
        assert index.dtype == np.int16 and index.ndim == 1
        out = np.empty(plan.num_values + 2 * plan.num_lanes + _SLACK, np.uint8)
        num_bytes = self._check(
            self._library.sakura_encode_layer(
                self._number,
                abi.address(self._prepared(tables)),
                _layer(plan, index),
                abi.address(index),
                finest,
                abi.address(out),
                out.size,
            )
        )
        return out[out.size - num_bytes :].tobytes()

    def decode_layer(
        self, tables: ClassTables, plan: LayerPlan, data: bytes | memoryview, index: Array
    ) -> tuple[int, bool]:
        """See `rans.decode_layer`."""
        assert index.dtype == np.int16 and index.ndim == 1
        source = np.frombuffer(data, np.uint8)
        stream = abi.Stream(abi.address(source), source.size, 0)
        num_units = self._check(
            self._library.sakura_decode_layer(
                self._number,
                abi.address(self._prepared(tables)),
                _layer(plan, index),
                stream,
                abi.address(index),
            )
        )
        return num_units, bool(stream.is_clean)

    def dequantize(
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, out: Array
    ) -> None:
        """See `Kernel.dequantize`."""
        assert out.shape == plan.shape and out.dtype in (np.float32, np.uint16)
        exponent = plan.in_map(standing.exponent)
        self._check(
            self._library.sakura_dequantize(
                self._number,
                _shard(plan, tables, exponent),
                abi.address(standing.index),
                abi.address(out),
                out.dtype == np.uint16,
            )
        )

    def reconstruct(
        self, tables: ClassTables, plan: ShardPlan, standing: Standing, target: Target
    ) -> None:
        """See `Kernel.reconstruct`."""
        _, num_heads, head_dim, _ = target.basis.shape
        if self._library.sakura_basis_size(num_heads, head_dim) < 0:
            NumpyKernel().reconstruct(tables, plan, standing, target)
            return
        assert target.values.shape == (2, plan.num_tokens, num_heads, head_dim)
        exponent, basis = plan.in_map(standing.exponent), self._bases.prepared(target.basis)
        is_wanted = target.is_wanted
        output = abi.Output(
            abi.address(basis),
            None if is_wanted is None else abi.address(is_wanted),
            abi.address(target.values),
            num_heads,
            head_dim,
            target.values.dtype == np.uint16,
        )
        self._check(
            self._library.sakura_reconstruct(
                self._number,
                _shard(plan, tables, exponent),
                abi.address(standing.index),
                output,
            )
        )

    def _prepared(self, tables: ClassTables) -> Array:
        """The tables as the core reads them."""
        if tables not in self._tables:
            room = abi.aligned(self._library.sakura_tables_size())
            self._check(
                self._library.sakura_build_tables(
                    abi.address(tables.frequencies), abi.address(room)
                )
            )
            self._tables[tables] = room
        return self._tables[tables]

    @staticmethod
    def _check(result: int) -> int:
        assert result >= 0, "the core refused its arguments"
        return result


def _layer(plan: LayerPlan, index: Array) -> abi.Layer:
    pointers = (plan.shard.offset, plan.shard.width, plan.runs)
    return abi.Layer(
        *map(abi.address, pointers),
        len(plan.shard.order),
        len(plan.runs),
        plan.num_lanes,
        index.size,
    )


def _shard(plan: ShardPlan, tables: ClassTables, exponent: Array | None = None) -> abi.Shard:
    return abi.Shard(
        *map(abi.address, (plan.tile_width, plan.tile_step, plan.class_map)),
        None if exponent is None else abi.address(exponent),
        abi.address(tables.shrink_steps),
        len(plan.tile_width),
        plan.num_tokens,
        plan.num_coefs,
    )


def default_kernel() -> Kernel:
    """The fastest native kernel this machine can run, or what SAKURA_NATIVE names; numpy where the
    core is not built or switched off.

    Raises:
        CodecError: SAKURA_NATIVE names a kernel that there is not.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted == "0":
        return NumpyKernel()
    kernels = native_kernels()
    if wanted in (None, "", "1"):
        return kernels[-1] if kernels else NumpyKernel()
    for kernel in kernels:
        if kernel.isa == wanted:
            return kernel
    known = ", ".join(kernel.isa for kernel in kernels) or "none"
    raise CodecError(
        f"{VARIABLE} is {wanted!r}, kernels of the core here: {known}",
        hint=f"unset {VARIABLE} to use the best, or set it to 0 for numpy",
    )


def native_kernel() -> NativeKernel | None:
    """The fastest native kernel, or None when the core is not built."""
    kernels = native_kernels()
    return kernels[-1] if kernels else None


@cache
def native_kernels() -> tuple[NativeKernel, ...]:
    """Native kernels this machine can run, slowest first; empty when the core is not built."""
    spec = importlib.util.find_spec(MODULE)
    if spec is None or spec.origin is None:
        return ()
    return load_kernels(spec.origin)


def load_kernels(
    path: str, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL
) -> tuple[NativeKernel, ...]:
    """Usable kernels of the core at `path`; CodecError when it was built from another version."""
    library = load(path)
    library.sakura_abi_version.restype = ctypes.c_int32
    found = library.sakura_abi_version()
    if found != abi.ABI_VERSION:
        raise CodecError(
            f"the native codec core has interface {found}, expected {abi.ABI_VERSION}",
            hint=f"reinstall the package, or set {VARIABLE}=0 to do without it",
        )
    abi.bind(library)
    numbers = range(library.sakura_num_kernels())
    return tuple(NativeKernel(library, n) for n in numbers if library.sakura_kernel_is_usable(n))
