"""`sakura simulate`: what an edit would take on a recorded network, without model or network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from sakura.bench.devices import DEFAULT_LIKE
from sakura.bench.options import DEFAULT_TRACE
from sakura.bench.sim_scene import NAMES, ORACLE, Conditions, load_bundle, make_scene, run_policy
from sakura.cli.explain import decisions, explain
from sakura.cli.options import gathered
from sakura.cli.text import print_json, table
from sakura.store.trace import load_trace
from sakura.units import format_bytes, format_duration

if TYPE_CHECKING:
    from sakura.bench.simulate import Scene, SimResult

HEADERS = ("policy", "latency", "of device", "stalls", "fetched", "computed", "predicted")


@dataclass(frozen=True, slots=True)
class Network:
    """The link as asked for, and the device it is scaled to."""

    trace: str
    rtt_ms: float
    start_s: float
    like: str
    step_ms: float

    def conditions(self) -> Conditions:
        return Conditions(
            load_trace(self.trace), self.rtt_ms / 1e3, self.like, self.step_ms / 1e3, self.start_s
        )


@dataclass(frozen=True, slots=True)
class Aim:
    """What is wanted of the edit."""

    policy: str
    floor_db: float
    deadline_s: float | None


@click.command(short_help="Say what an edit would take on a recorded network.")
@click.argument("bundle")
@click.option(
    "--trace", default=DEFAULT_TRACE, show_default=True, help="A shipped trace, or a CSV file."
)
@click.option("--rtt-ms", default=40.0, show_default=True, help="Round trip of that network.")
@click.option("--start-s", default=0.0, show_default=True, help="Where in the trace to begin.")
@click.option(
    "--like", default=DEFAULT_LIKE, show_default=True, help="MODEL@DEVICE to scale the link like."
)
@click.option(
    "--step-ms",
    default=40.0,
    show_default=True,
    help="A step with all tokens, on the machine that stands for DEVICE.",
)
@click.option(
    "--policy", type=click.Choice(NAMES), default="sakura", show_default=True, help="Who decides."
)
@click.option("--floor-db", default=40.0, show_default=True, help="Fidelity to keep, PSNR in dB.")
@click.option("--deadline-s", type=float, help="For --policy deadline: done by then.")
@click.option("--explain", "with_reasons", is_flag=True, help="Print every decision.")
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
@gathered(Network, Aim)
def command(network: Network, aim: Aim, bundle: str, with_reasons: bool, as_json: bool) -> None:
    """Simulate an edit from BUNDLE (a path or URL) on a recorded network.

    The policy decides as in `sakura edit`; the oracle, which knows the trace, and the device alone
    are simulated beside it. Needs neither torch nor a network, and only the bundle's head is read.
    """
    scene = make_scene(
        load_bundle(bundle), network.conditions(), aim.floor_db, deadline_s=aim.deadline_s
    )
    names = dict.fromkeys((aim.policy, "device", ORACLE))
    results = {name: run_policy(scene, name) for name in names}
    chosen = results[aim.policy]
    if as_json:
        document: dict[str, object] = {n: asdict(r.report) for n, r in results.items()}
        if with_reasons:
            document["decisions"] = decisions(chosen.events)
        print_json(document)
        return
    click.echo(table(HEADERS, (_row(name, scene, result) for name, result in results.items())))
    if with_reasons:
        click.echo()
        click.echo(explain(chosen.events))


def _row(name: str, scene: Scene, result: SimResult) -> tuple[str, ...]:
    report = result.report
    num_blocks = report.recomputed_blocks + report.injected_blocks
    return (
        name,
        format_duration(report.latency_s),
        f"{report.latency_s / scene.device_s:.3f}",
        format_duration(report.stall_s),
        format_bytes(report.num_bytes),
        f"{report.recomputed_blocks}/{num_blocks}",
        "exact" if report.predicted_db is None else f"{report.predicted_db:.1f} dB",
    )
