"""How far simulated latencies are from real ones through the shaped link.

Packs a demo template with uncompressed state, so that the network matters at the mini model's
speed, and plays it through steady links and one that pauses. Every real run is then simulated with
its own block and shard times, so that what is compared is the network and what was decided, not the
machine. What lies between blocks is spread over them.

    python benchmarks/simulator_error.py --repetitions 3 --out docs/results/simulator_error.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sakura.bench.machine import machine
from sakura.bench.packed import DemoModel, Packed, pack_task
from sakura.bench.sim_device import DeviceModel
from sakura.bench.simulate import Scene, SimBundle, simulate
from sakura.bench.tasks import load_task
from sakura.models import load_model
from sakura.models.base import Adapter
from sakura.origin.serve import OriginProcess
from sakura.play import Bundle, Player
from sakura.play import open as open_bundle
from sakura.play.edit import EditResult
from sakura.play.fingerprint import profile_of
from sakura.play.policy import create_policy
from sakura.store.link import LinkModel
from sakura.store.shaped import ShapedLink
from sakura.store.trace import Trace

MBPS = 1e6
RTT_S = 0.004
POLICIES = ("sakura", "wait")


@dataclass(frozen=True, slots=True)
class Played:
    """A real run, and the bundle it was made from."""

    bundle: Bundle
    result: EditResult


def links() -> Iterator[Trace]:
    """Steady ones, and one that stops for a while."""
    for mbps in (20, 40, 60):
        yield Trace.constant(mbps * MBPS, f"{mbps} Mbit/s")
    yield Trace((0.0, 0.2, 0.5), (60 * MBPS, 0.0, 60 * MBPS), "pause", 60.0)


def play(adapter: Adapter, packed: Packed, link: ShapedLink, policy: str) -> Played:
    """One edit; the link's trace begins with it."""
    bundle = open_bundle(packed.job(link.url, 40.0).urls["uncompressed"])
    with Player(adapter, bundle, policy=policy) as player:
        link.restart()
        result = player.edit(packed.request.reference, seed=packed.request.seed)
    return Played(bundle, result)


def device_of(result: EditResult) -> DeviceModel:
    """Times of this very run; a kind of block that never ran takes what the other kind took."""
    num_blocks = len(result.report.levels[0])
    found: dict[tuple[str, int], list[float]] = {}
    for event in result.events.of("block"):
        key = event.data["mode"], event.data["block"]
        found.setdefault(key, []).append(event.t_s - event.data["start_s"])

    def times(mode: str, other: str) -> tuple[float, ...]:
        rows = (found.get((mode, b)) or found[other, b] for b in range(num_blocks))
        return tuple(stretch * mean(row) for row in rows)

    executed_s = sum(seconds for row in found.values() for seconds in row)
    stretch = (result.report.latency_s - result.report.stall_s) / executed_s
    decodes = [e.t_s - e.data["start_s"] for e in result.events.of("decode")]
    computed, injected = times("compute", "inject"), times("inject", "compute")
    return DeviceModel(computed, injected, shard_s=mean(decodes) if decodes else 0.0)


def predict(played: Played, model: LinkModel, policy: str) -> float:
    """Latency of the same edit in the simulator, in seconds."""
    head = played.bundle.head
    basis = profile_of(head.manifest, head.manifest.model.family).step_basis
    bundle = SimBundle(head, basis, len(played.bundle.prefix))
    scene = Scene(bundle, model, device_of(played.result))
    return simulate(scene, create_policy(policy)).report.latency_s


def compare(adapter: Adapter, packed: Packed, origin_url: str, repetitions: int) -> Iterator[Any]:
    """Rows of figures."""
    for trace in links():
        with ShapedLink(origin_url, trace, rtt_s=RTT_S) as link:
            for policy in POLICIES:
                for _ in range(repetitions):
                    played = play(adapter, packed, link, policy)
                    report = played.result.report
                    predicted_s = predict(played, link.model, policy)
                    yield {
                        "link": trace.name,
                        "policy": policy,
                        "measured_s": round(report.latency_s, 4),
                        "predicted_s": round(predicted_s, 4),
                        "error": round(abs(predicted_s / report.latency_s - 1), 4),
                        "stall_s": round(report.stall_s, 4),
                        "recomputed_blocks": report.recomputed_blocks,
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--task", default="face-swap")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    adapter = load_model("mini")
    with TemporaryDirectory() as folder:
        task = load_task(args.task)
        packed = pack_task(DemoModel(adapter), task, Path(folder), lambda *_: None)
        with OriginProcess(Path(folder)) as origin:
            rows = list(compare(adapter, packed, origin.url, args.repetitions))
    result = {
        policy: {
            "simulator_error_median": round(median(own), 4),
            "simulator_error_p95": round(float(np.quantile(own, 0.95)), 4),
        }
        for policy in POLICIES
        for own in [[row["error"] for row in rows if row["policy"] == policy]]
    }
    text = json.dumps({**result, "rows": rows, "machine": machine()}, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
