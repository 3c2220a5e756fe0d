"""Test vectors for native/conform.cpp: layers made by the numpy reference, in one file.

python -m tests.codec.vectors OUT
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import CodecProfile, SakuraCodec, ShardSpec, TilePlan
from sakura.codec.classes import class_edges
from sakura.codec.kernel import NumpyKernel
from tests.codec.cases import draw, spec, spectrum_profile

Array = NDArray[Any]
NUM_LAYERS = 3


@dataclasses.dataclass(frozen=True)
class Shape:
    """A shard to make layers of; `num_lanes` overrides the rule, to see every kernel."""

    heads: int
    head_dim: int
    widths: tuple[int, ...]
    num_lanes: int | None = None
    largest: float = 4.0


SHAPES = (
    Shape(1, 4, (5, 2)),
    Shape(1, 32, (1,), 1),
    Shape(2, 64, (64, 64), 64),
    Shape(1, 72, (64, 40), 64, 40.0),
    Shape(1, 48, (50, 50), 32),
    Shape(1, 48, (50, 50), 50),
    Shape(1, 33, (50, 17), 16),
    Shape(1, 128, (33,), 20),
    Shape(1, 9, (20, 7), 9),
)


def padded(array: Array) -> bytes:
    """Bytes of an array, filled up to a multiple of 64."""
    data = np.ascontiguousarray(array).tobytes()
    return data + bytes(-len(data) % 64)


def rotated(profile: CodecProfile) -> CodecProfile:
    """With bases that do something."""
    rng = np.random.default_rng(3)
    basis, _ = np.linalg.qr(rng.normal(size=profile.channel_basis.shape))
    rank = -(-2 * profile.rank // 3)
    return dataclasses.replace(profile, channel_basis=basis[..., :rank].astype(np.float16))


def cases_of(shape: Shape) -> list[bytes]:
    """Each layer of one shard."""
    profile = rotated(spectrum_profile(shape.heads, shape.head_dim, shape.largest))
    gains = tuple(range(len(shape.widths)))
    shard_spec = spec(TilePlan(shape.widths, gains))
    coef = draw(profile, sum(shape.widths), seed=len(shape.widths))
    coef[0, -1, 1], coef[1, 0, 0] = 90.0, -2e5
    return [case_of(profile, shard_spec, coef, shape, layer) for layer in range(NUM_LAYERS)]


def case_of(
    profile: CodecProfile, shard_spec: ShardSpec, coef: Array, shape: Shape, layer: int
) -> bytes:
    """One layer as conform.cpp reads it."""
    kernel, tables = NumpyKernel(), profile.tables
    codec = SakuraCodec(profile, kernel)
    plan, decoder = codec.plan(shard_spec), codec.decoder(shard_spec)
    values = kernel.quantize(tables, plan, coef, NUM_LAYERS)
    for below in range(layer):
        data = kernel.encode_layer(tables, plan.layer(below), values.index, values.finest)
        decoder.feed_layer(below, data, complete=True)
    layer_plan = plan.layer(layer)
    if shape.num_lanes is not None:
        layer_plan = dataclasses.replace(layer_plan, num_lanes=shape.num_lanes)
    data = kernel.encode_layer(tables, layer_plan, values.index, values.finest)
    before = decoder._now.index
    after = before.copy()
    assert kernel.decode_layer(tables, layer_plan, data, after) == (layer_plan.num_units, True)
    exponent = np.where(plan.first_exponent >= -layer, -layer, 127).astype(np.int8)
    sizes = (len(plan.order), coef.size, len(layer_plan.runs), layer_plan.num_lanes)
    dims = (values.finest, len(data), len(shape.widths), sum(shape.widths), profile.num_coefs)
    header = (*sizes, *dims, NUM_LAYERS, profile.num_groups, profile.rank, layer, 0, 0, 0)
    edge = np.stack([class_edges(-n, plan.limits) for n in range(NUM_LAYERS)])
    parts = (
        np.array(header, np.int32),
        tables.frequencies,
        plan.offset,
        plan.width,
        layer_plan.runs,
        before,
        after,
        values.index,
        np.frombuffer(data, np.uint8),
        plan.tile_width,
        plan.tile_step,
        plan.class_map,
        plan.in_map(exponent),
        tables.shrink_steps,
        edge,
        coef,
        profile.channel_synthesis[0],
    )
    return b"".join(map(padded, parts))


def write(path: Path) -> None:
    """Write all cases."""
    cases = [case for shape in SHAPES for case in cases_of(shape)]
    path.write_bytes(padded(np.array([len(cases)], np.int32)) + b"".join(cases))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
