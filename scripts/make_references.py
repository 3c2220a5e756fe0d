"""Draw the neutral references that ship in src/sakura/assets/references.png.

    python train/render_pool.py POOL
    python scripts/make_references.py POOL

A strip of 64 px squares: the mean of many portraits, then single ones, all of the training split.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from sakura.images import save_png
from sakura.pack.neutral import ASSET

ROOT = Path(__file__).parent.parent
SEED, NUM_IN_FILE, NUM_MEAN, NUM_SINGLE = 20, 498, 256, 6


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pool", type=Path, help="folder of quads-*.npy")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "sakura" / "assets" / ASSET)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "train"))
    from pairs import PairSource

    source = PairSource(args.pool, np.random.default_rng(SEED), test=False)
    # By index, because random draws exchange colour channels, which users' pictures do not.
    chosen = source.rng.permutation(NUM_IN_FILE)[: NUM_MEAN + NUM_SINGLE]
    portraits = np.stack([source.reference(source.quadruple(int(i))[3]) for i in chosen])
    mean = portraits[:NUM_MEAN].mean(0).round().astype(np.uint8)
    save_png(args.out, np.concatenate([mean, *portraits[NUM_MEAN:]], axis=1))


if __name__ == "__main__":
    main()
