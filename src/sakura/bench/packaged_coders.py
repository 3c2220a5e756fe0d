"""Entropy coders that can be installed, behind one call each; those that are missing are named.

All of them code bytes of one distribution, so each class of symbols is a block of its own.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PackagedCoder:
    """A coder of uint8 symbols.

    Args:
        name: with what was chosen of its options.
        encode: symbols to bytes, tables included.
        decode: bytes and number of symbols to symbols.
    """

    name: str
    encode: Callable[[Array], bytes]
    decode: Callable[[bytes, int], Array]


def packaged_coders() -> tuple[list[PackagedCoder], list[str]]:
    """Coders that are installed, and remarks about those that are not."""
    coders, missing = [], []
    for name, make in _MAKERS.items():
        coder = make()
        if coder is None:
            missing.append(f"{name} is not installed, left out")
        else:
            coders.append(coder)
    return coders, missing


def _zstd() -> PackagedCoder | None:
    if find_spec("zstandard") is None:
        return None
    import zstandard

    pack, unpack = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()

    def decode(data: bytes, length: int) -> Array:
        return np.frombuffer(unpack.decompress(data, max_output_size=length), np.uint8)

    return PackagedCoder("zstd 1", lambda symbols: pack.compress(symbols.tobytes()), decode)


def _openzl() -> PackagedCoder | None:
    if find_spec("openzl") is None:
        return None
    import openzl.ext as zl

    compressor = zl.Compressor()
    compressor.select_starting_graph(zl.graphs.Fse()(compressor))
    compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)

    def encode(symbols: Array) -> bytes:
        context = zl.CCtx()
        context.ref_compressor(compressor)
        plain = symbols.tobytes()  # an Input does not keep what it points to
        return bytes(context.compress([zl.Input(zl.Type.Serial, plain)]))

    def decode(data: bytes, length: int) -> Array:
        content = zl.DCtx().decompress(data)[0].content.as_nparray()
        return np.asarray(content).view(np.uint8).ravel()[:length]

    return PackagedCoder("OpenZL FSE", encode, decode)


def _constriction() -> PackagedCoder | None:
    if find_spec("constriction") is None:
        return None
    import constriction

    model, queue = constriction.stream.model, constriction.stream.queue

    def encode(symbols: Array) -> bytes:
        counts = np.bincount(symbols, minlength=2)
        coder = queue.RangeEncoder()
        coder.encode(symbols.astype(np.int32), _table(counts))
        header = np.array([len(counts), *counts], "<u4").tobytes()
        return header + coder.get_compressed().astype("<u4").tobytes()

    def decode(data: bytes, length: int) -> Array:
        words = np.frombuffer(data, "<u4")
        end = 1 + int(words[0])
        coder = queue.RangeDecoder(words[end:].astype(np.uint32))
        return np.asarray(coder.decode(_table(words[1:end]), length)).astype(np.uint8)

    def _table(counts: Array) -> Any:
        return model.Categorical((counts + 1e-6) / (counts + 1e-6).sum(), perfect=False)

    return PackagedCoder("constriction range", encode, decode)


def _htscodecs() -> PackagedCoder | None:
    name = ctypes.util.find_library("htscodecs") or "libhtscodecs.so.2"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    bound = library.rans_compress_bound_4x16
    bound.restype, bound.argtypes = ctypes.c_uint, [ctypes.c_uint, ctypes.c_int]
    pack, unpack = library.rans_compress_to_4x16, library.rans_uncompress_to_4x16
    size = ctypes.POINTER(ctypes.c_uint)
    pack.restype = unpack.restype = ctypes.c_void_p
    pack.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, size, ctypes.c_int]
    unpack.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, size]

    def encode(symbols: Array) -> bytes:
        symbols = np.ascontiguousarray(symbols)
        out = np.empty(bound(len(symbols), _LANES_32), np.uint8)
        used = ctypes.c_uint(len(out))
        source, target = symbols.ctypes.data, out.ctypes.data
        assert pack(source, len(symbols), target, ctypes.byref(used), _LANES_32)
        return out[: used.value].tobytes()

    def decode(data: bytes, length: int) -> Array:
        out, source = np.empty(length, np.uint8), np.frombuffer(data, np.uint8)
        used = ctypes.c_uint(length)
        assert unpack(source.ctypes.data, len(data), out.ctypes.data, ctypes.byref(used))
        return out

    return PackagedCoder("htscodecs rANS 32x16", encode, decode)


_LANES_32 = 4
"""htscodecs' flag for 32 interleaved states, which is its SIMD format."""
_MAKERS: Mapping[str, Callable[[], PackagedCoder | None]] = MappingProxyType(
    {
        "zstandard": _zstd,
        "openzl": _openzl,
        "constriction": _constriction,
        "libhtscodecs": _htscodecs,
    }
)
