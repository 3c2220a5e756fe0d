"""Which kernel is used, and what happens when the core is old or missing."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sakura.codec import abi, native
from sakura.codec.tables import default_tables
from sakura.errors import CodecError
from tests.codec.cases import compiled_kernels

needs_core = pytest.mark.skipif(not native.native_kernels(), reason="the native core is not built")


def test_zero_switches_the_core_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKURA_NATIVE", "0")
    assert native.default_kernel().name == "numpy"


@needs_core
def test_the_best_kernel_is_used_where_the_core_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAKURA_NATIVE", raising=False)
    assert native.default_kernel() is native.native_kernels()[-1]


@needs_core
@pytest.mark.parametrize("kernel", compiled_kernels())
def test_a_kernel_can_be_named(
    kernel: native.NativeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAKURA_NATIVE", kernel.isa)
    assert native.default_kernel() is kernel


def test_a_kernel_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAKURA_NATIVE", "mmx")
    with pytest.raises(CodecError, match="'mmx', kernels of the core here"):
        native.default_kernel()


def test_a_missing_core_falls_back_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAKURA_NATIVE", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    native.native_kernels.cache_clear()
    try:
        assert native.default_kernel().name == "numpy"
    finally:
        native.native_kernels.cache_clear()


def test_a_core_of_another_version_is_refused_with_a_hint() -> None:
    class OldCore:
        @staticmethod
        def sakura_abi_version() -> int:
            return 0

    stale: Any = lambda path: OldCore  # noqa: E731
    with pytest.raises(CodecError, match="interface 0, expected 3") as caught:
        native.load_kernels("old", stale)
    assert "SAKURA_NATIVE=0" in str(caught.value.hint)


@dataclass(frozen=True)
class Arguments:
    """One unit of a layer, as the C interface takes it."""

    offset: int = 0
    width: int = 8
    table: int = 3
    edge: int = 2
    first: int = 0
    units: int = 1
    lanes: int = 1


def decode(kernel: native.NativeKernel, arguments: Arguments) -> int:
    """What the core answers."""
    data, index = np.ones(256, np.uint8), np.zeros(8, np.int16)
    offset, width = np.array([arguments.offset], np.int32), np.array([arguments.width], np.uint8)
    a = arguments
    runs = np.array([[a.first, a.units, a.table, a.edge, 0]], np.int32)
    layer = abi.Layer(*map(abi.address, (offset, width, runs)), 1, 1, a.lanes, len(index))
    tables = abi.address(kernel._prepared(default_tables()))
    stream = abi.Stream(abi.address(data), data.size, 0)
    return int(
        kernel._library.sakura_decode_layer(
            kernel._number, tables, layer, stream, abi.address(index)
        )
    )


@pytest.mark.parametrize("kernel", compiled_kernels())
def test_the_core_refuses_plans_that_leave_its_buffers(kernel: native.NativeKernel) -> None:
    """The contract of the C interface, whoever calls it."""
    assert decode(kernel, Arguments()) == 1
    for wrong in (
        Arguments(offset=-1),
        Arguments(offset=1),
        Arguments(offset=2**31 - 1),
        Arguments(width=0),
        Arguments(width=65),
        Arguments(table=4),
        Arguments(table=39),
        Arguments(table=-1),
        Arguments(edge=1),
        Arguments(first=1),
        Arguments(first=-1),
        Arguments(lanes=0),
        Arguments(lanes=65),
        Arguments(units=-1),
        Arguments(units=2),
    ):
        assert decode(kernel, wrong) == -1, wrong


@needs_core
def test_the_core_refuses_tables_that_could_not_be_decoded() -> None:
    kernel = native.native_kernels()[0]
    room = abi.aligned(kernel._library.sakura_tables_size())
    for row, symbol, change in ((0, 7, 1), (3, 0, -1), (6, 14, 1)):
        wrong = default_tables().frequencies.astype(np.int64)
        wrong[row, symbol] += change
        wrong = wrong.astype(np.uint16)
        assert kernel._library.sakura_build_tables(abi.address(wrong), abi.address(room)) == -1
