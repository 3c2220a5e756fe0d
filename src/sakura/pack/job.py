"""All inputs of one bundle, and the digest that names them. Reads shipped references only."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sakura.codec import Codec, CodecProfile, create_codec, identity_profile
from sakura.errors import CodecError
from sakura.models.base import Adapter, Request, Template
from sakura.models.registry import profile_for
from sakura.pack.capture import dilated
from sakura.pack.describe import TOOL, pixel_digest
from sakura.pack.families import family_of
from sakura.pack.neutral import calibration_references, neutral_reference
from sakura.pack.options import PackOptions

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What to pack, settled: placement written out, mask grown, profile found.

    Args:
        adapter: the model.
        template: as it will be captured.
        options: the user's.
        profile: the codec's.
        codec: encoder.
    """

    adapter: Adapter
    template: Template
    options: PackOptions
    profile: CodecProfile
    codec: Codec

    @property
    def num_levels(self) -> int:
        """Uncompressed state has no refinements."""
        return 1 if self.options.is_raw else self.options.num_levels

    def neutral(self) -> Array:
        """The reference of the capture."""
        return neutral_reference(self.options.neutral, self.template)

    def requests(self) -> tuple[Request, ...]:
        """The calibration edits, each with noise of its own."""
        references = calibration_references(self.options.num_calibration)
        seed = self.options.seed
        return tuple(Request(r, seed=seed + i) for i, r in enumerate(references, start=1))

    def key(self) -> str:
        """Digest of everything that decides the bundle's bytes."""
        identity, template, options = self.adapter.identity(), self.template, self.options
        chosen = {name: getattr(options, name) for name in options.__slots__ if name != "profile"}
        parts = {
            "tool": TOOL,
            "model": [identity.family, identity.config_digest, identity.weights_digest],
            "canary": identity.canary.tobytes().hex(),
            "schedule": [self.adapter.schedule.name, *self.adapter.schedule.sigmas],
            "template": [pixel_digest(template.image), template.mask.packed.hex(), template.task],
            "conditioning": template.conditioning,
            "noise_seed": template.noise_seed,
            "options": chosen,
            "profile": self.profile.digest,
            "neutral": pixel_digest(self.neutral()),
            "calibration": [pixel_digest(request.reference) for request in self.requests()],
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def make_job(adapter: Adapter, template: Template, options: PackOptions) -> Job:
    """Settle a template and find its codec.

    Raises:
        InputError: the packager does not know the model, or the options do not fit.
        CodecError: unknown codec, or a profile that is missing or another model's.
    """
    family = adapter.identity().family
    settled = dilated(family_of(family).settled(template), options.ring)
    geometry = adapter.geometry
    num_blocks, num_steps = geometry.num_blocks, adapter.schedule.num_steps
    dims = (num_blocks, num_steps, geometry.num_heads, geometry.head_dim)
    profile = identity_profile(*dims) if options.is_raw else options.profile
    profile = profile or profile_for(family)
    if profile.dims != dims:
        raise CodecError(
            f"the codec profile is for {profile.dims} (blocks, steps, heads, head dimension), "
            f"expected {dims}",
            hint="fit one for this model: scripts/fit_profile.py",
        )
    return Job(adapter, settled, options, profile, create_codec(options.codec, profile))
