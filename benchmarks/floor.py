"""Whether an edit keeps the player's floor, on unseen templates and users, however little arrives.

Packs each template as a user would and edits it through the player from a local folder, with the
bytes of shards limited to shares of the bundle. PSNR is of the pixels inside the mask against the
same edit on uncompressed state. Needs the `train` extra.

    python benchmarks/floor.py --count 9 --out docs/results/floor.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bench_model import Unseen, unseen_pairs

import sakura
from sakura.bench.machine import machine, versions
from sakura.fidelity import psnr_db
from sakura.models.base import Adapter
from sakura.models.mini import MiniAdapter
from sakura.pack import PackOptions, pack
from sakura.play import EditResult

SHARES = (0.0, 0.05, 0.2, 0.5, 1.0)
FLOORS_DB = (40.0, 45.0)


def played(adapter: Adapter, pair: Unseen, path: Path, **options: Any) -> EditResult:
    """An edit of a packed bundle by the pair's user; no state came with the bundle's head."""
    bundle = sakura.open(str(path))
    bundle.template()
    bundle.prefix = bundle.prefix[: bundle.head.data_start]
    with sakura.Player(adapter, bundle, **options) as player:
        return player.edit(pair.reference, seed=7)


def measure(adapter: Adapter, pair: Unseen, folder: Path) -> Iterator[dict[str, Any]]:
    """One row for every floor and share of the bundle."""
    bundle, raw = folder / "a.skv", folder / "raw.skv"
    pack(adapter, pair.template, bundle, PackOptions())
    pack(adapter, pair.template, raw, PackOptions(codec="raw-bf16/1"))
    expected = played(adapter, pair, raw, policy="wait")
    assert expected.report.finished_by == "stream", "the reference was not streamed throughout"
    for floor_db in FLOORS_DB:
        for share in SHARES:
            limit = int(share * bundle.stat().st_size)
            result = played(adapter, pair, bundle, floor_db=floor_db, max_total_bytes=limit)
            yield {
                "task": pair.template.task,
                "floor_db": floor_db,
                "share": share,
                "psnr_db": round(psnr_db(result.image, expected.image, pair.template.mask), 2),
                "predicted_db": result.report.predicted_db,
                "injected_blocks": result.report.injected_blocks,
                "num_bytes": result.report.num_bytes,
            }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Mean and worst of every floor and share."""
    print("floor dB  share  mean dB  worst  below floor  injected blocks")
    for floor_db in FLOORS_DB:
        for share in SHARES:
            cell = [r for r in rows if (r["floor_db"], r["share"]) == (floor_db, share)]
            values = [row["psnr_db"] for row in cell]
            num_below = sum(value < floor_db for value in values)
            injected = mean(row["injected_blocks"] for row in cell)
            print(
                f"{floor_db:8.0f} {share:6.2f} {mean(values):8.2f} {min(values):6.2f} "
                f"{num_below:8d}/{len(cell)} {injected:12.1f}"
            )


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=9, help="unseen templates")
    parser.add_argument("--pool", type=Path, help="folder of the rendered test split")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    adapter = MiniAdapter.load()
    rows: list[dict[str, Any]] = []
    for pair in unseen_pairs(args.count, args.pool):
        with TemporaryDirectory() as folder:
            rows += measure(adapter, pair, Path(folder))
    print_table(rows)
    if args.out:
        result = {"rows": rows, "machine": machine(), "versions": versions()}
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
