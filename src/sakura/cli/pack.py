"""`sakura pack`: run a template through a model and write its bundle."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from sakura.cli.live import Live
from sakura.cli.options import InputPath, Output, gathered
from sakura.cli.text import note, print_json
from sakura.codec import SakuraCodec
from sakura.codec.registry import CODECS
from sakura.errors import InputError
from sakura.models.registry import ADAPTERS, TASKS
from sakura.units import format_bytes

Placement = tuple[int, int, int, int]


def parse_placement(text: str | None) -> Placement | None:
    """`t,l,h,w` in tokens. Raises InputError for anything else."""
    if text is None:
        return None
    try:
        top, left, height, width = (int(part) for part in text.split(","))
    except ValueError as error:
        hint = "write it as TOP,LEFT,HEIGHT,WIDTH in tokens, for instance 7,5,9,9"
        raise InputError(f"{text!r} is not a placement", hint=hint) from error
    return top, left, height, width


@dataclass(frozen=True, slots=True)
class Source:
    """The template as given."""

    template: Path
    mask: Path
    task: str
    placement: str | None
    seed: int


@click.command(short_help="Run a template through a model and write its bundle.")
@click.argument("template", type=InputPath)
@click.option("--mask", required=True, type=InputPath, help="White may be edited.")
@click.option(
    "--task",
    required=True,
    type=click.Choice(sorted({*chain(*TASKS.values())})),
    help="What edits of it do.",
)
@click.option(
    "--model",
    type=click.Choice(sorted(ADAPTERS)),
    default="mini",
    show_default=True,
    help="Model to pack for.",
)
@click.option(
    *("-o", "--output"),
    required=True,
    type=Output(may_be_url=True),
    help="Bundle to write (NAME.skv, path or URL).",
)
@click.option(
    "--placement", help="TOP,LEFT,HEIGHT,WIDTH in tokens; found from the mask by default."
)
@click.option(
    "--codec",
    type=click.Choice(sorted(CODECS)),
    default=SakuraCodec.id,
    show_default=True,
    help="Codec of the state.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the template's noise.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, no progress.")
@gathered(Source)
def command(source: Source, model: str, output: str, codec: str, as_json: bool) -> None:
    """Run TEMPLATE (a picture) through a model and write its state as a bundle.

    The same inputs give the same bytes. A killed run leaves no bundle; start it again.
    """
    from sakura.models import load_model
    from sakura.pack import PackOptions, load_template, pack

    where = parse_placement(source.placement)
    options = PackOptions(codec=codec, seed=source.seed)
    with Live(quiet=as_json) as live:
        live.stage("load the model", 0.0)
        adapter = load_model(model)
        loaded = load_template(
            *(source.template, source.mask, source.task),
            adapter=adapter,
            placement=where,
            noise_seed=source.seed,
        )
        report = pack(adapter, loaded, output, options, progress=live.stage)
    for missed in report.missed:
        note(f"warning: {missed} on the calibration edits; players will compute more themselves")
    if as_json:
        print_json(report.to_json())
        return
    click.echo(output)
    note(f"{format_bytes(report.num_bytes)} for {format_bytes(report.raw_state_bytes)} of state")
