"""Bytes against fidelity of whole bundles, over unseen templates and users.

Packs each template as a user would, then edits with an unseen reference on the state that each
level of the bundle decodes to, and on uncompressed state. PSNR is of the pixels inside the mask
between the two; `predicted` is what the bundle says, measured by the packager on references of its
own. Needs the `train` extra.

    python benchmarks/rate_fidelity.py --count 12 --out docs/results/rate_fidelity.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from bench_model import Unseen, unseen_pairs

from sakura.bench.bundle_levels import head_of, level_states
from sakura.bench.machine import machine, versions
from sakura.codec import load_profile
from sakura.models.base import Adapter, Request
from sakura.models.mini import MiniAdapter
from sakura.models.registry import profile_for
from sakura.pack import PackOptions, pack
from sakura.pack.capture import capture
from sakura.pack.edits import Injection, edit_injected, mse_inside, to_db
from sakura.pack.neutral import neutral_reference


def measure(adapter: Adapter, pair: Unseen, options: PackOptions, seed: int) -> dict[str, Any]:
    """Bytes and PSNR of every level of one template's bundle."""
    profile = options.profile
    assert profile is not None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.skv"
        report, data = pack(adapter, pair.template, path, options), path.read_bytes()
    head = head_of(data)
    order = head.manifest.importance_order
    captured = capture(adapter, pair.template, [neutral_reference(options.neutral, pair.template)])
    rows = np.searchsorted(captured.tokens, order)
    request = Request(pair.reference, seed=seed)
    exact = Injection(order, np.ascontiguousarray(captured.state[:, :, :, rows]))
    expected = edit_injected(adapter, pair.template, request, exact)
    measured = []
    for state in level_states(data, head, profile):
        picture = edit_injected(adapter, pair.template, request, Injection(order, state))
        measured.append(to_db(mse_inside(picture, expected, pair.template.mask)))
    model = [
        to_db(sum(s.layers[n].distortion for s in head.manifest.shards))
        for n in range(head.manifest.num_levels)
    ]
    return {
        "task": pair.template.task,
        "num_bytes": report.num_bytes,
        "head_bytes": head.data_start,
        "ratio_to_bf16": report.raw_state_bytes / report.num_bytes,
        "bits": [8 * n / (report.raw_state_bytes / 2) for n in np.cumsum(report.level_bytes)],
        "measured_db": measured,
        "predicted_db": list(report.predicted_db),
        "model_db": model,
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Means over the templates, and the worst measured."""
    sizes = [row["num_bytes"] for row in rows]
    ratios = [row["ratio_to_bf16"] for row in rows]
    print(f"bundle {np.mean(sizes) / 1e3:.1f} kB, 1/{np.mean(ratios):.1f} of bf16 state")
    print("level  bits/element  measured dB  worst  predicted  error model")
    for level in range(len(rows[0]["bits"])):
        bits, measured, predicted, model = (
            np.array([row[name][level] for row in rows])
            for name in ("bits", "measured_db", "predicted_db", "model_db")
        )
        print(
            f"{level:5d} {bits.mean():13.3f} {measured.mean():12.2f} {measured.min():6.2f} "
            f"{predicted.mean():10.2f} {model.mean():12.2f}"
        )


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=3, help="unseen templates")
    parser.add_argument("--weights", type=Path, help="default: the weights that ship")
    parser.add_argument("--profile", type=Path, help="default: the profile that ships")
    parser.add_argument("--pool", type=Path, help="rendered test split; default: render it")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(args.weights)
    profile = load_profile(args.profile) if args.profile else profile_for(adapter.family)
    options = PackOptions(profile=profile)
    pairs = unseen_pairs(args.count, args.pool)
    rows = [measure(adapter, pair, options, 100 + i) for i, pair in enumerate(pairs)]
    print_table(rows)
    result = {
        "templates": rows,
        "weights": adapter.identity().weights_digest,
        "profile": profile.digest,
        "machine": machine(),
        "versions": versions(),
    }
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
