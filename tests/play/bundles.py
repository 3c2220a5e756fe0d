"""Small bundles of a mini model with random weights, made without the packager, and their parts."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from sakura.codec import (
    Codec,
    CodecProfile,
    RawCodec,
    SakuraCodec,
    ShardSpec,
    TilePlan,
    fit_profile,
    forward,
    identity_profile,
)
from sakura.codec.bf16 import from_bf16, to_bf16
from sakura.format import LayerData, Manifest, Picture, ShardData, write_bundle
from sakura.format.manifest import (
    Canary,
    Geometry,
    Grid,
    Model,
    Noise,
    Predicted,
    Provenance,
    Rope,
    Schedule,
    Tiles,
    pack_tiles,
)
from sakura.format.manifest import Codec as CodecNote
from sakura.format.manifest import Template as TemplateNote
from sakura.grid import TokenMask
from sakura.models.base import Request, Template, full_compute
from sakura.models.mini import MiniAdapter
from sakura.models.mini_net import MiniFlux2
from sakura.models.noise import GENERATOR
from sakura.models.threads import one_thread

Array = NDArray[Any]

TOP_MSE = 1e-5
"""Predicted error of an edit with every layer of the compressed bundle: 50 dB."""


@dataclass(frozen=True)
class Made:
    """A bundle and what it was made of.

    Args:
        data: the object.
        profile: codec profile it names.
        state: (B, 2, S, N, H, Dh) captured state of the cached tokens, in importance order.
    """

    data: bytes
    profile: CodecProfile
    state: Array


@cache
def adapter() -> MiniAdapter:
    """A mini model whose weights are noise."""
    torch.manual_seed(0)
    return MiniAdapter(MiniFlux2(), "1" * 64)


@cache
def template() -> Template:
    """Noise, with a mask of 130 tokens."""
    bits = np.zeros((16, 16), bool)
    bits[3:16, 3:13] = True
    pixels = np.random.default_rng(0).integers(0, 255, (128, 128, 3)).astype(np.uint8)
    mask = TokenMask.from_bits(adapter().token_grid, bits)
    return Template(pixels, mask, "face-swap", {"placement": [8, 3, 8, 8]}, 5)


@cache
def reference() -> Array:
    """The user's picture."""
    return np.random.default_rng(1).integers(0, 255, (80, 100, 3)).astype(np.uint8)


@cache
def token_order() -> Array:
    """Cached tokens, tile by tile and rising within; the tiles are drawn."""
    drawn = np.random.default_rng(2).permutation(template().mask.cached)
    ends = np.cumsum(TilePlan.uniform(len(drawn)).widths)[:-1]
    return np.concatenate([np.sort(tile) for tile in np.split(drawn, ends)])


@cache
def captured_state() -> Array:
    """State of the cached tokens at every step and block."""
    run = adapter().prepare(template(), Request(np.full((64, 64, 3), 128, np.uint8)))
    with one_thread(), adapter().capture(run) as recorder:
        for _ in full_compute(run, adapter().schedule, adapter().geometry):
            pass
    return np.ascontiguousarray(recorder.states()[:, :, :, token_order()])


@cache
def compressed() -> Made:
    """Four levels, coded with a profile fitted to this very state."""
    profile = fit_profile([captured_state()])
    return _make(SakuraCodec(profile), 4)


@cache
def raw() -> Made:
    """Uncompressed bfloat16, one level."""
    geometry = adapter().geometry
    dims = geometry.num_blocks, adapter().schedule.num_steps, geometry.num_heads, geometry.head_dim
    return _make(RawCodec(identity_profile(*dims)), 1)


def raw_state() -> Array:
    """The state that the uncompressed bundle decodes to."""
    return from_bf16(to_bf16(captured_state())).reshape(captured_state().shape)


def _make(codec: SakuraCodec | RawCodec, num_layers: int) -> Made:
    shards = list(_shards(codec, num_layers))
    total = sum(shard.layers[-1].distortion for shard in shards)
    scale = TOP_MSE / total
    scaled = [
        ShardData(
            shard.block,
            shard.component,
            shard.delta,
            scale * shard.energy,
            tuple(LayerData(layer.payload, scale * layer.distortion) for layer in shard.layers),
        )
        for shard in shards
    ]
    file = io.BytesIO()
    Image.fromarray(template().image).save(file, "PNG")
    picture = Picture(file.getvalue(), "image/png")
    draft = _draft(codec, num_layers)
    return Made(b"".join(write_bundle(draft, scaled, picture)), codec.profile, captured_state())


def _shards(codec: Codec, num_layers: int) -> Iterator[ShardData]:
    state = captured_state()
    tiles = TilePlan.uniform(state.shape[3])
    for block in range(len(state)):
        coefficients = forward(codec.profile, block, state[block])
        scale = float(np.sqrt(np.square(coefficients).mean()))
        for component, values in enumerate(coefficients):
            spec = ShardSpec(block, component, (scale, scale), tiles)
            encoded = codec.encode_shard(spec, values, num_layers)
            layers = tuple(
                LayerData(data, sum(stats.distortion) / scale**2)
                for data, stats in zip(encoded.layers, encoded.stats, strict=True)
            )
            yield ShardData(block, component, spec.delta, sum(encoded.energy) / scale**2, layers)


def _draft(codec: SakuraCodec | RawCodec, num_levels: int) -> Manifest:
    model, scene, identity = adapter(), template(), adapter().identity()
    grid, geometry = model.token_grid, model.geometry
    tiles = TilePlan.uniform(scene.mask.num_cached)
    pixels = hashlib.sha256(scene.image.tobytes()).hexdigest()
    return Manifest(
        format=(1, 0),
        tool="tests",
        model=Model(
            family=identity.family,
            class_name=identity.class_name,
            config_digest=identity.config_digest,
            weights_digest=identity.weights_digest,
            canary=Canary(values=identity.canary.astype("<f2").tobytes(), tolerance=0.01),
        ),
        schedule=Schedule(name=model.schedule.name, sigmas=model.schedule.sigmas),
        noise=Noise(generator=GENERATOR, seed=scene.noise_seed),
        reuse="mask",
        geometry=Geometry(
            num_double=geometry.num_double,
            num_single=geometry.num_single,
            num_heads=geometry.num_heads,
            head_dim=geometry.head_dim,
        ),
        grid=Grid(height=grid.height, width=grid.width, patch_px=grid.patch_px),
        mask=scene.mask.packed,
        task=scene.task,
        conditioning=scene.conditioning,
        rope=Rope(form="pre", theta=200.0, axes=(8, 16, 16, 8)),
        dtype="float32",
        template=TemplateNote(digest=pixels, width=128, height=128),
        codec=CodecNote(id=codec.id, profile_digest=codec.profile.digest),
        token_tiles=pack_tiles(token_order(), tiles.widths),
        tiles=Tiles(widths=tiles.widths, gains=(tiles.gains,) * geometry.num_blocks),
        predicted=Predicted(levels=tuple(range(30, 30 + num_levels))),
        provenance=Provenance(seed=0, reference="grey", calibration="none"),
    )
