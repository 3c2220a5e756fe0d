"""Every cut of a layer, on every kernel, with the stream at the very end of readable memory."""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.codec import SakuraCodec, TilePlan
from sakura.codec.kernel import NumpyKernel
from sakura.codec.native import NativeKernel
from sakura.codec.plan import LayerPlan
from sakura.codec.tables import ClassTables
from tests.codec.cases import compiled_kernels, draw, spec, spectrum_profile
from tests.codec.vectors import SHAPES, Shape

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guard pages are set with mprotect")


class GuardedPages:
    """Memory whose end is followed by a page that nobody may touch."""

    def __init__(self, num_pages: int = 64) -> None:
        self._map = mmap.mmap(-1, (num_pages + 1) * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert libc.mprotect(start + num_pages * mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
        self.size = num_pages * mmap.PAGESIZE

    def put(self, data: bytes) -> memoryview:
        """`data`, ending where the memory ends."""
        self._map[self.size - len(data) : self.size] = data
        return memoryview(self._map)[self.size - len(data) : self.size]


@pytest.fixture(scope="module")
def pages() -> GuardedPages:
    return GuardedPages()


@dataclass(frozen=True)
class Layer:
    """A layer of the reference."""

    tables: ClassTables
    plan: LayerPlan
    data: bytes
    below: NDArray[np.int16]
    after: NDArray[np.int16]


def layer_of(shape: Shape, layer: int) -> Layer:
    """Layer `layer` of a shard of this shape, in as many lanes as it names."""

    profile = spectrum_profile(shape.heads, shape.head_dim, shape.largest)
    tiles = TilePlan(shape.widths, tuple(range(len(shape.widths))))
    coef = draw(profile, tiles.num_tokens, seed=1)
    coef[0, 0, 0] = 90.0
    kernel, codec = NumpyKernel(), SakuraCodec(profile, NumpyKernel())
    plan, decoder = codec.plan(spec(tiles)), codec.decoder(spec(tiles))
    shard = codec.encode_shard(spec(tiles), coef, layer + 1)
    for i in range(layer):
        decoder.feed_layer(i, shard.layers[i], complete=True)
    index = kernel.quantize(profile.tables, plan, coef, layer + 1).index
    layer_plan = plan.layer(layer)
    if shape.num_lanes:
        layer_plan = replace(layer_plan, num_lanes=shape.num_lanes)
    data = kernel.encode_layer(profile.tables, layer_plan, index, -layer)
    after = decoder._now.index.copy()
    kernel.decode_layer(profile.tables, layer_plan, data, after)
    return Layer(profile.tables, layer_plan, data, decoder._now.index, after)


@pytest.mark.parametrize("kernel", compiled_kernels())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layer", [0, 1])
def test_every_cut_gives_the_columns_whose_bytes_are_there(
    pages: GuardedPages, shape: Shape, layer: int, kernel: NativeKernel
) -> None:
    made = layer_of(shape, layer)
    widths, offsets = made.plan.width.astype(int), made.plan.offset
    counts = []
    step = max(len(made.data) // 1500, 1)
    for size in [*range(0, len(made.data), step), len(made.data)]:
        index = made.below.copy()
        data = pages.put(made.data[:size])
        count, is_clean = kernel.decode_layer(made.tables, made.plan, data, index)
        counts.append(count)
        assert is_clean == (size == len(made.data))
        if layer == 1:
            expected = made.below.copy()
            for offset, width in zip(offsets[:count], widths[:count], strict=True):
                expected[offset : offset + width] = made.after[offset : offset + width]
            assert (index == expected).all()
    assert counts == sorted(counts)
    assert counts[-1] == made.plan.num_units
    assert (index == made.after).all()
