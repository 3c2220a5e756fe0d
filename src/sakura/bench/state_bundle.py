"""A bundle of a bare state, for users whose model SAKURA does not know: same head, same shards, but
nothing to edit with, so the steps are the caller's choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sakura.codec import CodecProfile, SakuraCodec, ShardSpec, create_codec
from sakura.format import LayerData, Manifest, ShardData, write_bundle
from sakura.format import manifest as wire
from sakura.format.version import CURRENT
from sakura.grid import TokenGrid, TokenMask
from sakura.pack.allocate import base_steps, coefficient_worth, component_shares
from sakura.pack.describe import TOOL, step_share
from sakura.pack.importance import Importance, rank_tokens
from sakura.pack.ladder import coefficients

Array = NDArray[Any]

_DIGEST = "0" * 64


@dataclass(frozen=True, slots=True, eq=False)
class BareState:
    """A state without a model.

    Args:
        state: (B, 2, S, N, H, Dh) float32.
        mass: (B, N) attention of each token; None counts all alike.
        profile: of the model, or fitted on this state.
    """

    state: Array
    mass: Array | None
    profile: CodecProfile

    @property
    def importance(self) -> Importance:
        """Order and gains of the tokens."""
        num_blocks, num_tokens = len(self.state), self.state.shape[3]
        even = np.ones((num_blocks, num_tokens))
        return rank_tokens(even if self.mass is None else self.mass)


def bare_scales(bare: BareState) -> list[float]:
    """Scales of the steps, coarsest first, three octaves apart: the base layer of the first holds
    next to nothing, the last layers of the last are fine."""
    sigma = bare.profile.sigma.astype(np.float64).reshape(*_worth(bare.profile).shape, -1)
    largest = float((sigma.max(-1) * np.sqrt(_worth(bare.profile))).max())
    return [largest / 8**power for power in range(4)]


def shard_coefs(bare: BareState, scale: float) -> dict[ShardSpec, Array]:
    """Coefficients (2, N, C) of every shard, in the order of the data."""
    profile, importance = bare.profile, bare.importance
    steps = base_steps(_worth(profile), scale)
    coefs = coefficients(profile, np.ascontiguousarray(bare.state[:, :, :, importance.order]))
    found = {}
    for block, component in np.ndindex(*coefs.shape[:2]):
        delta_k, delta_v = steps[block, :, component].tolist()
        spec = ShardSpec(block, component, (delta_k, delta_v), importance.tiles(block))
        found[spec] = coefs[block, component]
    return found


def bundle_of(bare: BareState, scale: float) -> bytes:
    """The state as a bundle without picture, every layer in it.

    Args:
        bare: what to code.
        scale: of all base steps, see `pack.allocate`.
    """
    codec, shards = create_codec(SakuraCodec.id, bare.profile), []
    for spec, coef in shard_coefs(bare, scale).items():
        layers = tuple(LayerData(data, 0.0) for data in codec.encode_shard(spec, coef).layers)
        shards.append(ShardData(spec.block, spec.component, spec.delta, 0.0, layers))
    return b"".join(write_bundle(_manifest(bare, len(shards[0].layers)), shards))


def _worth(profile: CodecProfile) -> Array:
    shares = component_shares(profile.step_basis, step_share(profile))
    return coefficient_worth(profile.sensitivity, shares)


def _manifest(bare: BareState, num_levels: int) -> Manifest:
    """The tokens as a row with one more token, which stands for the edited region."""
    importance = bare.importance
    num_blocks, _, num_steps, num_tokens, num_heads, head_dim = bare.state.shape
    grid = TokenGrid(1, num_tokens + 1, 1)
    bits = np.zeros((1, num_tokens + 1), bool)
    bits[0, -1] = True
    share = [float(f"{v:.4g}") for v in step_share(bare.profile)]
    return Manifest(
        format=(CURRENT.major, CURRENT.minor),
        tool=TOOL,
        model=wire.Model(
            family="unknown", class_name="unknown", config_digest=_DIGEST, weights_digest=_DIGEST
        ),
        schedule=wire.Schedule(
            name="unknown", sigmas=tuple(np.linspace(1, 0, num_steps + 1).tolist())
        ),
        noise=wire.Noise(generator="unknown", seed=0),
        reuse="mask",
        geometry=wire.Geometry(
            num_double=num_blocks, num_single=0, num_heads=num_heads, head_dim=head_dim
        ),
        grid=wire.Grid(height=1, width=num_tokens + 1, patch_px=1),
        mask=TokenMask.from_bits(grid, bits).packed,
        task="unknown",
        conditioning={},
        rope=None,
        dtype="float32",
        template=wire.Template(digest=_DIGEST, width=num_tokens + 1, height=1),
        codec=wire.Codec(
            id=SakuraCodec.id,
            profile_digest=bare.profile.digest,
            parameters={"step_share": share},
        ),
        token_tiles=wire.pack_tiles(importance.order, importance.widths),
        tiles=wire.Tiles(widths=importance.widths, gains=importance.gains),
        predicted=wire.Predicted(levels=(0.0,) * num_levels),
        provenance=wire.Provenance(seed=0, reference="none", calibration="none"),
    )
