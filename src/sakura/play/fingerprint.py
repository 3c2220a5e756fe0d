"""Whether a model is the one a bundle was captured from, and which codec profile it needs.

The hard key must match field by field. The canary tells how far this device computes from the
packager's; where the weights' digest differs, only a close canary makes up for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sakura.codec import CodecProfile, RawCodec, identity_profile
from sakura.errors import CodecError, FingerprintError
from sakura.format import Manifest
from sakura.models.base import Adapter, canary_distance
from sakura.models.noise import GENERATOR
from sakura.models.registry import profile_for

MIN_DIGEST = 32


def check_model(model: Adapter, manifest: Manifest) -> float | None:
    """Compare a model with a bundle.

    Returns:
        Distance of the canaries, None if the bundle has none.

    Raises:
        FingerprintError: it is another model; the message names what differs.
    """
    for where, found, expected in _hard_key(model, manifest):
        if found != expected:
            raise FingerprintError(
                f"the model has {found!r}, the bundle was captured with {expected!r}",
                where=f"$.{where}",
                hint="load the model the bundle names, or pack the template again",
            )
    canary, identity = manifest.model.canary, model.identity()
    distance = None if canary is None else canary_distance(identity.canary, canary.array)
    is_close = distance is not None and canary is not None and distance <= canary.tolerance
    if distance is not None and not is_close:
        raise FingerprintError(
            f"the model computes other values: canary distance {distance:.2g}",
            where="$.model.canary",
            hint="check the weights and the precision of the model",
        )
    if identity.weights_digest != manifest.model.weights_digest and not is_close:
        raise FingerprintError(
            f"the model has weights {identity.weights_digest}, "
            f"expected {manifest.model.weights_digest}",
            where="$.model.weights_digest",
            hint="load the weights the bundle names, or pack the template again",
        )
    return distance


def find_profile(
    model: Adapter, manifest: Manifest, given: CodecProfile | None = None
) -> CodecProfile:
    """The codec profile that a bundle for this model names; see `profile_of`."""
    return profile_of(manifest, model.identity().family, given)


def profile_of(manifest: Manifest, family: str, given: CodecProfile | None = None) -> CodecProfile:
    """The codec profile that a bundle names by digest: the given, the raw codec's or the shipped.

    Raises:
        CodecError: it is not installed.
    """
    geometry, wanted = manifest.geometry, manifest.codec.profile_digest
    if given is None and manifest.codec.id == RawCodec.id:
        given = identity_profile(
            geometry.num_blocks,
            manifest.schedule.num_steps,
            geometry.num_heads,
            geometry.head_dim,
        )
    profile = profile_for(family) if given is None else given
    if len(wanted) < MIN_DIGEST or not profile.digest.startswith(wanted):
        raise CodecError(
            f"codec profile {profile.digest} is not the bundle's {wanted}",
            where="$.codec.profile_digest",
            hint="the bundle was packed with another version of sakura-kv; pack it again",
        )
    dims = geometry.num_blocks, manifest.schedule.num_steps, geometry.num_heads, geometry.head_dim
    if profile.dims != dims:
        raise CodecError(f"codec profile of {profile.dims}, expected {dims}")
    return profile


def _hard_key(model: Adapter, manifest: Manifest) -> Iterator[tuple[str, Any, Any]]:
    """(path in the manifest, what the model has, what the bundle says)."""
    identity, geometry, grid = model.identity(), model.geometry, model.token_grid
    expected = manifest.model
    yield "model.family", identity.family, expected.family
    yield "model.class_name", identity.class_name, expected.class_name
    yield "model.config_digest", identity.config_digest, expected.config_digest
    yield "model.adapters", tuple(identity.adapters), expected.adapters
    yield "reuse", "mask", manifest.reuse
    yield "noise.generator", GENERATOR, manifest.noise.generator
    yield "schedule.name", model.schedule.name, manifest.schedule.name
    yield "schedule.sigmas", _sigmas(model.schedule.sigmas), _sigmas(manifest.schedule.sigmas)
    for name in ("num_double", "num_single", "num_heads", "head_dim"):
        yield f"geometry.{name}", getattr(geometry, name), getattr(manifest.geometry, name)
    for name in ("height", "width", "patch_px"):
        yield f"grid.{name}", getattr(grid, name), getattr(manifest.grid, name)


def _sigmas(values: tuple[float, ...]) -> tuple[float, ...]:
    """To nine digits: the same schedule computed elsewhere may differ in the last bit."""
    return tuple(0.0 if v == 0 else round(v, 9 - math.ceil(math.log10(abs(v)))) for v in values)
