"""Latency of the player on steady links, in a long outage and on the shipped traces.

Packs the demo's templates, serves them from the origin through a shaped link scaled like a phone's
(see `sakura.bench.devices`), and compares in the same run, repetitions interleaved:

    steady   each rate: naive streaming of uncompressed state against
             max(network time, compute time) + startup, and SAKURA against the same
    outage   SAKURA on a link that delivers the bundle's head and then nothing, against on-device
    traces   SAKURA against on-device on each shipped trace

    python benchmarks/bench_latency.py --repetitions 7 --out docs/results/latency.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from sakura.bench.devices import DEFAULT_LIKE, LinkScale, StepCost, phone_step, scale_link
from sakura.bench.machine import machine, versions
from sakura.bench.methods import measure_step_s
from sakura.bench.packed import DemoModel, Packed, pack_task
from sakura.bench.tasks import TASKS, load_task
from sakura.models import load_model
from sakura.models.base import Adapter
from sakura.origin.serve import OriginProcess
from sakura.play import Player, edit_on_device
from sakura.play import open as open_bundle
from sakura.play.edit import EditResult
from sakura.store.open import open_reader
from sakura.store.shaped import ShapedLink
from sakura.store.trace import Trace, load_trace, trace_names

RTT_S = 0.04
NEVER_S = 3600.0


def ignore(_text: str, _fraction: float) -> None:
    """No progress display."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements share."""

    adapter: Adapter
    packed: list[Packed]
    origin_url: str
    scale: LinkScale
    repetitions: int

    def link(self, trace: Trace) -> ShapedLink:
        """A scaled link to the origin."""
        return ShapedLink(
            self.origin_url, self.scale.trace(trace), rtt_s=self.scale.rtt_s(RTT_S), loop=True
        )

    def on_device(self, packed: Packed) -> EditResult:
        """The edit without a network."""
        return edit_on_device(self.adapter, packed.template, packed.request)

    def streamed(self, packed: Packed, url: str, policy: str) -> EditResult:
        """The edit through a bundle that is opened beforehand, as an app does for a preview."""
        method = "uncompressed" if policy == "wait" else "sakura"
        bundle = open_bundle(packed.job(url, 40.0).urls[method])
        with Player(self.adapter, bundle, policy=policy) as player:
            return player.edit(packed.request.reference, seed=packed.request.seed)


def executed_s(result: EditResult) -> float:
    """Seconds in which blocks were executed."""
    return sum(e.t_s - e.data["start_s"] for e in result.events.of("block"))


def overlap(result: EditResult, rate_bps: float) -> float:
    """Latency over max(network time, compute time) + startup; 1 is perfect overlap."""
    report = result.report
    network_s = report.num_bytes * 8 / rate_bps
    return report.latency_s / (max(network_s, executed_s(result)) + report.startup_s)


def steady(bench: Bench, mbps: float) -> list[dict[str, Any]]:
    """Overlap on a constant link, by policy."""
    rows = []
    rate_bps = bench.scale.trace(Trace.constant(mbps * 1e6)).mean_bps
    with bench.link(Trace.constant(mbps * 1e6)) as link:
        for packed in bench.packed:
            for policy in ("wait", "sakura"):
                runs = []
                for _ in range(bench.repetitions):
                    link.restart()
                    runs.append(bench.streamed(packed, link.url, policy))
                rows.append(
                    {
                        "task": packed.task.name,
                        "policy": policy,
                        "mbps": mbps,
                        "overlap": round(median(overlap(r, rate_bps) for r in runs), 3),
                        "latency_s": round(median(r.report.latency_s for r in runs), 4),
                        "network_s": round(runs[0].report.num_bytes * 8 / rate_bps, 4),
                    }
                )
    return rows


def against_device(bench: Bench, trace: Trace) -> list[dict[str, Any]]:
    """SAKURA over on-device latency on a link, pairs of runs back to back."""
    rows = []
    with bench.link(trace) as link:
        for packed in bench.packed:
            pairs = []
            for _ in range(bench.repetitions):
                device = bench.on_device(packed).report
                link.restart()
                ours = bench.streamed(packed, link.url, "sakura").report
                pairs.append((ours, device))
            ratios = sorted(o.latency_s / d.latency_s for o, d in pairs)
            rows.append(
                {
                    "trace": trace.name,
                    "task": packed.task.name,
                    "mask_ratio": round(packed.template.mask.ratio, 3),
                    "ratio_median": round(median(ratios), 3),
                    "ratio_min": round(ratios[0], 3),
                    "ratio_max": round(ratios[-1], 3),
                    "latency_s": round(median(o.latency_s for o, _ in pairs), 4),
                    "device_s": round(median(d.latency_s for _, d in pairs), 4),
                    "stall_s": round(median(o.stall_s for o, _ in pairs), 4),
                    "recomputed_blocks": int(median(o.recomputed_blocks for o, _ in pairs)),
                }
            )
    return rows


def outage(bench: Bench) -> list[dict[str, Any]]:
    """The head arrives, the link dies, the edit begins."""
    rows = []
    for packed in bench.packed:
        pairs = []
        for _ in range(bench.repetitions):
            device = bench.on_device(packed).report
            with bench.link(Trace.constant(30e6)) as link:
                bundle = open_bundle(packed.job(link.url, 40.0).urls["sakura"])
                bundle.template()
            dead = Trace((0.0, 1e-6), (1.0, 0.0), "dead", duration_s=NEVER_S)
            with bench.link(dead) as link:
                bundle.prefix = bundle.prefix[: bundle.head.data_start]
                bundle.reader = open_reader(packed.job(link.url, 40.0).urls["sakura"])
                with Player(bench.adapter, bundle) as player:
                    ours = player.edit(packed.request.reference, seed=packed.request.seed).report
            pairs.append((ours, device))
        rows.append(
            {
                "task": packed.task.name,
                "ratio_median": round(median(o.latency_s / d.latency_s for o, d in pairs), 3),
                "ratio_max": round(max(o.latency_s / d.latency_s for o, d in pairs), 3),
                "recomputed_blocks": pairs[0][0].recomputed_blocks,
                "num_bytes": pairs[0][0].num_bytes,
            }
        )
    return rows


def prepare(repetitions: int, run: Callable[[Bench], dict[str, Any]]) -> dict[str, Any]:
    """Pack, serve, measure a step, and run."""
    adapter = load_model("mini")
    with TemporaryDirectory() as folder:
        store = Path(folder)
        packed = [pack_task(DemoModel(adapter), load_task(t), store, ignore) for t in TASKS]
        step_s = measure_step_s(adapter, packed[0].job("", 40.0), num_edits=5)
        state_bytes = adapter.geometry.state_bytes(packed[0].template.mask.grid.num_tokens, 1)
        scale = scale_link(StepCost(step_s, state_bytes), phone_step(DEFAULT_LIKE), DEFAULT_LIKE)
        with OriginProcess(store) as origin:
            bench = Bench(adapter, packed, origin.url, scale, repetitions)
            return {**run(bench), "link_scale": scale.to_json()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 30, 100, 300])
    parser.add_argument("--only", nargs="+", default=["outage", "traces", "steady"])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    measures: dict[str, Callable[[Bench], list[dict[str, Any]]]] = {
        "outage": outage,
        "traces": lambda b: [r for t in trace_names() for r in against_device(b, load_trace(t))],
        "steady": lambda b: [row for mbps in args.rates for row in steady(b, mbps)],
    }

    def run(bench: Bench) -> dict[str, Any]:
        return {name: measures[name](bench) for name in args.only}

    result = prepare(args.repetitions, run)
    result |= {"machine": machine(), "versions": versions(), "repetitions": args.repetitions}
    text = json.dumps(result, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
