"""What each level of a bundle costs and decodes to, read as a player would read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import (
    CodecProfile,
    ShardSpec,
    TilePlan,
    create_codec,
    identity_profile,
    inverse_channels,
    synthesise,
)
from sakura.codec.raw import RawCodec
from sakura.format import Head, read_head

Array = NDArray[Any]


def head_of(data: bytes) -> Head:
    """The head of a whole bundle."""
    return read_head(lambda offset, length: data[offset : offset + length], len(data))


def picture_bytes(head: Head) -> int:
    """Size of the template picture in a bundle."""
    blob = head.manifest.template.blob
    return 0 if blob is None else blob.length


def level_bytes(head: Head) -> list[int]:
    """Head and all layers up to each level; the template picture is not counted."""
    shards, num_levels = head.manifest.shards, head.manifest.num_levels
    added = (sum(shard.layers[n].num_bytes for shard in shards) for n in range(num_levels))
    return [head.data_start + total for total in accumulate(added)]


def level_states(data: bytes, head: Head, profile: CodecProfile | None) -> Iterator[Array]:
    """State (B, 2, S, N, H, Dh) at each level of a bundle, rows in the bundle's token order.

    Args:
        data: the bundle.
        head: its head.
        profile: the codec's; None for uncompressed state, which has none.
    """
    manifest = head.manifest
    if manifest.codec.id == RawCodec.id or profile is None:
        geometry = manifest.geometry
        dims = (geometry.num_blocks, manifest.num_components, geometry.num_heads)
        profile = identity_profile(*dims, geometry.head_dim)
    codec, num_steps = create_codec(manifest.codec.id, profile), manifest.num_components
    decoders = {}
    for shard in manifest.shards:
        tiles = TilePlan(manifest.tiles.widths, manifest.tiles.gains[shard.block])
        spec = ShardSpec(shard.block, shard.component, shard.delta, tiles)
        decoders[shard.block, shard.component] = codec.decoder(spec)
    for level in range(manifest.num_levels):
        for shard in manifest.shards:
            start, end = head.span(shard.layers[level])
            decoder = decoders[shard.block, shard.component]
            decoder.feed_layer(level, data[start:end], complete=True)
        blocks = []
        for block in range(manifest.geometry.num_blocks):
            coefs = (decoders[block, c].coefficients() for c in range(num_steps))
            comps = np.stack([inverse_channels(profile, block, coef) for coef in coefs])
            steps = [synthesise(profile, block, comps, step) for step in range(num_steps)]
            blocks.append(np.stack(steps, 1))
        yield np.stack(blocks)
