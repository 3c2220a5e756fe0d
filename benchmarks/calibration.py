"""Whether the distortions in a bundle say what shards are worth: predicted against measured.

For each shard and level of unseen templates, the error that the manifest predicts, and the error of
an unseen edit whose state is uncompressed but for that shard. Needs the `train` and `viz` extras.

    python benchmarks/calibration.py --pool TEST_POOL --out docs/results/calibration.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from study_ladder import NUM_LEVELS, Coded, coded
from study_material import test_materials

from sakura.bench.machine import machine, versions
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.pack.allocate import first_scale
from sakura.pack.edits import to_mse
from sakura.pack.ladder import state_of

Array = NDArray[Any]
LEAST = 1e-9
"""Errors below this, -90 dB, are left out: no player decides by them."""


def pairs_of(made: Coded, scale: int) -> Iterator[tuple[int, int, int, float, float]]:
    """(block, component, level, predicted, measured) of every shard; level -1 is nothing."""
    ladder, shards = made.at(scale)
    exact = state_of(ladder.profile, made.coefs)
    # Against what the profile's rank can express: its own loss is no shard's.
    expected = made.one.edit(exact)
    for (block, component), shard in shards.items():
        data = ladder.shard_data((block, component), shard, np.ones(NUM_LEVELS + 1))
        predicted = [data.energy, *(layer.distortion for layer in data.layers)]
        decoder = ladder.codec.decoder(ladder.spec(block, component))
        for level in range(-1, NUM_LEVELS):
            if level >= 0:
                decoder.feed_layer(level, shard.layers[level], complete=True)
            coefs = made.coefs[block].copy()
            coefs[component] = decoder.coefficients()
            state = exact.copy()
            state[block] = state_of_block(made, block, coefs)
            error = float(np.square(made.one.edit(state) - expected).mean())
            yield block, component, level, predicted[level + 1], error


def state_of_block(made: Coded, block: int, coefs: Array) -> Array:
    """(2, S, N, H, Dh) of one block."""
    from sakura.codec import inverse_channels, synthesise

    profile = made.ladder.profile
    comps = np.stack([inverse_channels(profile, block, coef) for coef in coefs])
    return np.stack([synthesise(profile, block, comps, s) for s in range(len(coefs))], axis=1)


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rho."""
    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def plot(rows: Array, rho: float, path: Path) -> None:
    """Predicted against measured, by level."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.5, 5))
    for level in range(-1, NUM_LEVELS):
        some = rows[rows[:, 3] == level]
        name = "nothing decoded" if level < 0 else f"level {level}"
        axes.scatter(some[:, 4], some[:, 5], s=4, alpha=0.6, label=name)
    ends = [LEAST, rows[:, 4:].max() * 2]
    axes.plot(ends, ends, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="predicted MSE of the edit", ylabel="measured MSE", title=f"rho {rho:.3f}")
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--pool", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load()
    profile, rows = profile_for(adapter.family), []
    for number, one in enumerate(test_materials(adapter, args.count, args.pool)):
        made = coded(one, profile)
        scale = first_scale(made.ladder.worth, to_mse(45.0), 2)
        rows += [(number, *pair) for pair in pairs_of(made, scale)]
    table = np.array(rows)
    table = table[(table[:, 4] > LEAST) & (table[:, 5] > LEAST)]
    rho = rank_correlation(table[:, 4], table[:, 5])
    each = [
        rank_correlation(some[:, 4], some[:, 5])
        for some in (table[table[:, 0] == n] for n in range(args.count))
    ]
    ratio = np.log2(table[:, 5] / table[:, 4])
    result = {
        "num_pairs": len(table),
        "rank_correlation": rho,
        "rank_correlation_by_template": each,
        "log2_measured_over_predicted": {
            "median": float(np.median(ratio)),
            "quartiles": np.quantile(ratio, [0.25, 0.75]).tolist(),
        },
        "profile": profile.digest,
        "machine": machine(),
        "versions": versions(),
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
        plot(table, rho, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
