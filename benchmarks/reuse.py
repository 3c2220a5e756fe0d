"""How close an edit on reused state is to the same edit on full compute, over unseen pairs.

State is captured with a neutral reference, never with the user's; this measures what that costs, by
task, by neutral reference and by ring of extra active tokens. `same request` captures with the
user's own reference and noise: what is left then is arithmetic. PSNR is of the pixels inside the
template's mask, against full compute of the same edit. Needs the `train` extra.

    python benchmarks/reuse.py --count 30 --out docs/results/reuse.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from bench_model import Unseen, unseen_pairs

from sakura.bench.machine import machine, versions
from sakura.models.base import Adapter, Request
from sakura.models.mini import MiniAdapter
from sakura.pack.capture import capture, dilated
from sakura.pack.edits import Injection, edit_full, edit_injected, mse_inside, to_db
from sakura.pack.neutral import KINDS, calibration_references, neutral_reference

AVERAGED = 3
SAME = "same request"


def measure(adapter: Adapter, pair: Unseen, seed: int, ring: int) -> Iterator[tuple[str, float]]:
    """(how the state was captured, PSNR) of one edit."""
    request, template = Request(pair.reference, seed=seed), dilated(pair.template, ring)
    full = edit_full(adapter, template, request)
    references = {kind: [neutral_reference(kind, pair.template)] for kind in KINDS}
    references[f"{AVERAGED} portraits"] = calibration_references(AVERAGED)
    references[SAME] = [pair.reference]
    for name, pictures in references.items():
        captured = capture(adapter, template, pictures, seed if name == SAME else 0)
        injection = Injection(captured.tokens, captured.state)
        edit = edit_injected(adapter, template, request, injection)
        yield name, to_db(mse_inside(edit, full, pair.template.mask))


def table(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Print mean and worst PSNR of every way, by task, and return them."""
    rows = {}
    print(f"{'captured with':28s} {'task':12s} {'mean dB':>8s} {'worst':>7s}")
    for name, tasks in found.items():
        everything = [value for values in tasks.values() for value in values]
        rows[name] = {}
        for task, values in {**tasks, "all": everything}.items():
            rows[name][task] = {
                "mean_db": round(float(np.mean(values)), 2),
                "worst_db": round(min(values), 2),
            }
            print(f"{name:28s} {task:12s} {np.mean(values):8.2f} {min(values):7.2f}")
    return rows


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=6, help="unseen pairs")
    parser.add_argument("--rings", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--weights", type=Path, help="default: the weights that ship")
    parser.add_argument("--pool", type=Path, help="rendered test split; default: render it")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(args.weights)
    found: dict[str, dict[str, list[float]]] = {}
    for index, pair in enumerate(unseen_pairs(args.count, args.pool)):
        for ring in args.rings:
            for name, psnr_db in measure(adapter, pair, index, ring):
                tasks = found.setdefault(f"{name}, ring {ring}", {})
                tasks.setdefault(pair.template.task, []).append(psnr_db)
    result = {
        "pairs": args.count,
        "psnr_inside_db": table(found),
        "weights": adapter.identity().weights_digest,
        "machine": machine(),
        "versions": versions(),
    }
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
