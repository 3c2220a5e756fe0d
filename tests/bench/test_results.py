"""The tables in the documents are those of the figures beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.codec_tables import ratio_text, size_text, tables

RESULTS = Path(__file__).parents[2] / "docs/results"


def test_every_table_stands_in_the_document() -> None:
    result = json.loads((RESULTS / "codec_baselines.json").read_text())
    document = (RESULTS / "codec_rate.md").read_text()
    assert [title for title, table in tables(result).items() if table not in document] == []


def test_cells() -> None:
    assert size_text(1500.0, 12_000) == "1.5 (1.0000)"
    assert size_text(None, 1) == "-"
    assert ratio_text(0.12345) == "0.123"
    assert ratio_text(None) == "-"


def test_ratios_follow_from_the_points() -> None:
    """Bytes of both codecs at 45 dB once more from the raw points of one task, by numpy."""
    np = pytest.importorskip("numpy")
    result = json.loads((RESULTS / "codec_baselines.json").read_text())

    def log_bytes(codec: str, task: str, db: float) -> float | None:
        groups: dict[str, list[tuple[float, float]]] = {}
        for row in result["rate_fidelity"]:
            if (row["codec"], row["task"]) == (codec, task):
                pair = np.log(row["num_bytes"]), row["psnr_db"]
                groups.setdefault(row["point"], []).append(pair)
        means = sorted(tuple(np.mean(pairs, 0)) for pairs in groups.values())
        best = [p for i, p in enumerate(means) if all(p[1] > q[1] for q in means[:i])]
        logs, qualities = np.array(best).T
        if not qualities[0] <= db <= qualities[-1]:
            return None
        return float(np.interp(db, qualities, logs))

    for task, found in result["tasks"].items():
        for codec in ("cachegen-tuned", "cachegen-shipped", "kvtc-like"):
            for db, ratio in found[codec].items():
                ours, theirs = (log_bytes(name, task, float(db)) for name in ("sakura", codec))
                if ours is None or theirs is None:
                    assert ratio is None
                else:
                    assert ratio == pytest.approx(float(np.exp(ours - theirs)), rel=2e-3)
