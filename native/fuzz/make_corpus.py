"""Writes corpus/: a plan head of 16 bytes and random bytes, or a stream with plausible states."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Sixteen inputs of 200 to 3000 bytes, the same every time."""
    rng = np.random.default_rng(5)
    CORPUS.mkdir(exist_ok=True)
    lanes = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 63, 64, 64)
    for number, count in enumerate(lanes):
        head = rng.integers(0, 256, 16, np.uint8)
        head[8], head[15] = 63, count - 1
        states = rng.integers(256, 65536, count).astype("<u2").tobytes()
        body = rng.integers(0, 256, 200 * (1 + number % 4), np.uint8).tobytes()
        (CORPUS / f"{number:02d}").write_bytes(head.tobytes() + states + body)


if __name__ == "__main__":
    main()
