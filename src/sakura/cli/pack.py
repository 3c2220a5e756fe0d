"""`sakura pack`: run a template through a model and write its bundle."""

from __future__ import annotations

from pathlib import Path

import click

from sakura.cli.live import Live
from sakura.cli.text import note, print_json
from sakura.errors import InputError
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


@click.command(short_help="Run a template through a model and write its bundle.")
@click.argument("template", type=click.Path(path_type=Path))
@click.option("--mask", required=True, type=click.Path(path_type=Path), help="White may be edited.")
@click.option("--task", required=True, help="face-swap, try-on or into-scene.")
@click.option("--model", default="mini", show_default=True, help="Model to pack for.")
@click.option("-o", "--output", required=True, help="Bundle to write (NAME.skv, path or URL).")
@click.option(
    "--placement", help="TOP,LEFT,HEIGHT,WIDTH in tokens; found from the mask by default."
)
@click.option("--codec", default="sakura-klt-rans/1", show_default=True, help="Codec of the state.")
@click.option("--seed", default=0, show_default=True, help="Seed of the template's noise.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, no progress.")
def command(
    template: Path,
    mask: Path,
    task: str,
    model: str,
    output: str,
    placement: str | None,
    codec: str,
    seed: int,
    as_json: bool,
) -> None:
    """Run TEMPLATE (a picture) through a model and write its state as a bundle.

    The same inputs give the same bytes. A killed run leaves no bundle; start it again.
    """
    from sakura.models import load_model
    from sakura.pack import PackOptions, load_template, pack

    where = parse_placement(placement)
    with Live(quiet=as_json) as live:
        live.stage("load the model", 0.0)
        adapter = load_model(model)
        loaded = load_template(
            template, mask, task, adapter=adapter, placement=where, noise_seed=seed
        )
        options = PackOptions(codec=codec, seed=seed)
        report = pack(adapter, loaded, output, options, progress=live.stage)
    if as_json:
        print_json(report.to_json())
        return
    click.echo(output)
    note(f"{format_bytes(report.num_bytes)} for {format_bytes(report.raw_state_bytes)} of state")
