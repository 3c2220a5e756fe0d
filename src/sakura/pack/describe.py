"""Writes a manifest's draft: everything but the shards. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sakura
from sakura.codec import CodecProfile
from sakura.format import Manifest
from sakura.format import manifest as wire
from sakura.format.version import CURRENT
from sakura.models.base import Adapter, Geometry, Identity, Template
from sakura.models.noise import GENERATOR
from sakura.pack.capture import Capture
from sakura.pack.families import family_of
from sakura.pack.importance import Importance
from sakura.pack.options import PackOptions

Array = NDArray[Any]

CANARY_TOLERANCE = 0.05
"""Relative rms; half precision stays below 0.01, four-bit weights are at 0.19."""
TOOL = f"sakura-kv {sakura.__version__}"


def draft_manifest(
    adapter: Adapter,
    template: Template,
    captured: tuple[Capture, Importance],
    profile: CodecProfile,
    options: PackOptions,
) -> Manifest:
    """The manifest without shards, blob and predicted levels (0 dB stands for these)."""
    capture, importance = captured
    identity, grid = adapter.identity(), template.mask.grid
    height, width = grid.size_px
    return Manifest(
        format=(CURRENT.major, CURRENT.minor),
        tool=TOOL,
        model=_model(identity),
        schedule=wire.Schedule(name=adapter.schedule.name, sigmas=adapter.schedule.sigmas),
        noise=wire.Noise(generator=GENERATOR, seed=template.noise_seed),
        reuse="mask",
        geometry=_geometry(adapter.geometry),
        grid=wire.Grid(height=grid.height, width=grid.width, patch_px=grid.patch_px),
        mask=template.mask.packed,
        task=template.task,
        conditioning=template.conditioning,
        rope=family_of(identity.family).rope,
        dtype="float32",
        template=wire.Template(digest=pixel_digest(template.image), width=width, height=height),
        codec=_codec(profile, options),
        token_tiles=wire.pack_tiles(capture.tokens[importance.order], importance.widths),
        tiles=wire.Tiles(widths=importance.widths, gains=importance.gains),
        predicted=wire.Predicted(levels=(0.0,)),
        provenance=_provenance(options),
    )


def pixel_digest(image: Array) -> str:
    """SHA-256 of RGB pixels, row by row."""
    return hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()


def step_share(profile: CodecProfile) -> Array:
    """(S,) share of the edit's error that comes from each step; sums to 1."""
    weight = profile.step_weight.astype(np.float64)
    total = float(weight.sum())
    return weight / total if total > 0 else np.full_like(weight, 1 / len(weight))


def _model(identity: Identity) -> wire.Model:
    canary = wire.Canary(values=identity.canary.astype("<f2").tobytes(), tolerance=CANARY_TOLERANCE)
    return wire.Model(
        family=identity.family,
        class_name=identity.class_name,
        config_digest=identity.config_digest,
        weights_digest=identity.weights_digest,
        adapters=identity.adapters,
        canary=canary,
    )


def _geometry(geometry: Geometry) -> wire.Geometry:
    return wire.Geometry(
        num_double=geometry.num_double,
        num_single=geometry.num_single,
        num_heads=geometry.num_heads,
        head_dim=geometry.head_dim,
    )


def _codec(profile: CodecProfile, options: PackOptions) -> wire.Codec:
    share = [float(f"{v:.4g}") for v in step_share(profile)]
    return wire.Codec(
        id=options.codec, profile_digest=profile.digest, parameters={"step_share": share}
    )


def _provenance(options: PackOptions) -> wire.Provenance:
    return wire.Provenance(
        seed=options.seed,
        reference=options.neutral,
        calibration=f"{options.num_calibration} shipped portraits, ring {options.ring}",
    )
