"""Writes the demo's templates from the generator of the mini model's training pairs (test split).

    python train/render_pool.py POOL --test --seeds 1000 1001 --count 102
    python scripts/make_templates.py POOL

For each task: template, mask, a private reference, the ground truth, and how they belong together.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src/sakura/assets/templates"
sys.path.insert(0, str(ROOT / "train"))

from pairs import PATCH_PX, Layout, PairSource, token_mask  # noqa: E402

MAX_BYTES = 300_000


@dataclass(frozen=True, slots=True)
class Choice:
    """One demo edit, chosen by eye: a quadruple of the pool, a scene and a place in it."""

    task: str
    quadruple: int
    scene_seed: int
    placement: tuple[int, int, int, int]
    caption: str


CHOICES = (
    Choice("face-swap", 25, 1002, (7, 5, 9, 9), "the reference's face on the template's body"),
    Choice("try-on", 93, 1011, (7, 3, 9, 9), "the reference's garment on the template's person"),
    Choice("into-scene", 29, 1009, (8, 6, 8, 8), "the reference's person in the template's scene"),
)


def write_choice(source: PairSource, choice: Choice, folder: Path) -> int:
    """Write one task's five files; returns their size in bytes."""
    source.rng = np.random.default_rng(choice.scene_seed)
    layout = Layout(choice.task, choice.placement, token_mask(choice.task, choice.placement))
    pairs = source.pairs(layout, [source.quadruple(choice.quadruple)])
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "template": pairs.template[0],
        "mask": np.kron(layout.mask, np.full((PATCH_PX, PATCH_PX), 255, np.uint8)),
        "reference": pairs.reference[0],
        "truth": pairs.truth[0],
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(folder / f"{name}.png", optimize=True)
    about = {
        "task": choice.task,
        "placement": list(choice.placement),
        "caption": choice.caption,
        "seed": 7,
    }
    (folder / "template.json").write_text(json.dumps(about, indent=2) + "\n")
    return sum(path.stat().st_size for path in folder.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path, help="folder with test-1000.npy")
    pool = parser.parse_args().pool
    source = PairSource(pool, np.random.default_rng(4242), test=True)
    num_bytes = sum(write_choice(source, choice, TARGET / choice.task) for choice in CHOICES)
    assert num_bytes <= MAX_BYTES, f"templates have {num_bytes} bytes, expected {MAX_BYTES}"
    print(f"{TARGET.relative_to(ROOT)}: {num_bytes} bytes")


if __name__ == "__main__":
    main()
