"""Quality of a mini model on unseen pairs: full compute, pasted template, wrong reference; contact
sheet.

Identities, garments and backgrounds are of the test split. PSNR is of the pixels inside the mask,
against the exact ground truth. Needs the `train` extra (the pairs are drawn on the spot from fixed
seeds).

    python benchmarks/bench_model.py --count 300 --sheet docs/models/mini_a.png
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent / "train"))

from pairs import TASKS, Pairs, PairSource, draw_layout
from render_pool import render_quadruples

from sakura.fidelity import psnr_db
from sakura.grid import TokenGrid, TokenMask
from sakura.models.base import Request, Template, full_compute
from sakura.models.mini import MiniAdapter

TEST_SEED = 1000
GRID = TokenGrid(16, 16, 8)


@dataclass(frozen=True, slots=True)
class Unseen:
    """One unseen pair as product objects, with its truth."""

    template: Template
    reference: np.ndarray
    truth: np.ndarray


def unseen_pairs(count: int, pool: Path | None = None) -> list[Unseen]:
    """`count` pairs of the test split, tasks in turn, the same for every call."""
    with TemporaryDirectory() as folder:
        if pool is None:
            np.save(Path(folder) / "test-1000.npy", render_quadruples(102, TEST_SEED, test=True))
        source = PairSource(pool or Path(folder), np.random.default_rng(TEST_SEED), test=True)
        out = []
        for i in range(count):
            layout = draw_layout(source.rng, TASKS[i % len(TASKS)], vary_mask=False)
            out.append(as_unseen(source.pairs(layout, [source.quadruple(i // 3 % 102)]), i))
        return out


def as_unseen(pairs: Pairs, seed: int) -> Unseen:
    """The first pair of a batch."""
    layout = pairs.layout
    mask = TokenMask.from_bits(GRID, layout.mask)
    conditioning = {"placement": list(layout.placement)}
    template = Template(pairs.template[0], mask, layout.task, conditioning, noise_seed=seed)
    return Unseen(template, pairs.reference[0], pairs.truth[0])


def edit(adapter: MiniAdapter, template: Template, reference: np.ndarray, seed: int) -> np.ndarray:
    """Full compute of one edit."""
    run = adapter.prepare(template, Request(reference, seed=seed))
    for _ in full_compute(run, adapter.schedule, adapter.geometry):
        pass
    return run.image()


def sheet(rows: list[tuple[np.ndarray, ...]], path: Path, columns: int = 3) -> None:
    """Contact sheet: template, mask, reference, edit, truth of every row."""
    strips = []
    for row in rows:
        cells = [np.asarray(Image.fromarray(c).resize((128, 128), 0)) for c in row]
        strips.append(
            np.pad(np.concatenate(cells, 1), ((2, 2), (4, 4), (0, 0)), constant_values=255)
        )
    per = -(-len(strips) // columns)
    cells = [np.concatenate(strips[i : i + per]) for i in range(0, len(strips), per)]
    Image.fromarray(np.concatenate(cells, 1)).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--pool", type=Path, default=None)
    parser.add_argument("--sheet", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load(args.weights)
    pairs = unseen_pairs(args.count, args.pool)
    scores: dict[str, dict[str, list[float]]] = {t: {} for t in TASKS}
    rows = []
    for i, pair in enumerate(pairs):
        mask, template = pair.template.mask, pair.template
        stranger = pairs[(i + 3 * 7) % len(pairs)].reference
        image = edit(adapter, template, pair.reference, seed=i)
        wrong = edit(adapter, template, stranger, seed=i)
        for name, picture in (("full", image), ("paste", template.image), ("wrong", wrong)):
            value = psnr_db(picture, pair.truth, mask)
            scores[template.task].setdefault(name, []).append(value)
        if i < 24:
            shown = np.kron(mask.bits, np.ones((8, 8), np.uint8) * 255)[..., None].repeat(3, -1)
            rows.append((template.image, shown, pair.reference, image, pair.truth))
    means = {t: {k: round(float(np.mean(v)), 2) for k, v in s.items()} for t, s in scores.items()}
    means["mean"] = {
        k: round(float(np.mean([means[t][k] for t in TASKS])), 2) for k in means[TASKS[0]]
    }
    result = {
        "count": len(pairs),
        "psnr_inside_db": means,
        "weights_digest": adapter.identity().weights_digest,
        "machine": f"{platform.machine()} {platform.system()}",
        "torch": torch.__version__,
    }
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    if args.sheet:
        sheet(rows, args.sheet)


if __name__ == "__main__":
    main()
