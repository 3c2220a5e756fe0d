"""`sakura demo`: pack, serve, stream and compare, all on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from sakura.bench.devices import DEFAULT_LIKE
from sakura.bench.machine import EXTRAS, missing_modules
from sakura.bench.options import DEFAULT_TRACE, DemoOptions
from sakura.cli.live import Live
from sakura.cli.text import note, print_json, table
from sakura.errors import InputError

NEEDS = ("http", "torch", "serve", "viz")


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
def command(
    out: Path,
    trace: str,
    rtt_ms: float,
    like: str,
    repetitions: int,
    floor_db: float,
    as_json: bool,
) -> None:
    """Make three edits, each on the device, from uncompressed state and with SAKURA.

    Packs the templates, serves them on a loopback port, replays a recorded mobile network (scaled
    to a phone's ratio of compute and bytes) and writes pictures, timelines, index.html and
    report.json. Takes a few minutes.
    """
    require_extras()
    from sakura.bench.demo import run_demo
    from sakura.bench.report import HEADERS, headline, setting, table_rows

    options = DemoOptions(out, trace, rtt_ms, like, repetitions, floor_db)
    with Live(quiet=as_json) as live:
        report = run_demo(options, live)
    if as_json:
        print_json(report.to_json())
        return
    click.echo(table(HEADERS, table_rows(report), num_left=2))
    click.echo()
    click.echo(headline(report))
    click.echo(setting(report))
    note(f"see {out / 'index.html'}")


def require_extras() -> None:
    """Say at once what is not installed. Raises InputError."""
    lacking = [extra for extra in NEEDS if missing_modules(extra)]
    if lacking:
        assert set(NEEDS) <= set(EXTRAS)
        modules = ", ".join(module for extra in lacking for module in missing_modules(extra))
        hint = f'pip install "sakura-kv[{",".join(lacking)}]"'
        raise InputError(f"the demo needs what is not installed: {modules}", hint=hint)
