"""Decoded values are an API: these bytes read as they always did, and are written alike."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sakura.format import Head, LayerData, Picture, ShardData, parse_head, write_bundle
from sakura.format.manifest import Manifest
from tests.format.tiny import MASK, seal, split, tiny_bundle, tiny_manifest

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.skv"))


def taken_apart(bundle: bytes) -> tuple[Manifest, list[ShardData], Picture]:
    head = parse_head(bundle, len(bundle))
    assert isinstance(head, Head)
    shards = [
        ShardData(
            block=shard.block,
            component=shard.component,
            delta=shard.delta,
            energy=shard.energy,
            layers=tuple(
                LayerData(bundle[slice(*head.span(layer))], layer.distortion)
                for layer in shard.layers
            ),
        )
        for shard in head.manifest.shards
    ]
    blob = head.manifest.template.blob
    assert blob is not None
    start = head.data_start + blob.offset
    picture = Picture(bundle[start : start + blob.length], blob.media_type)
    template = msgspec.structs.replace(head.manifest.template, blob=None)
    draft = msgspec.structs.replace(head.manifest, shards=(), template=template)
    return draft, shards, picture


def test_there_is_a_golden_file() -> None:
    assert [path.name for path in GOLDEN] == ["v1_0.skv"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_file_reads_and_writes_back(path: Path) -> None:
    golden = path.read_bytes()
    # How a manifest is packed depends on the zlib at hand; what is packed does not.
    written = b"".join(write_bundle(*taken_apart(golden)))
    assert seal(*split(written)) == golden


def test_golden_values() -> None:
    golden = GOLDEN[0].read_bytes()
    draft, shards, picture = taken_apart(golden)
    assert draft == tiny_manifest()
    assert draft.importance_order.tolist() == [0, 2, 3, 8, 1, 6, 7]
    assert draft.token_mask == MASK
    assert draft.model.canary is not None
    assert draft.model.canary.array.tolist() == [0.5, -1.25]
    assert (draft.num_components, draft.num_levels, draft.geometry.num_blocks) == (2, 2, 2)
    assert [(shard.component, shard.block) for shard in shards] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [layer.payload for layer in shards[1].layers] == [b"\x20" * 6, b"\x21" * 7]
    assert picture.data == b"not really a PNG"


def test_golden_file_is_what_the_writer_writes() -> None:
    assert GOLDEN[0].read_bytes() == tiny_bundle()
