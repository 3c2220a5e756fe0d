"""The rate-fidelity curve with each part of the codec switched off.

Real streams (no headers) of unseen templates, an unseen edit on what each level decodes to, against
the same edit on uncompressed state, inside the mask. Profiles without a part are fitted to training
templates. Needs the `train` and `viz` extras and rendered pools.

    python benchmarks/ablation.py POOL TEST_POOL --out docs/results/ablation.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from study_ladder import Coded, coded, one_shot_points, points
from study_material import Material, test_materials

from sakura.bench.machine import machine, versions
from sakura.codec import CodecProfile, ErrorWeights, fit_profile, with_statistics
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.pack.allocate import first_scale
from sakura.pack.capture import capture
from sakura.pack.edits import to_mse
from sakura.pack.neutral import neutral_reference

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
from fit_profile import edits

Array = NDArray[Any]
Points = Callable[[Coded, int], Iterator[tuple[int, float]]]
TARGETS_DB = (40.0, 45.0, 50.0)
SCALES = (0, 6)
"""Added to the first scale: eighths of an octave, half a level apart."""
FIRST_DB = 47.0


def weights_of(profile: CodecProfile) -> ErrorWeights:
    """What errors cost, by the bases that were fitted to it."""
    num_blocks, _, num_heads, head_dim = profile.dims
    basis = profile.channel_basis[:, 0].astype(np.float64)
    cost = np.linalg.inv(basis @ basis.swapaxes(-1, -2))
    cost = cost.reshape(num_blocks, 2, num_heads, head_dim, 2, num_heads, head_dim)
    channels = np.einsum("bkhdkhe->bkhde", cost)
    steps = profile.step_basis[0, 0].astype(np.float64)
    return ErrorWeights(1 / np.diagonal(steps @ steps.T), channels)


def variants(profile: CodecProfile, states: Sequence[Array]) -> dict[str, CodecProfile]:
    """Profiles with a part of the transform switched off."""
    weights = weights_of(profile)
    sensitivity = {"sensitivity": profile.sensitivity, "step_weight": profile.step_weight}
    even = ErrorWeights(np.ones_like(weights.steps), weights.channels)
    left, size, _ = np.linalg.svd(profile.channel_basis.astype(np.float64))
    root = (left * size[..., None, :]) @ left.swapaxes(-1, -2)
    alone = np.diag(1 / np.sqrt(weights.steps / weights.steps.mean()))
    alone = np.broadcast_to(alone, profile.step_basis.shape)
    return {
        "no step KLT": with_statistics(
            dataclasses.replace(profile, step_basis=alone.astype(np.float32)), states
        ),
        "no channel KLT": with_statistics(
            dataclasses.replace(profile, channel_basis=root.astype(np.float32)), states
        ),
        "heads apart": dataclasses.replace(
            fit_profile(states, weights, profile.dims[2]), **sensitivity
        ),
        "steps cost the same": dataclasses.replace(fit_profile(states, even), **sensitivity),
        "no error weights": dataclasses.replace(
            fit_profile(states), step_weight=profile.step_weight
        ),
    }


def curve(materials: Sequence[Material], make: Callable[[Material], Coded], draw: Points) -> Any:
    """Per template, sorted (bits per number of the state, dB)."""
    curves = []
    for one in materials:
        made = make(one)
        first = first_scale(made.ladder.worth, to_mse(FIRST_DB), 2)
        found = [point for scale in SCALES for point in draw(made, first + scale)]
        curves.append(sorted((8 * size / one.state.size, db) for size, db in found))
    return curves


def bits_at(curves: Any, target_db: float) -> float:
    """Geometric mean of the bits at a PSNR, log-linear between points; NaN where out of reach."""
    logs = []
    for points_ in curves:
        db = np.maximum.accumulate([p[1] for p in points_])
        bits = np.log([max(p[0], 1e-6) for p in points_])
        logs.append(np.interp(target_db, db, bits, left=np.nan, right=np.nan))
    return float(np.exp(np.mean(logs)))


def plot(found: dict[str, Any], path: Path) -> None:
    """Mean curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for name, result in found.items():
        mean = np.mean([np.array(c) for c in result["curves"]], axis=0)
        width = 2.5 if name == "all on" else 1.0
        axes.plot(mean[:, 0], mean[:, 1], label=name, linewidth=width, marker=".")
    axes.set(xscale="log", xlim=(1e-4, 1), ylim=(34, 62))
    axes.set(xlabel="bits per number of the state", ylabel="PSNR inside the mask, dB")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("test_pool", type=Path)
    parser.add_argument("--train", type=int, default=15)
    parser.add_argument("--test", type=int, default=6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load()
    profile = profile_for(adapter.family)
    states = [
        capture(adapter, template, [neutral_reference("mean", template)]).state
        for template, _ in edits(adapter, args.pool, args.train)
    ]
    tests = test_materials(adapter, args.test, args.test_pool)
    jobs: dict[str, tuple[Callable[[Material], Coded], Points]] = {
        "all on": (lambda one: coded(one, profile), points),
        "no refinement": (lambda one: coded(one, profile), one_shot_points),
        "no token weights": (lambda one: coded(one, profile, has_gains=False), points),
        "even allocation": (lambda one: coded(one, profile, is_even=True), points),
    }
    for name, other in variants(profile, states).items():
        jobs[name] = (lambda one, p=other: coded(one, p), points)
    found = {}
    for name, (make, draw) in jobs.items():
        curves = curve(tests, make, draw)
        bits = {f"{t:.0f}": bits_at(curves, t) for t in TARGETS_DB}
        found[name] = {"bits_at_db": bits, "curves": curves}
        print(f"{name:24s}" + "".join(f"{v:9.4f}" for v in bits.values()), flush=True)
    result = {"parts": found, "profile": profile.digest, "num_templates": len(tests)}
    result |= {"machine": machine(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
        plot(found, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
