"""What is written is read back, in the order that serves a player, and small beside the data."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sakura.errors import DigestError, FormatError
from sakura.format import (
    Head,
    LayerData,
    Manifest,
    ShardData,
    parse_head,
    plan_bundle,
    read_head,
    verify_bundle,
    verify_chunk,
    write_bundle,
)
from sakura.format.manifest import Geometry, Grid, Predicted, Schedule, Template, Tiles, pack_tiles
from sakura.format.shard import CHUNK_BYTES, make_layer
from sakura.grid import TokenGrid, TokenMask
from tests.format.tiny import PICTURE, reader, tiny_manifest, tiny_shards

LENGTHS = st.one_of(
    st.integers(0, 40), st.sampled_from([CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
)


@given(lengths=st.lists(LENGTHS, min_size=8, max_size=8), order=st.permutations(range(4)))
def test_layers_come_back(lengths: list[int], order: list[int]) -> None:
    shards = [
        replace(
            shard,
            layers=tuple(
                replace(layer, payload=bytes([9 * index + level]) * lengths[2 * index + level])
                for level, layer in enumerate(shard.layers)
            ),
        )
        for index, shard in enumerate(tiny_shards())
    ]
    given_order = [shards[index] for index in order]
    bundle = b"".join(write_bundle(tiny_manifest(), given_order, PICTURE))
    assert bundle == b"".join(write_bundle(tiny_manifest(), shards, PICTURE))
    assert verify_bundle(reader(bundle), len(bundle)).is_intact
    head = read_head(reader(bundle), len(bundle))
    payloads = {(shard.block, shard.component): shard.layers for shard in shards}
    for shard in head.manifest.shards:
        for layer, data in zip(shard.layers, payloads[shard.block, shard.component], strict=True):
            assert bundle[slice(*head.span(layer))] == data.payload


def test_data_order_is_picture_then_levels_then_components_then_blocks() -> None:
    plan = plan_bundle(tiny_manifest(), tiny_shards(), PICTURE)
    tags = [part[0] for part in plan.parts[1:] if part]
    assert plan.parts[0] == PICTURE.data
    # A tag is 16 * (2 * block + component) + level; the base layer of shard 0 is empty.
    assert tags == [0x20, 0x10, 0x30, 0x01, 0x21, 0x11, 0x31]
    offsets = [shard.layers[level].offset for level in range(2) for shard in plan.manifest.shards]
    assert offsets == sorted(offsets)


def test_a_bundle_without_a_picture() -> None:
    bundle = b"".join(write_bundle(tiny_manifest(), tiny_shards()))
    report = verify_bundle(reader(bundle), len(bundle))
    assert report.is_intact
    assert report.head.manifest.template.blob is None


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"delta": (0.0, 1.0)}, r"\$.shards\[0\]\[2\]\[0\]"),
        ({"energy": float("nan")}, r"\$.shards\[0\]\[3\]"),
        ({"layers": ()}, r"\$.shards\[0\].layers"),
        ({"block": 2}, r"\$.shards\[1\].block"),
    ],
)
def test_a_packager_cannot_write_what_a_reader_refuses(
    change: dict[str, object], where: str
) -> None:
    shards = tiny_shards()
    shards[0] = replace(shards[0], **change)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=where):
        plan_bundle(tiny_manifest(), shards)


def test_chunks_are_checked_before_use() -> None:
    payload = bytes(range(256)) * 300
    layer = make_layer(payload, offset=100, distortion=0.0)
    assert layer.chunks == (CHUNK_BYTES, len(payload) - CHUNK_BYTES)
    verify_chunk(layer, 0, payload[:CHUNK_BYTES])
    verify_chunk(layer, 1, memoryview(payload)[CHUNK_BYTES:])
    with pytest.raises(DigestError, match="has digest"):
        verify_chunk(layer, 0, payload[1 : CHUNK_BYTES + 1])
    with pytest.raises(DigestError, match=f"expected {len(payload) - CHUNK_BYTES}"):
        verify_chunk(layer, 1, payload[CHUNK_BYTES:-1])


def mini_bundle(num_data_bytes: int) -> tuple[Manifest, list[ShardData]]:
    """As large as the mini model's: 6 blocks x 8 components x 4 levels, 200 cached tokens."""
    rng = np.random.default_rng(3)
    grid = TokenGrid(16, 16, 16)
    bits = np.zeros(256, bool)
    bits[rng.permutation(256)[:56]] = True
    mask = TokenMask.from_bits(grid, bits.reshape(16, 16))
    manifest = msgspec.structs.replace(
        tiny_manifest(),
        geometry=Geometry(num_double=2, num_single=4, num_heads=4, head_dim=48),
        schedule=Schedule(
            name="flow-euler", sigmas=(*rng.uniform(0.1, 1, 8)[::-1].cumsum()[::-1], 0.0)
        ),
        grid=Grid(height=16, width=16, patch_px=16),
        mask=mask.packed,
        template=Template(digest="ab" * 16, width=256, height=256),
        token_tiles=pack_tiles(rng.permutation(200), (64, 64, 64, 8)),
        tiles=Tiles(widths=(64, 64, 64, 8), gains=((0, -1, -2, -4),) * 6),
        predicted=Predicted(levels=(31.52, 37.91, 44.13, 50.2)),
    )
    sizes = rng.dirichlet(np.ones(192)) * num_data_bytes
    shards = [
        ShardData(
            block,
            component,
            (0.0123, 0.00456),
            float(rng.uniform()),
            tuple(
                LayerData(
                    rng.bytes(int(sizes[(8 * block + component) * 4 + n])), rng.uniform() / 3**n
                )
                for n in range(4)
            ),
        )
        for block in range(6)
        for component in range(8)
    ]
    return manifest, shards


def test_the_manifest_is_small() -> None:
    bundle = b"".join(write_bundle(*mini_bundle(500_000)))
    head = parse_head(bundle, len(bundle))
    assert isinstance(head, Head)
    # 192 layers: 16 digest bytes are 24 characters, about as much again for the numbers.
    assert head.data_start <= 192 * 64 + 2048
