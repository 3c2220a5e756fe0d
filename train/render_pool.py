"""Render avatar quadruples once, so that training only composites.

A quadruple holds two identities a, b and two garments ga, gb of one style: (a, ga) is the
template's person, (b, ga) its face swap, (a, gb) its try-on, (b, gb) the reference and the person
of into-scene.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from avatars import STYLES, AvatarStyle

RENDER_PX = 128


def render_quadruples(count: int, seed: int, test: bool) -> np.ndarray:
    """Render `count` quadruples.

    Returns:
        (count, 4, 128, 128, 4) uint8, premultiplied RGBA, in the order (a, ga), (b, ga), (a, gb),
        (b, gb).
    """
    rng = np.random.default_rng([seed, int(test)])
    styles = [AvatarStyle(name) for name in STYLES]
    out = np.empty((count, 4, RENDER_PX, RENDER_PX, 4), np.uint8)
    for i in range(count):
        style = styles[i % len(styles)]
        a, b = (style.draw(rng, "identity", test) for _ in range(2))
        ga, gb = (style.draw(rng, "garment", test) for _ in range(2))
        for j, (identity, garment) in enumerate([(a, ga), (b, ga), (a, gb), (b, gb)]):
            out[i, j] = style.render(identity, garment, RENDER_PX)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for quads-SEED.npy files")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 12), help="first and end seed")
    parser.add_argument("--count", type=int, default=498, help="quadruples a file")
    parser.add_argument("--test", action="store_true", help="draw the test split")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for seed in range(*args.seeds):
        path = args.out / f"{'test' if args.test else 'quads'}-{seed:03d}.npy"
        if not path.exists():
            part = path.with_suffix(".part.npy")
            np.save(part, render_quadruples(args.count, seed, args.test))
            part.rename(path)
            print(path, flush=True)


if __name__ == "__main__":
    main()
