"""`sakura edit`: one private edit from a bundle; on the device alone where the origin is down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sakura.cli.live import Live
from sakura.cli.text import note, print_json
from sakura.errors import InputError, StoreError
from sakura.units import format_bytes, format_duration

if TYPE_CHECKING:
    from sakura.models.base import Adapter
    from sakura.play import EditResult

FilePath = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The edit as asked for."""

    bundle: str
    reference: Path
    prompt: str | None
    seed: int
    mask: Path | None
    policy: str
    floor_db: float


@dataclass(frozen=True, slots=True)
class Fallback:
    """The template in the user's hands, for when the bundle cannot be had."""

    template: Path | None
    mask: Path | None
    task: str | None

    @property
    def is_complete(self) -> bool:
        return None not in (self.template, self.mask, self.task)


@click.command(short_help="Edit a private picture from a bundle.")
@click.argument("bundle")
@click.option("--reference", required=True, type=FilePath, help="The private picture.")
@click.option("--prompt", help="What to do; the template's task by default.")
@click.option("--seed", default=0, show_default=True, help="Seed of the edited region's noise.")
@click.option("--mask", type=FilePath, help="White is edited; at least the template's mask.")
@click.option("--template", type=FilePath, help="The template picture, should the origin be down.")
@click.option("--template-mask", type=FilePath, help="Its mask, for the same case.")
@click.option("--task", help="Its task, for the same case.")
@click.option("-o", "--output", required=True, type=FilePath, help="PNG file to write.")
@click.option("--events", type=FilePath, help="Write the event log (JSON lines).")
@click.option("--timeline", type=FilePath, help="Draw the run (PNG).")
@click.option(
    "--policy",
    type=click.Choice(["sakura", "device", "wait"]),
    default="sakura",
    show_default=True,
    help="sakura decides as it goes; device fetches nothing; wait never computes.",
)
@click.option("--floor-db", default=40.0, show_default=True, help="Fidelity to keep, PSNR in dB.")
@click.option("--model", default="mini", show_default=True, help="Model that makes the edit.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, no progress.")
def command(
    bundle: str,
    reference: Path,
    prompt: str | None,
    seed: int,
    mask: Path | None,
    template: Path | None,
    template_mask: Path | None,
    task: str | None,
    output: Path,
    events: Path | None,
    timeline: Path | None,
    policy: str,
    floor_db: float,
    model: str,
    as_json: bool,
) -> None:
    """Edit a picture from BUNDLE (a path or URL) while its state is still arriving.

    The reference and the prompt never leave this machine. With --template, --template-mask and
    --task the edit is made on the device alone if the bundle cannot be had.
    """
    from sakura.images import save_png
    from sakura.models import load_model

    wanted = Wanted(bundle, reference, prompt, seed, mask, policy, floor_db)
    fallback = Fallback(template, template_mask, task)
    with Live(quiet=as_json) as live:
        live.stage("load the model", 0.0)
        adapter = load_model(model)
        live.stage("edit", 0.5)
        result = edit(adapter, wanted, fallback, live)
    save_png(output, result.image)
    _write_logs(result, events, timeline)
    if as_json:
        print_json({"output": str(output), **asdict(result.report)})
        return
    click.echo(str(output))
    note(_summary(result.report))


def edit(adapter: Adapter, wanted: Wanted, fallback: Fallback, live: Live) -> EditResult:
    """Make the edit from the bundle, or from the fallback where there is no bundle."""
    from sakura.play import Player, open

    try:
        bundle = open(wanted.bundle)
    except StoreError as error:
        if not fallback.is_complete:
            hint = "give --template, --template-mask and --task to edit without the bundle"
            hints = filter(None, (error.hint, hint))
            raise StoreError(str(error), hint="; or ".join(hints)) from error
        note(f"warning: {error}; editing on the device alone")
        return edit_without_bundle(adapter, wanted, fallback, live)
    from sakura.images import load_mask, load_rgb

    mask = None if wanted.mask is None else load_mask(wanted.mask, bundle.manifest.token_grid)
    with Player(
        adapter, bundle, policy=wanted.policy, floor_db=wanted.floor_db, listener=live.event
    ) as player:
        return player.edit(
            load_rgb(wanted.reference), prompt=wanted.prompt, seed=wanted.seed, mask=mask
        )


def edit_without_bundle(
    adapter: Adapter, wanted: Wanted, fallback: Fallback, live: Live
) -> EditResult:
    """Plain on-device generation from the template picture in the user's hands."""
    from sakura.images import load_mask, load_rgb
    from sakura.models.base import Request
    from sakura.pack import load_template
    from sakura.play import edit_on_device

    if fallback.template is None or fallback.mask is None or fallback.task is None:
        raise InputError("no template to edit")
    template = load_template(fallback.template, fallback.mask, fallback.task, adapter=adapter)
    mask = None if wanted.mask is None else load_mask(wanted.mask, template.mask.grid)
    request = Request(load_rgb(wanted.reference), wanted.prompt, wanted.seed, mask)
    return edit_on_device(adapter, template, request, live.event)


def _write_logs(result: EditResult, events: Path | None, timeline: Path | None) -> None:
    if events is not None:
        result.events.write_jsonl(events)
    if timeline is not None:
        from sakura.viz.timeline import write_timeline

        write_timeline(timeline, list(result.events))


def _summary(report: Any) -> str:
    """One line for people."""
    total = report.recomputed_blocks + report.injected_blocks
    text = (
        f"{format_duration(report.latency_s)}, {format_bytes(report.num_bytes)} fetched, "
        f"{report.recomputed_blocks} of {total} blocks computed with all tokens, "
        f"{report.num_stalls} stalls"
    )
    if report.fetch_error:
        text += f"\nwarning: fetching ended early: {report.fetch_error}"
    return text
