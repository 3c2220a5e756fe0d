"""The default policy against the oracle, the device and other policies, in the simulator.

Over recorded traces (a folder of CSV files, and the shipped ones), starts within each, the demo's
bundles, and regimes:

    recorded    the link as recorded, scaled like a phone-class model's, floor 40 dB, and the first
                32 KiB of a bundle come with its head, as in the demo
    phone       the phone-class model itself: its step and its amount of state, compressed as the
                mini model's; nothing comes with the head; the network as recorded
    load L      the same with a floor of 48 dB; the rate is scaled such that at the trace's mean the
                bytes of the floor level take L times what the edit takes on the device
    small 1     load 1 for the mini model's few kilobytes

    python benchmarks/policies.py --bundles FOLDER --traces FOLDER --out docs/results/policies.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sakura.bench.machine import machine
from sakura.bench.oracle import ideal_s, play_oracle
from sakura.bench.sim_scene import Conditions, load_bundle, make_scene, phone_scene
from sakura.bench.simulate import Scene, SimBundle, simulate
from sakura.bench.waste import wasted_bytes
from sakura.play.levels import floor_level
from sakura.play.policy import create_policy
from sakura.store.trace import Trace, load_trace, trace_names

LOADS = (0.1, 0.3, 1.0, 3.0)
LOADED_FLOOR_DB = 48.0
OTHERS = ("wait", "fixed", "rate", "buffer")
BITS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """One scene of the benchmark."""

    regime: str
    bundle: str
    trace: str
    scene: Scene


def regimes(bundle: SimBundle, trace: Trace, part: float) -> Iterator[tuple[str, Scene]]:
    """Every regime; the edit begins `part` (0 to 1) into the trace."""
    at = Conditions(trace, start_s=part * trace.duration_s)
    yield "recorded", make_scene(bundle, at)
    yield "phone", phone_scene(bundle, at)
    phone = phone_scene(bundle, at, LOADED_FLOOR_DB)
    small = make_scene(replace(bundle, opened_bytes=0), at, LOADED_FLOOR_DB)
    for load in LOADS:
        yield f"load {load:g}", loaded(phone, load)
    yield "small 1", loaded(small, 1.0)


def loaded(scene: Scene, load: float) -> Scene:
    """The scene with another rate."""
    floor, trace = floor_level(scene.error_model()), scene.link.trace
    shards = scene.bundle.head.manifest.shards
    need = sum(layer.num_bytes for shard in shards for layer in shard.layers[: floor + 1])
    wanted_bps = BITS * need / (load * scene.device_s)
    scaled = trace.scaled(rate=wanted_bps / trace.mean_bps)
    return replace(scene, link=replace(scene.link, trace=scaled))


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """All scenes."""
    folder = sorted(args.traces.glob("*.csv")) if args.traces else []
    traces = [*(load_trace(path) for path in folder), *map(load_trace, trace_names())]
    bundles = {path.stem: load_bundle(str(path)) for path in sorted(args.bundles.glob("*.skv"))}
    for name, bundle in bundles.items():
        for trace in traces:
            for start in range(args.starts):
                for regime, scene in regimes(bundle, trace, start / args.starts):
                    yield Case(regime, name, trace.name, scene)


def measure(case: Case, with_others: bool) -> dict[str, Any]:
    """One row of figures; latencies are shares of the device's."""
    scene = case.scene
    start_s = time.thread_time()
    ours = simulate(scene, create_policy("sakura"))
    took_s = time.thread_time() - start_s
    report, bundle = ours.report, scene.bundle
    oracle_s = play_oracle(scene).report.latency_s
    row = {
        "regime": case.regime,
        "bundle": case.bundle,
        "trace": case.trace,
        "start_s": scene.start_s,
        "sakura": report.latency_s / scene.device_s,
        "oracle": oracle_s / scene.device_s,
        "ideal": ideal_s(scene, oracle_s) / scene.device_s,
        "stall": report.stall_s / scene.device_s,
        "num_bytes": report.num_bytes,
        "wasted_bytes": wasted_bytes(ours.events, bundle.head, bundle.opened_bytes),
        "predicted_db": report.predicted_db,
        "run_s": took_s,
    }
    if with_others:
        for name in OTHERS:
            other = simulate(scene, create_policy(name)).report
            row[name] = other.latency_s / scene.device_s
            row[f"{name}_db"] = other.predicted_db
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of one regime."""
    over_oracle = np.array([row["sakura"] / row["oracle"] for row in rows])
    over_ideal = np.array([row["sakura"] / row["ideal"] for row in rows])
    fetched = sum(row["num_bytes"] for row in rows)
    latency = sum(row["sakura"] for row in rows)
    result: dict[str, Any] = {
        "num_runs": len(rows),
        "vs_oracle_median": float(np.median(over_oracle)),
        "vs_oracle_p95": float(np.quantile(over_oracle, 0.95)),
        "vs_oracle_max": float(over_oracle.max()),
        "vs_ideal_median": float(np.median(over_ideal)),
        "vs_ideal_p95": float(np.quantile(over_ideal, 0.95)),
        "vs_device_median": median(row["sakura"] for row in rows),
        "worst_vs_device": max(row["sakura"] for row in rows),
        "oracle_vs_device_median": median(row["oracle"] for row in rows),
        "least_over_oracle": float(over_oracle.min()),
        "stall_share": sum(row["stall"] for row in rows) / latency,
        "wasted_share": sum(row["wasted_bytes"] for row in rows) / max(1, fetched),
        "simulator_run_ms_median": 1e3 * median(row["run_s"] for row in rows),
    }
    for name in OTHERS:
        found = [row for row in rows if name in row]
        if found:
            result[f"{name}_vs_device_median"] = median(row[name] for row in found)
            least = [row[f"{name}_db"] for row in found if row[f"{name}_db"] is not None]
            result[f"{name}_least_db"] = min(least, default=None)
    return {
        key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundles", type=Path, required=True, help="folder of packed bundles")
    parser.add_argument("--traces", type=Path, help="folder of CSV files")
    parser.add_argument("--starts", type=int, default=3, help="edits per trace")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [measure(case, case.scene.start_s == 0) for case in cases(args)]
    names = list(dict.fromkeys(row["regime"] for row in rows))
    worst = sorted(rows, key=lambda row: row["oracle"] / row["sakura"])[:10]
    result = {
        "regimes": {name: summary([r for r in rows if r["regime"] == name]) for name in names},
        "worst": [{k: v for k, v in row.items() if k != "run_s"} for row in worst],
        "num_traces": len({row["trace"] for row in rows}),
        "starts": args.starts,
        "machine": machine(),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
