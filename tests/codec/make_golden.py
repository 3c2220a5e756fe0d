"""Writes golden/klt_rans_1_*.npz; a golden file that exists is never written again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.codec.cases import Case, small_case, wide_case

GOLDEN = Path(__file__).parent / "golden"
UNIT = 1024
"""Golden coefficients are kept as integers, in 1/1024."""


def write(name: str, case: Case) -> None:
    """Write one case: profile, shard, coefficients and layers."""
    parts = {
        "profile": np.frombuffer(case.profile.to_bytes(), np.uint8),
        "widths": np.array(case.spec.tiles.widths),
        "gains": np.array(case.spec.tiles.gains),
        "delta": np.array(case.spec.delta),
        "units": (case.coef * UNIT).astype(np.int32),
        "num_layers": np.array(len(case.shard.layers)),
    }
    for layer, data in enumerate(case.shard.layers):
        parts[f"layer{layer}"] = np.frombuffer(data, np.uint8)
    GOLDEN.mkdir(exist_ok=True)
    with (GOLDEN / f"klt_rans_1_{name}.npz").open("xb") as file:
        np.savez_compressed(file, **parts)


if __name__ == "__main__":
    write("small", small_case())
    write("wide", wide_case())
