"""Which kernel is used, and what happens when the core is old or missing."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import pytest

from sakura.codec import native
from sakura.errors import CodecError


def test_zero_switches_the_core_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKURA_NATIVE", "0")
    assert native.default_kernel().name == "numpy"


@pytest.mark.skipif(native.native_kernel() is None, reason="the native core is not built")
def test_the_core_is_used_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAKURA_NATIVE", raising=False)
    assert native.default_kernel().name == "native"


def test_a_missing_core_falls_back_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAKURA_NATIVE", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    native.native_kernel.cache_clear()
    try:
        assert native.default_kernel().name == "numpy"
    finally:
        native.native_kernel.cache_clear()


def test_a_core_of_another_version_is_refused_with_a_hint() -> None:
    class OldCore:
        @staticmethod
        def sakura_abi_version() -> int:
            return 0

    stale: Any = OldCore
    with pytest.raises(CodecError, match="interface 0, expected 1") as caught:
        native.NativeKernel(stale)
    assert "SAKURA_NATIVE=0" in str(caught.value.hint)


@pytest.mark.skipif(native.native_kernel() is None, reason="the native core is not built")
def test_the_core_refuses_plans_that_leave_its_buffers() -> None:
    """The contract of the C interface, whoever calls it."""
    spec = importlib.util.find_spec(native.MODULE)
    assert spec is not None
    assert spec.origin is not None
    core = ctypes.CDLL(spec.origin)
    data, tables = bytes([1]) * 64, (ctypes.c_uint32 * (39 * 256))()
    index, clean = (ctypes.c_int16 * 8)(), ctypes.c_int32()

    def decode(offset: int, width: int, table: int, lanes: int = 1, units: int = 1) -> int:
        return core.sakura_decode_layer(
            data,
            ctypes.c_int64(len(data)),
            tables,
            (ctypes.c_int32 * 1)(offset),
            (ctypes.c_uint8 * 1)(width),
            (ctypes.c_uint8 * 1)(table),
            (ctypes.c_int16 * 1)(2),
            ctypes.c_int32(units),
            ctypes.c_int32(lanes),
            index,
            ctypes.c_int32(len(index)),
            ctypes.byref(clean),
        )

    good = {"offset": 0, "width": 8, "table": 3}
    assert decode(**good) == 1
    for change in (
        {"offset": -1},
        {"offset": 1},
        {"offset": 2**31 - 1},
        {"width": 0},
        {"width": 65},
        {"table": 4},
        {"table": 39},
        {"lanes": 0},
        {"lanes": 65},
        {"units": -1},
    ):
        assert decode(**{**good, **change}) == -1, change
