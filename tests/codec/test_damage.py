"""Whatever happens to a stream: whole columns or a CodecError, and every kernel agrees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sakura.codec import SakuraCodec
from sakura.codec.kernel import Kernel, NumpyKernel
from sakura.codec.native import NativeKernel
from sakura.codec.pipeline import KltShardDecoder
from sakura.errors import CodecError
from tests.codec.cases import Array, compiled_kernels, decode_all, kernels, tiny_case

CASE = tiny_case()
PLAN = SakuraCodec(CASE.profile, NumpyKernel()).plan(CASE.spec)


def decoder_below(kernel: Kernel, layer: int) -> KltShardDecoder:
    """A decoder that has all layers before `layer`."""
    decoder = SakuraCodec(CASE.profile, kernel).decoder(CASE.spec)
    for i in range(layer):
        decoder.feed_layer(i, CASE.shard.layers[i], complete=True)
    return decoder


def columns(values: Array) -> list[Array]:
    """Values of each column in coding order."""
    flat = values.transpose(0, 2, 1).ravel()
    return [flat[o : o + w] for o, w in zip(PLAN.offset, PLAN.width.astype(int), strict=True)]


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("layer", range(4))
def test_every_truncation_gives_whole_columns(kernel: Kernel, layer: int) -> None:
    data = CASE.shard.layers[layer]
    plan = PLAN.layer(layer)
    levels = [np.zeros_like(CASE.coef)]
    levels += decode_all(SakuraCodec(CASE.profile, kernel), CASE.spec, CASE.shard.layers)
    below, above = columns(levels[layer]), columns(levels[layer + 1])
    last_pass = plan.exponent == -layer
    counts = []
    for length in range(len(data) + 1):
        decoder = decoder_below(kernel, layer)
        count = decoder.feed_layer(layer, data[:length], complete=False)
        counts.append(count)
        found = columns(decoder.coefficients())
        finished = set(plan.column[:count][last_pass[:count]].tolist())
        touched = set(plan.column[:count].tolist())
        for column, values in enumerate(found):
            if column in finished:
                assert (values == above[column]).all()
            elif column not in touched:
                assert (values == below[column]).all()
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == plan.num_units
    # Columns arrive one after another, not in one lump at the end.
    assert len(set(counts)) > plan.num_units / 3


@pytest.mark.parametrize("native", compiled_kernels())
@pytest.mark.parametrize("num_lanes", [1, 3, 5])
@pytest.mark.parametrize("layer", [0, 2])
def test_kernels_agree_on_every_truncation_and_bit_flip(
    layer: int, num_lanes: int, native: NativeKernel
) -> None:
    """With more lanes than a stream of this size would have, to see their order of reading."""
    tables, plan = CASE.profile.tables, replace(PLAN.layer(layer), num_lanes=num_lanes)
    index = NumpyKernel().quantize(tables, PLAN, CASE.coef, 4).index
    data = native.encode_layer(tables, plan, index, -3)
    assert data == NumpyKernel().encode_layer(tables, plan, index, -3)
    below = decoder_below(NumpyKernel(), layer)._below.index
    variants = [data[:length] for length in range(len(data) + 1)]
    variants += [flip(data, bit) for bit in range(8 * len(data))]
    variants += [data + b"\0", data + b"\xff" * 100, b"\xff" * 50, b"\0" * 50]
    for variant in variants:
        results: list[Any] = []
        for kernel in (NumpyKernel(), native):
            index = below.copy()
            outcome = kernel.decode_layer(tables, plan, variant, index)
            results.append((outcome, index.tobytes()))
        assert results[0] == results[1]
        is_whole = results[0][0] == (plan.num_units, True)
        assert is_whole or variant != data


@pytest.mark.parametrize("kernel", kernels())
def test_every_bit_flip_is_an_error_or_a_decode(kernel: Kernel) -> None:
    """The end check misses a few; digests of the container are there for those."""
    data = CASE.shard.layers[0]
    missed = 0
    for bit in range(8 * len(data)):
        decoder = decoder_below(kernel, 0)
        try:
            decoder.feed_layer(0, flip(data, bit), complete=True)
            missed += 1
        except CodecError:
            assert decoder.level == 0
            decoder.feed_layer(0, flip(data, bit), complete=False)
        values = decoder.coefficients()
        assert values.shape == CASE.coef.shape
        assert np.isfinite(values).all()
    assert missed < 8 * len(data) / 4


@pytest.mark.parametrize("kernel", kernels())
def test_random_bytes_never_decode_out_of_bounds(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    for length in [0, 1, 2, 3, 17, 200, 5000]:
        decoder = decoder_below(kernel, 0)
        for layer in range(4):
            data = rng.integers(1, 256, length, np.uint8).tobytes()
            decoder.feed_layer(layer, data, complete=False)
            decoder.feed_layer(layer, CASE.shard.layers[layer], complete=True)
        assert np.isfinite(decoder.coefficients()).all()


@pytest.mark.parametrize("kernel", kernels())
def test_a_forged_state_below_256_is_refused(kernel: Kernel) -> None:
    data = b"\xff\x00" + CASE.shard.layers[0][2:]
    assert PLAN.layer(0).num_lanes == 1
    with pytest.raises(CodecError, match="column 0"):
        decoder_below(kernel, 0).feed_layer(0, data, complete=True)


def flip(data: bytes, bit: int) -> bytes:
    """`data` with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
