"""Scenes for the simulator: a packed bundle, a recorded link scaled like a phone's, a device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from sakura.bench.devices import DEFAULT_LIKE, StepCost, phone_step, scale_link
from sakura.bench.oracle import play_oracle
from sakura.bench.sim_device import DeviceModel
from sakura.bench.simulate import Scene, SimBundle, SimResult, simulate
from sakura.errors import InputError
from sakura.format import Manifest, read_head
from sakura.format.shard import CHUNK_BYTES, DIGEST_BYTES
from sakura.models.base import Geometry
from sakura.play.bundle import FIRST_BYTES
from sakura.play.fingerprint import profile_of
from sakura.play.policy import POLICIES, create_policy
from sakura.store.link import LinkModel
from sakura.store.open import open_reader
from sakura.store.trace import Trace

ORACLE = "oracle"
NAMES = (*POLICIES, ORACLE)
"""Policies that can be simulated."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Network and device.

    Args:
        trace: as recorded.
        rtt_s: round trip, as recorded.
        like: MODEL@DEVICE whose ratio of compute and bytes the link is scaled to.
        step_s: a step with all tokens on the machine that stands for that device.
        start_s: how far into the recorded trace the edit begins.
    """

    trace: Trace
    rtt_s: float = 0.04
    like: str = DEFAULT_LIKE
    step_s: float = 0.04
    start_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.rtt_s >= 0 and self.step_s > 0 and self.start_s >= 0):
            raise InputError("a step takes time, and no time is negative")


def load_bundle(source: str) -> SimBundle:
    """Read the head of a bundle at a path or URL; no model is needed.

    Raises:
        StoreError: there is no such object.
        FormatError: it is no bundle.
        CodecError: its codec profile is not known here.
    """
    reader = open_reader(source)
    num_bytes = reader.stat().num_bytes
    head = read_head(lambda offset, length: reader.read(offset, offset + length), num_bytes)
    profile = profile_of(head.manifest, head.manifest.model.family)
    return SimBundle(head, profile.step_basis, min(FIRST_BYTES, num_bytes))


def make_scene(
    bundle: SimBundle, at: Conditions, floor_db: float = 40.0, deadline_s: float | None = None
) -> Scene:
    """A scene on a link that is scaled as the demo scales it."""
    manifest = bundle.head.manifest
    state_bytes = round(bundle.size * step_bytes(manifest))
    scale = scale_link(StepCost(at.step_s, state_bytes), phone_step(at.like), at.like)
    mask_ratio = manifest.token_mask.ratio
    return Scene(
        bundle=bundle,
        link=LinkModel(scale.trace(at.trace), scale.rtt_s(at.rtt_s)),
        device=DeviceModel.of_step(at.step_s, bundle.num_blocks, mask_ratio),
        floor_db=floor_db,
        start_s=at.start_s * scale.time,
        deadline_s=deadline_s,
    )


def enlarged(bundle: SimBundle, size: float) -> SimBundle:
    """A bundle with `size` times the bytes of every layer, in chunks of the usual length: what the
    same compression would leave of a larger model's state. Nothing of it comes with the head.
    """
    offset, shards = 0, []
    for shard in bundle.head.manifest.shards:
        layers = []
        for layer in shard.layers:
            num_chunks, last = divmod(round(size * layer.num_bytes), CHUNK_BYTES)
            chunks = (CHUNK_BYTES,) * num_chunks + ((last,) if last else ())
            digests = bytes(DIGEST_BYTES * len(chunks))
            layers.append(replace(layer, offset=offset, chunks=chunks, digests=digests))
            offset += sum(chunks)
        shards.append(replace(shard, layers=tuple(layers)))
    manifest = replace(bundle.head.manifest, shards=tuple(shards))
    head = dataclasses.replace(bundle.head, manifest=manifest)
    return dataclasses.replace(bundle, head=head, opened_bytes=0, size=size * bundle.size)


def phone_scene(bundle: SimBundle, at: Conditions, floor_db: float = 40.0) -> Scene:
    """The phone-class model itself: its step, its amount of state, the network as recorded."""
    phone = phone_step(at.like)
    size = phone.state_bytes / (bundle.size * step_bytes(bundle.head.manifest))
    return make_scene(
        enlarged(bundle, size), dataclasses.replace(at, step_s=phone.compute_s), floor_db
    )


def step_bytes(manifest: Manifest) -> int:
    """Uncompressed state of all tokens at one step."""
    g = manifest.geometry
    geometry = Geometry(g.num_double, g.num_single, g.num_heads, g.head_dim)
    return geometry.state_bytes(manifest.token_mask.grid.num_tokens, 1)


def run_policy(scene: Scene, name: str) -> SimResult:
    """Simulate an edit by the policy of this name, the oracle included."""
    return play_oracle(scene) if name == ORACLE else simulate(scene, create_policy(name))
