"""What the step axis is worth with 4, 8 and 16 steps.

Ideal class entropy in bits per number of the state, and per number of one step, where the state
keeps 20 dB (errors relative to the mean square of K or V of a block), with and without step KLT.
Needs the `train` extra and rendered pools.

    python benchmarks/step_study.py POOL TEST_POOL --out docs/results/step_study.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_model import unseen_pairs
from numpy.typing import NDArray
from study_codec import Choice, Coding, Item, Tally, Weights

from sakura.bench.machine import machine, versions
from sakura.models.base import Schedule, Template
from sakura.models.mini import MiniAdapter
from sakura.pack.capture import capture
from sakura.pack.neutral import neutral_reference

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
from fit_profile import edits

Array = NDArray[Any]
TARGET_DB = 20.0
SCALES = tuple(2.0**k for k in np.arange(-4.0, 1.0, 0.5))


class Stepped(MiniAdapter):
    """Mini model A with another number of steps."""

    def use(self, num_steps: int) -> None:
        """Take this many steps from now on."""
        sigmas = tuple(float(s) for s in np.linspace(1, 0, num_steps + 1))
        self.schedule = Schedule("flow-match-euler", sigmas)
        self._modulations.clear()


def captured(adapter: MiniAdapter, templates: Sequence[Template]) -> list[Item]:
    """States of templates, all tokens alike."""
    states = [capture(adapter, t, [neutral_reference("mean", t)]).state for t in templates]
    return [Item(s, np.ones((s.shape[0], 2, s.shape[3]))) for s in states]


def rows_of(choice: Choice, train: list[Item], test: list[Item]) -> list[tuple[float, float]]:
    """(dB, bits) of a choice over the scales."""
    square = sum(
        np.square(i.state - i.state.mean(3, keepdims=True)).mean((2, 3, 4, 5)) for i in train
    )
    blocks = len(train) / square
    num_steps, head_dim = test[0].state.shape[2], test[0].state.shape[-1]
    metric = np.broadcast_to(np.eye(head_dim), (*blocks.shape, 4, head_dim, head_dim))
    coding = Coding(choice, Weights(blocks, np.full(num_steps, 1 / num_steps), metric), train)
    rows = []
    for scale in SCALES:
        tally, errors = Tally(), []
        for item in test:
            left = coding.rate(item, scale * num_steps**-0.5, tally)
            error = np.square(left - item.state).mean((2, 3, 4, 5))
            errors.append(float((blocks * error).mean()))
        rows.append((-10 * float(np.log10(np.mean(errors))), tally.bits))
    return rows


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("test_pool", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = Stepped.load()
    assert isinstance(adapter, Stepped)
    train_templates = [template for template, _ in edits(adapter, args.pool, 9)]
    test_templates = [pair.template for pair in unseen_pairs(3, args.test_pool)]
    found = {}
    for num_steps in (4, 8, 16):
        adapter.use(num_steps)
        train, test = captured(adapter, train_templates), captured(adapter, test_templates)
        for name, basis in (("step KLT", "block"), ("no step KLT", "none")):
            rows = sorted(rows_of(Choice(groups="joint", step_basis=basis), train, test))
            bits = float(np.interp(TARGET_DB, *np.array(rows).T))
            found[f"{num_steps} steps, {name}"] = {"bits": bits, "bits_per_step": bits * num_steps}
            print(f"{num_steps:3d} {name:12s} {bits:8.4f} {bits * num_steps:8.4f}", flush=True)
    result = {"at_state_snr_db": TARGET_DB, "found": found}
    result |= {"machine": machine(), "versions": versions()}
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
