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
from study_material import Material, test_materials, train_materials
from study_weights import channel_costs

from sakura.bench.machine import machine, versions
from sakura.codec import CodecProfile, ErrorWeights, fit_profile, with_statistics
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.pack.allocate import first_scale
from sakura.pack.describe import step_share
from sakura.pack.edits import to_mse

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
from fit_profile import STEP_POWER, edits

Array = NDArray[Any]
Points = Callable[[Coded, int], Iterator[tuple[int, float]]]
TARGETS_DB = (45.0, 50.0, 55.0)
SCALES = (0, 6)
"""Added to the first scale: eighths of an octave, half a level apart."""
FIRST_DB = 47.0
NUM_COSTS = 6
"""Templates whose attention gives the error weights."""


def variants(
    profile: CodecProfile, states: Sequence[Array], weights: ErrorWeights
) -> dict[str, CodecProfile]:
    """Profiles with a part of the transform switched off; sensitivities are the shipped ones."""
    shipped = {"sensitivity": profile.sensitivity, "step_weight": profile.step_weight}
    even = ErrorWeights(np.ones_like(weights.steps), weights.channels)
    full = fit_profile(states, weights)
    left, size, _ = np.linalg.svd(full.channel_basis.astype(np.float64))
    root = (left * size[..., None, :]) @ left.swapaxes(-1, -2)
    steps = np.diag(1 / np.sqrt(weights.steps / weights.steps.mean()))
    steps = np.broadcast_to(steps, profile.step_basis.shape).astype(np.float32)
    changed = {
        "no step KLT": with_statistics(dataclasses.replace(profile, step_basis=steps), states),
        "no channel KLT": with_statistics(
            dataclasses.replace(full, channel_basis=root.astype(np.float16)), states
        ),
        "heads apart": fit_profile(states, weights, profile.dims[2]),
        "steps cost the same": fit_profile(states, even),
    }
    changed = {name: dataclasses.replace(other, **shipped) for name, other in changed.items()}
    plain = dataclasses.replace(fit_profile(states), step_weight=profile.step_weight)
    return {**changed, "no error weights": plain}


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
    """Geometric mean of the bits at a PSNR, log-linear between points; those of the first point
    where it is better already, NaN where the last is worse."""
    logs = []
    for points_ in curves:
        db = np.maximum.accumulate([p[1] for p in points_])
        bits = np.log([max(p[0], 1e-6) for p in points_])
        logs.append(np.interp(target_db, db, bits, right=np.nan))
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
    train = list(train_materials(adapter, edits(adapter, args.pool, args.train)))
    share = step_share(profile)
    weights = ErrorWeights(share**STEP_POWER, channel_costs(train[:NUM_COSTS], share, "pre"))
    tests = test_materials(adapter, args.test, args.test_pool)
    jobs: dict[str, tuple[Callable[[Material], Coded], Points]] = {
        "all on": (lambda one: coded(one, profile), points),
        "no refinement": (lambda one: coded(one, profile), one_shot_points),
        "no token weights": (lambda one: coded(one, profile, has_gains=False), points),
        "even allocation": (lambda one: coded(one, profile, is_even=True), points),
    }
    for name, other in variants(profile, [one.state for one in train], weights).items():
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
