"""`sakura demo`: pack, serve, stream and compare, all on this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import click

from sakura.bench.devices import DEFAULT_LIKE
from sakura.bench.options import DEFAULT_TRACE, DemoOptions
from sakura.cli.live import Live
from sakura.cli.options import gathered, require
from sakura.cli.text import note, print_json, table

NEEDS = ("http", "torch", "serve", "viz")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the command line may say of a demo; see `DemoOptions`."""

    out: Path
    trace: str
    rtt_ms: float
    like: str
    repetitions: int
    floor_db: float


@click.command(short_help="Pack, serve, stream and compare, all on this machine.")
@click.option(
    *("--out", "out"),
    default="out/demo",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for pictures, page and report.",
)
@click.option(
    "--trace", default=DEFAULT_TRACE, show_default=True, help="A shipped trace, or a CSV file."
)
@click.option("--rtt-ms", default=40.0, show_default=True, help="Round trip of that network.")
@click.option(
    "--like", default=DEFAULT_LIKE, show_default=True, help="MODEL@DEVICE to scale the link like."
)
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1, 99))
@click.option("--floor-db", default=40.0, show_default=True, help="Fidelity to keep, PSNR in dB.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, no progress.")
@gathered(Chosen)
def command(chosen: Chosen, as_json: bool) -> None:
    """Make three edits, each on the device, from uncompressed state and with SAKURA.

    Packs the templates, serves them on a loopback port, replays a recorded mobile network (scaled
    to a phone's ratio of compute and bytes) and writes pictures, timelines, index.html and
    report.json. Takes a few minutes.
    """
    require("the demo", *NEEDS)
    from sakura.bench.demo import run_demo
    from sakura.bench.report import HEADERS, headline, setting, table_rows

    with Live(quiet=as_json) as live:
        report = run_demo(DemoOptions(**asdict(chosen)), live)
    if as_json:
        print_json(report.to_json())
        return
    click.echo(table(HEADERS, table_rows(report), num_left=2))
    click.echo()
    click.echo(headline(report))
    click.echo(setting(report))
    note(f"see {chosen.out / 'index.html'}")
