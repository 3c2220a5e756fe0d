"""Streams of version 1 keep their bytes and their meaning, for every kernel and a plain reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sakura.codec import CodecProfile, SakuraCodec, ShardSpec, TilePlan, profile_from_bytes
from sakura.codec.kernel import Kernel, NumpyKernel
from tests.codec import plain
from tests.codec.cases import decode_all, kernels
from tests.codec.make_golden import GOLDEN, UNIT


@dataclass(frozen=True)
class Golden:
    """A golden file, read."""

    profile: CodecProfile
    spec: ShardSpec
    coef: NDArray[Any]
    layers: tuple[bytes, ...]


@pytest.fixture(scope="module", params=["small", "wide"])
def golden(request: pytest.FixtureRequest) -> Golden:
    with np.load(GOLDEN / f"klt_rans_1_{request.param}.npz", allow_pickle=False) as file:
        widths, gains = (tuple(map(int, file[name])) for name in ("widths", "gains"))
        delta_k, delta_v = map(float, file["delta"])
        return Golden(
            profile=profile_from_bytes(file["profile"].tobytes()),
            spec=ShardSpec(0, 0, (delta_k, delta_v), TilePlan(widths, gains)),
            coef=(file["units"] / UNIT).astype(np.float32),
            layers=tuple(file[f"layer{i}"].tobytes() for i in range(int(file["num_layers"]))),
        )


@pytest.mark.parametrize("kernel", kernels())
def test_encoding_gives_the_golden_bytes(golden: Golden, kernel: Kernel) -> None:
    codec = SakuraCodec(golden.profile, kernel)
    shard = codec.encode_shard(golden.spec, golden.coef, num_layers=len(golden.layers))
    assert shard.layers == golden.layers


@pytest.mark.parametrize("kernel", kernels())
def test_decoding_agrees_with_a_reader_written_from_the_text(
    golden: Golden, kernel: Kernel
) -> None:
    """The plain reader shares no code with the codec."""
    tables, tiles = golden.profile.tables, golden.spec.tiles
    sigma = golden.profile.sigma[0, :, 0].reshape(2, -1).astype(float).tolist()
    shard = plain.PlainShard(
        start=tables.start.tolist(),
        ternary=tables.ternary.tolist(),
        edge=tables.edge.tolist(),
        shrink=tables.shrink.tolist(),
        columns=plain.make_columns(sigma, golden.spec.delta, [*tiles.widths], [*tiles.gains]),
    )
    levels = decode_all(SakuraCodec(golden.profile, kernel), golden.spec, golden.layers)
    for layer, data in enumerate(golden.layers):
        plain.decode_layer(shard, layer, data)
        for column in shard.columns:
            found = [plain.value_of(shard, column, place) for place in column.places]
            expected = [levels[layer][place] for place in column.places]
            assert found == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize(("golden", "lanes"), [("small", 1), ("wide", 4)], indirect=["golden"])
def test_the_files_differ_in_lanes(golden: Golden, lanes: int) -> None:
    plan = SakuraCodec(golden.profile, NumpyKernel()).plan(golden.spec)
    assert plan.layer(0).num_lanes == lanes
