"""Which transform, token weights and quantiser give the fewest bits at equal fidelity.

Fits each way of coding to templates of the training split and measures it on unseen ones: ideal
class entropy in bits per number of the state, PSNR of an unseen edit inside the mask, and signal to
error of the attention outputs of active queries. Needs the `train` extra and rendered pools.

    python benchmarks/transform_study.py POOL TEST_POOL --out docs/results/transform_study.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from study_codec import BlockInput, Choice, Coding, Item, Tally, Weights
from study_material import Material, attention_snr_db, test_materials, train_materials
from study_weights import channel_metric, gains, token_costs

from sakura.bench.machine import machine, versions
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.pack.describe import step_share

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
from fit_profile import edits

Array = NDArray[Any]

TARGETS_DB = (40.0, 45.0, 50.0, 55.0)
TARGETS_SNR = (15.0, 20.0, 25.0, 30.0)
SCALES = tuple(2.0**k for k in np.arange(-10.0, -4.0, 1.0))
BASE = Choice(groups="joint", has_metric=True)
CHOICES = {
    "1 per head (format before)": Choice(),
    "2 all heads of K, of V": Choice(groups="heads"),
    "3 K and V together": Choice(groups="joint"),
    "4 the same, channel metric": BASE,
    "4 block input, channel metric": replace(BASE, groups="input"),
    "4 one step basis": replace(BASE, step_basis="shared"),
    "4 step metric, half": replace(BASE, step_power=0.5),
    "4 step metric": replace(BASE, step_power=1.0),
    "4 no step KLT": replace(BASE, step_basis="none"),
    "4 no channel KLT": replace(BASE, has_channel_basis=False),
    "4 post-RoPE K": replace(BASE, rope="post"),
    "4 token grid, 8 bands": replace(BASE, bands=8),
    "4 own sigmas": replace(BASE, is_adaptive=True),
    "4 dead zone 0.1": replace(BASE, dead_zone=0.1),
    "4 dead zone 0.2": replace(BASE, dead_zone=0.2),
    "4 gains none": replace(BASE, gains="none"),
    "4 gains mass, wide": replace(BASE, gains="mass-wide"),
    "4 gains cost": replace(BASE, gains="both"),
    "4 gains cost, wide": replace(BASE, gains="both-wide"),
    "4 gains cost, wide, tiles of 32": replace(BASE, gains="both-wide", tile=32),
    "4 gains cost, wide, tiles of 16": replace(BASE, gains="both-wide", tile=16),
    "4 gains cost, wide, no tiles": replace(BASE, gains="both-wide", tile=1),
    "1 post-RoPE K": Choice(rope="post"),
    "1 one step basis": Choice(step_basis="shared"),
    "1 no step KLT": Choice(step_basis="none"),
    "1 no channel KLT": Choice(has_channel_basis=False),
    "1 channel metric": Choice(has_metric=True),
    "1 gains cost, K and V apart": Choice(gains="cost"),
    "1 gains cost, K and V alike": Choice(gains="both"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What all choices share.

    Args:
        train: templates to fit on.
        test: templates to measure on.
        costs: token costs of each, by calibration edits of the packager's own.
        step_share: (S,).
        blocks: (B, 2) sensitivities.
    """

    train: Sequence[Material]
    test: Sequence[Material]
    costs: dict[int, Array]
    step_share: Array
    blocks: Array
    metrics: dict[str, Array]

    def item(self, one: Material, choice: Choice) -> Item:
        """A template in the form a choice asks for."""
        state = one.state
        if choice.rope == "post":
            state = turned(one, state, back=False)
        precision = gains(choice.gains, one, self.costs[id(one)], choice.tile)
        bands = token_bands(one.tokens, choice.bands) if choice.bands else None
        return Item(state, precision, bands)


def turned(one: Material, state: Array, *, back: bool) -> Array:
    """The state with its keys rotated, or rotated back."""
    out = state.copy()
    for block, step in np.ndindex(state.shape[0], state.shape[2]):
        keys = state[block, 0, step]
        out[block, 0, step] = one.rotated(keys) if not back else unrotated(one, keys)
    return out


def unrotated(one: Material, keys: Array) -> Array:
    """Inverse of `Material.rotated`: RoPE turns pairs of channels."""
    cos, sin = one.adapter.ropes()[0]
    cos, sin = (part.numpy()[one.tokens][:, None] for part in (cos, sin))
    pairs = keys.reshape(*keys.shape[:-1], -1, 2)
    swapped = np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(keys.shape)
    return keys * cos - swapped * sin


def token_bands(tokens: Array, count: int) -> tuple[Array, Array]:
    """Eigenvectors of the graph of neighbouring tokens, and the octave of each one's frequency."""
    place = np.stack(np.divmod(tokens, 16), 1)
    near = np.abs(place[:, None] - place[None]).sum(-1) == 1
    value, vector = np.linalg.eigh(np.diag(near.sum(1)) - near.astype(float))
    edges = 8.0 * 2.0 ** -np.arange(count - 1, 0, -1.0)
    return vector.T.astype(np.float32), np.digitize(value, edges)


def measure(choice: Choice, setting: Setting, scales: Sequence[float]) -> list[dict[str, float]]:
    """Rate and fidelity of a choice at each scale, pooled over the test templates."""
    weights = Weights(
        setting.blocks,
        setting.step_share,
        setting.metrics[choice.rope],
        block_input(setting.test[0].adapter),
    )
    coding = Coding(choice, weights, [setting.item(one, choice) for one in setting.train])
    rows = []
    for scale in scales:
        tally, psnrs, snrs = Tally(), [], []
        for one in setting.test:
            state = coding.rate(setting.item(one, choice), scale, tally)
            if choice.rope == "post":
                state = turned(one, state, back=True)
            psnrs.append(one.psnr_db(state))
            snrs.append(attention_snr_db(one, state, setting.step_share))
        row = {"bits": tally.bits, "psnr_db": np.mean(psnrs), "snr_db": np.mean(snrs)}
        rows.append({name: float(value) for name, value in row.items()})
    return rows


def block_input(adapter: MiniAdapter) -> BlockInput:
    """Projections and key norms of the model."""
    net, projects, gains_ = adapter.net.transformer, [], []
    for block in net.transformer_blocks:
        projects.append([block.attn.to_k.weight.numpy().T, block.attn.to_v.weight.numpy().T])
        gains_.append(block.attn.norm_k.weight.numpy())
    for block in net.single_transformer_blocks:
        width = block.attn.inner_dim
        matrix = block.attn.to_qkv_mlp_proj.weight.numpy().T
        projects.append([matrix[:, width : 2 * width], matrix[:, 2 * width : 3 * width]])
        gains_.append(block.attn.norm_k.weight.numpy())
    return BlockInput(np.array(projects), np.array(gains_))


def bits_at(rows: list[dict[str, float]], name: str, target_db: float) -> float:
    """Bits at a fidelity, log-linear between the scales measured; NaN outside them."""
    x = np.array([row[name] for row in rows])
    y = np.log(np.maximum([row["bits"] for row in rows], 1e-9))
    order = np.argsort(x)
    found = np.interp(target_db, x[order], y[order], left=np.nan, right=np.nan)
    return float(np.exp(found))


def setting_of(adapter: MiniAdapter, pools: tuple[Path, Path], counts: tuple[int, int]) -> Setting:
    """Capture everything."""
    profile = profile_for(adapter.family)
    share, blocks = step_share(profile), profile.sensitivity.astype(np.float64)
    train = list(train_materials(adapter, edits(adapter, pools[0], counts[0])))
    test = test_materials(adapter, counts[1], pools[1])
    return assemble(train, test, share, blocks)


def assemble(
    train: Sequence[Material], test: Sequence[Material], share: Array, blocks: Array
) -> Setting:
    """Derive costs and metrics."""
    costs = {id(one): token_costs(one, share) for one in (*train, *test)}
    metrics = {rope: channel_metric(train[:9], share, rope) for rope in ("pre", "post")}
    return Setting(train, test, costs, share, blocks, metrics)


def summary(rows: list[dict[str, float]]) -> dict[str, Any]:
    """Bits at the targets."""
    return {
        "bits_at_psnr_db": {f"{t:.0f}": bits_at(rows, "psnr_db", t) for t in TARGETS_DB},
        "bits_at_attention_snr_db": {f"{t:.0f}": bits_at(rows, "snr_db", t) for t in TARGETS_SNR},
        "curve": rows,
    }


def line(name: str, found: dict[str, Any]) -> str:
    """One row of the printed table."""
    numbers = [*found["bits_at_psnr_db"].values(), *found["bits_at_attention_snr_db"].values()]
    return f"{name:32s}" + "".join(f"{value:9.4f}" for value in numbers)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path, help="folder of quads-*.npy, training split")
    parser.add_argument("test_pool", type=Path, help="folder of the rendered test split")
    parser.add_argument("--train", type=int, default=18)
    parser.add_argument("--test", type=int, default=6)
    parser.add_argument("--only", nargs="*", help="names of choices")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load()
    setting = setting_of(adapter, (args.pool, args.test_pool), (args.train, args.test))
    found = {}
    for name, choice in CHOICES.items():
        if not args.only or name in args.only:
            found[name] = summary(measure(choice, setting, SCALES))
            print(line(name, found[name]), flush=True)
    result = {"choices": found, "train": args.train, "test": args.test}
    result |= {"machine": machine(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
