"""Fit the codec profile that ships for mini model A, and print what was measured on the way.

    python train/render_pool.py POOL
    python scripts/fit_profile.py POOL

Captures templates of the training split, fits bases, sigmas and tables to their state, then
measures how much errors of the state cost an edit. Deterministic on one machine; run it again
whenever the weights change. About five minutes on one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sakura.codec import CodecProfile, fit_profile
from sakura.grid import TokenMask
from sakura.models.base import Request, Template
from sakura.models.mini import MiniAdapter
from sakura.pack.capture import Capture, capture
from sakura.pack.edits import Injection, run_injected
from sakura.pack.importance import rank_tokens
from sakura.pack.neutral import neutral_reference
from sakura.pack.options import PackOptions
from sakura.pack.sensitivity import Probe, Sensitivity, measure

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "src" / "sakura" / "assets"
SEED = 31
Array = NDArray[Any]


def edits(adapter: MiniAdapter, pool: Path, count: int) -> Iterator[tuple[Template, Request]]:
    """Templates and requests of the training split, the tasks in turn."""
    sys.path.insert(0, str(ROOT / "train"))
    from pairs import TASKS, PairSource, draw_layout

    source = PairSource(pool, np.random.default_rng(SEED), test=False)
    for index in range(count):
        layout = draw_layout(source.rng, TASKS[index % len(TASKS)], vary_mask=False)
        pairs = source.pairs(layout, [source.quadruple()])
        mask = TokenMask.from_bits(adapter.token_grid, layout.mask)
        conditioning = {"placement": [int(v) for v in layout.placement]}
        template = Template(pairs.template[0], mask, layout.task, conditioning, noise_seed=index)
        yield template, Request(pairs.reference[0], seed=index)


@dataclasses.dataclass(frozen=True, eq=False)
class Edit:
    """One training-split edit; called with a state, it gives the edited pixels, not rounded."""

    adapter: MiniAdapter
    template: Template
    request: Request
    tokens: Array

    def __call__(self, state: Array) -> Array:
        injection = Injection(self.tokens, state)
        run: Any = run_injected(self.adapter, self.template, self.request, injection)
        # Behind the run's interface: rounded pixels would drown the errors of single blocks.
        return run._latent_BNP.numpy().astype(np.float64) / 2


def probe_of(
    profile: CodecProfile,
    adapter: MiniAdapter,
    edit: tuple[Template, Request],
    captured: Capture,
) -> Probe:
    """An edit to disturb, with its state in importance order."""
    importance = rank_tokens(captured.mass)
    state = np.ascontiguousarray(captured.state[:, :, :, importance.order])
    run = Edit(adapter, *edit, captured.tokens[importance.order])
    return Probe(profile, state, importance.precision, run)


def report(profile: CodecProfile, found: Sensitivity) -> dict[str, Any]:
    """What was measured, for the table and the provenance file."""
    energy = np.square(profile.sigma, dtype=np.float64).sum((3, 4))
    return {
        "digest": profile.digest,
        "component_energy": (energy / energy.sum(2, keepdims=True)).mean((0, 1)).tolist(),
        "sensitivity_k": found.blocks[:, 0].tolist(),
        "sensitivity_v": found.blocks[:, 1].tolist(),
        "step_share": found.steps.tolist(),
        "component_share": found.components.tolist(),
        "component_share_expected": found.expected_components.tolist(),
    }


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path, help="folder of quads-*.npy")
    parser.add_argument("--weights", type=Path, help="default: the weights that ship")
    parser.add_argument("--out", type=Path, default=ASSETS / "mini_a.skp")
    parser.add_argument("--templates", type=int, default=40)
    parser.add_argument("--probes", type=int, default=12, help="templates to disturb")
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(args.weights)
    chosen = list(edits(adapter, args.pool, args.templates))
    captures = [
        capture(adapter, template, [neutral_reference(PackOptions().neutral, template)])
        for template, _ in chosen
    ]
    profile = fit_profile([captured.state for captured in captures])
    probes = [
        probe_of(profile, adapter, edit, captured)
        for edit, captured in list(zip(chosen, captures, strict=True))[: args.probes]
    ]
    found = measure(probes, profile)
    profile = dataclasses.replace(
        profile,
        sensitivity=found.blocks.astype(np.float32),
        step_weight=found.steps.astype(np.float32),
    )
    profile.save(args.out)
    lines = report(profile, found)
    lines |= {
        "weights": adapter.identity().weights_digest,
        "templates": args.templates,
        "probes": args.probes,
        "machine": f"{platform.machine()}, torch {torch.__version__}, numpy {np.__version__}",
    }
    args.out.with_suffix(".json").write_text(json.dumps(_short(lines), indent=1) + "\n")
    for name, value in _short(lines).items():
        print(f"{name:18s} {value}")


def _short(value: Any) -> Any:
    """Numbers to four significant digits."""
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
