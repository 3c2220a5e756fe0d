"""Lays a bundle out and streams it. The order of the data is the order a player wants it in.

Template picture first, then the base layers of all shards (component by component, in it block by
block), then the first refinements in the same order, and so on: any prefix is an even quality.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from sakura.format.container import decode_manifest, encode_head, encode_manifest
from sakura.format.limits import DEFAULT
from sakura.format.manifest import Blob, Manifest, Template
from sakura.format.shard import Layer, Shard, digest, make_layer
from sakura.format.validate import Setting, check_manifest
from sakura.format.version import Version


@dataclass(frozen=True, slots=True)
class LayerData:
    """The bytes of one layer, and the squared error left once it is decoded."""

    payload: bytes
    distortion: float


@dataclass(frozen=True, slots=True)
class ShardData:
    """One shard as the packager has it: base layer first."""

    block: int
    component: int
    delta: tuple[float, float]
    energy: float
    layers: tuple[LayerData, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """The template picture as a file (PNG, JPEG, ...)."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class BundlePlan:
    """A finished manifest and the pieces of the data, in order."""

    manifest: Manifest
    parts: tuple[bytes, ...]

    @property
    def num_data_bytes(self) -> int:
        return sum(len(part) for part in self.parts)


def plan_bundle(
    draft: Manifest, shards: Sequence[ShardData], picture: Picture | None = None
) -> BundlePlan:
    """Fill in everything of a manifest that depends on bytes: blob, shards, offsets, digests.

    Args:
        draft: the manifest without `shards` and `template.blob`.
        shards: one per (block, component), in any order; each with one layer per level.
        picture: the template picture to carry along.

    Raises:
        FormatError: the result would break a rule of the format.
    """
    parts = [] if picture is None else [picture.data]
    ordered = sorted(shards, key=lambda shard: (shard.component, shard.block))
    layers: dict[tuple[int, int], Layer] = {}
    offset = sum(len(part) for part in parts)
    for level in range(max((len(shard.layers) for shard in ordered), default=0)):
        for index, shard in enumerate(ordered):
            if level < len(shard.layers):
                data = shard.layers[level]
                layers[index, level] = make_layer(data.payload, offset, _rounded(data.distortion))
                parts.append(data.payload)
                offset += len(data.payload)
    written = tuple(
        _shard(shard, tuple(layers[index, level] for level in range(len(shard.layers))))
        for index, shard in enumerate(ordered)
    )
    template = draft.template if picture is None else _with_blob(draft, picture)
    manifest = msgspec.structs.replace(draft, template=template, shards=written)
    return BundlePlan(_as_read(manifest, offset), tuple(parts))


def write_bundle(
    draft: Manifest, shards: Sequence[ShardData], picture: Picture | None = None
) -> Iterator[bytes]:
    """The bytes of a bundle, piece by piece, as `plan_bundle` lays them out."""
    plan = plan_bundle(draft, shards, picture)
    yield encode_head(plan.manifest)
    yield from plan.parts


def _shard(shard: ShardData, layers: tuple[Layer, ...]) -> Shard:
    return Shard(
        block=shard.block,
        component=shard.component,
        delta=shard.delta,
        energy=_rounded(shard.energy),
        layers=layers,
    )


def _with_blob(draft: Manifest, picture: Picture) -> Template:
    blob = Blob(
        offset=0,
        length=len(picture.data),
        digest=digest(picture.data),
        media_type=picture.media_type,
    )
    return msgspec.structs.replace(draft.template, blob=blob)


def _as_read(manifest: Manifest, num_data_bytes: int) -> Manifest:
    # Structs made in Python are unchecked and may hold numpy numbers: keep what a reader decodes.
    decoded = decode_manifest(encode_manifest(manifest))
    check_manifest(decoded, Setting(Version(*manifest.format), num_data_bytes, DEFAULT))
    return decoded


def _rounded(value: float) -> float:
    """Four significant digits: predictions are no better, and the manifest stays small."""
    return float(f"{value:.4g}")
