"""The structs and functions of native/abi.h for ctypes, and how arrays become pointers. Knows no
codec."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ABI_VERSION = 3
ALIGNMENT = 64
"""Tables and bases begin at a multiple of this."""


class Layer(ctypes.Structure):
    """`SakuraLayer`."""

    _fields_ = (
        ("offset", c_void_p),
        ("width", c_void_p),
        ("runs", c_void_p),
        ("num_columns", c_int32),
        ("num_runs", c_int32),
        ("num_lanes", c_int32),
        ("num_values", c_int32),
    )


class Stream(ctypes.Structure):
    """`SakuraStream`."""

    _fields_ = (("data", c_void_p), ("size", c_int64), ("is_clean", c_int32))


class Shard(ctypes.Structure):
    """`SakuraShard`."""

    _fields_ = (
        ("tile_width", c_void_p),
        ("step", c_void_p),
        ("class0", c_void_p),
        ("exponent", c_void_p),
        ("shrink", c_void_p),
        ("num_tiles", c_int32),
        ("num_tokens", c_int32),
        ("num_coefs", c_int32),
    )


class Sums(ctypes.Structure):
    """`SakuraSums`."""

    _fields_ = (
        ("square", c_void_p),
        ("clipped", c_void_p),
        ("edge", c_void_p),
        ("num_layers", c_int32),
    )


class Output(ctypes.Structure):
    """`SakuraOutput`."""

    _fields_ = (
        ("basis", c_void_p),
        ("is_wanted", c_void_p),
        ("values", c_void_p),
        ("num_groups", c_int32),
        ("rank", c_int32),
        ("is_bf16", c_int32),
    )


SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sakura_num_kernels": (c_int32, ()),
    "sakura_kernel_name": (ctypes.c_char_p, (c_int32,)),
    "sakura_kernel_is_usable": (c_int32, (c_int32,)),
    "sakura_tables_size": (c_int64, ()),
    "sakura_build_tables": (c_int32, (c_void_p, c_void_p)),
    "sakura_decode_layer": (
        c_int32,
        (c_int32, c_void_p, POINTER(Layer), POINTER(Stream), c_void_p),
    ),
    "sakura_quantize": (c_int32, (c_int32, POINTER(Shard), c_void_p, POINTER(Sums), c_void_p)),
    "sakura_encode_layer": (
        c_int64,
        (c_int32, c_void_p, POINTER(Layer), c_void_p, c_int32, c_void_p, c_int64),
    ),
    "sakura_dequantize": (c_int32, (c_int32, POINTER(Shard), c_void_p, c_void_p, c_int32)),
    "sakura_basis_size": (c_int64, (c_int32, c_int32, c_int32)),
    "sakura_prepare_basis": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_void_p)),
    "sakura_reconstruct": (c_int32, (c_int32, POINTER(Shard), c_void_p, POINTER(Output))),
}


def bind(library: ctypes.CDLL) -> None:
    """Declare the functions of a loaded core."""
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def address(array: Array) -> int:
    """Place of a contiguous array in memory."""
    assert array.flags.c_contiguous
    return int(array.__array_interface__["data"][0])


def aligned(num_bytes: int) -> Array:
    """Uint8 (num_bytes,) that begins at a multiple of ALIGNMENT."""
    room = np.zeros(num_bytes + ALIGNMENT, np.uint8)
    skip = -address(room) % ALIGNMENT
    return room[skip : skip + num_bytes]
