"""`sakura edit`: one private edit from a bundle; on the device alone where the origin is down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sakura.cli.explain import decisions, explain
from sakura.cli.live import Live
from sakura.cli.options import InputPath, Output, gathered, require
from sakura.cli.text import note, print_json
from sakura.errors import InputError, StoreError
from sakura.models.registry import ADAPTERS, TASKS
from sakura.play.policy import POLICIES
from sakura.store.writer import put_atomic
from sakura.units import format_bytes, format_duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sakura.models.base import Adapter
    from sakura.play import Bundle, EditResult
    from sakura.play.report import RunReport


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
    deadline_s: float | None


@dataclass(frozen=True, slots=True)
class Fallback:
    """The template in the user's hands, for when the bundle cannot be had."""

    template: Path | None
    template_mask: Path | None
    task: str | None

    @property
    def is_complete(self) -> bool:
        return None not in (self.template, self.template_mask, self.task)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where picture, event log and timeline go."""

    output: Path
    events: Path | None
    timeline: Path | None

    def check(self) -> None:
        """Refuse before the work what could not be written after it. Raises InputError."""
        paths = [path for path in (self.output, self.events, self.timeline) if path is not None]
        if len({path.absolute() for path in paths}) < len(paths):
            raise InputError("two outputs are one file", hint="name each output apart")
        if self.timeline is not None:
            require("a timeline", "viz")


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of the run."""

    as_json: bool
    with_reasons: bool


@click.command(short_help="Edit a private picture from a bundle.")
@click.argument("bundle")
@click.option("--reference", required=True, type=InputPath, help="The private picture.")
@click.option("--prompt", help="What to do; the template's task by default.")
@click.option("--seed", default=0, show_default=True, help="Seed of the edited region's noise.")
@click.option("--mask", type=InputPath, help="White is edited; at least the template's mask.")
@click.option("--template", type=InputPath, help="The template picture, should the origin be down.")
@click.option("--template-mask", type=InputPath, help="Its mask, for the same case.")
@click.option(
    "--task", type=click.Choice(sorted({*chain(*TASKS.values())})), help="Its task, likewise."
)
@click.option("-o", "--output", required=True, type=Output(), help="PNG file to write.")
@click.option("--events", type=Output(), help="Write the event log (JSON lines).")
@click.option("--timeline", type=Output(), help="Draw the run (PNG).")
@click.option(
    "--policy",
    type=click.Choice(list(POLICIES)),
    default="sakura",
    show_default=True,
    help="sakura decides as it goes; device fetches nothing; wait never computes.",
)
@click.option("--floor-db", default=40.0, show_default=True, help="Fidelity to keep, PSNR in dB.")
@click.option("--deadline-s", type=float, help="For --policy deadline: done by then.")
@click.option(
    "--model",
    type=click.Choice(sorted(ADAPTERS)),
    default="mini",
    show_default=True,
    help="Model that makes the edit.",
)
@click.option("--explain", "with_reasons", is_flag=True, help="Print every decision.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, no progress.")
@gathered(Wanted, Fallback, Outputs, Told)
def command(wanted: Wanted, fallback: Fallback, outputs: Outputs, told: Told, model: str) -> None:
    """Edit a picture from BUNDLE (a path or URL) while its state is still arriving.

    The reference and the prompt never leave this machine. With --template, --template-mask and
    --task the edit is made on the device alone if the bundle cannot be had.
    """
    from sakura.images import load_rgb, save_png
    from sakura.models import load_model

    outputs.check()
    bundle, reference = open_bundle(wanted.bundle, fallback), load_rgb(wanted.reference)
    with Live(quiet=told.as_json) as live:
        live.stage("load the model", 0.0)
        adapter = load_model(model)
        live.stage("edit", 0.5)
        if bundle is None:
            result = edit_without_bundle(adapter, (wanted, reference), fallback, live)
        else:
            result = edit(adapter, bundle, (wanted, reference), live)
    save_png(outputs.output, result.image)
    _write_logs(result, outputs)
    for warning in warnings_of(result.report):
        note(f"warning: {warning}")
    tell(result, outputs, told)


def tell(result: EditResult, outputs: Outputs, told: Told) -> None:
    """Say what came of the edit: data on stdout, the rest on stderr."""
    if told.as_json:
        reasons = {"decisions": decisions(result.events)} if told.with_reasons else {}
        print_json({"output": str(outputs.output), **asdict(result.report), **reasons})
        return
    click.echo(str(outputs.output))
    if told.with_reasons:
        note(explain(result.events))
    note(_summary(result.report))


def open_bundle(source: str, fallback: Fallback) -> Bundle | None:
    """The bundle; None where it cannot be had and the fallback will do."""
    from sakura.play import open

    try:
        return open(source)
    except StoreError as error:
        if not fallback.is_complete:
            hint = "give --template, --template-mask and --task to edit without the bundle"
            hints = filter(None, (error.hint, hint))
            raise StoreError(str(error), hint="; or ".join(hints)) from error
        note(f"warning: {error}; editing on the device alone")
        return None


def edit(
    adapter: Adapter, bundle: Bundle, asked: tuple[Wanted, NDArray[Any]], live: Live
) -> EditResult:
    """Make the edit from the bundle; `asked` holds the reference's pixels as well."""
    from sakura.images import load_mask
    from sakura.play import Player, PlayerOptions

    wanted, reference = asked
    mask = None if wanted.mask is None else load_mask(wanted.mask, bundle.manifest.token_grid)
    options = PlayerOptions(
        policy=wanted.policy, floor_db=wanted.floor_db, deadline_s=wanted.deadline_s
    )
    with Player(adapter, bundle, options, listener=live.event) as player:
        return player.edit(reference, prompt=wanted.prompt, seed=wanted.seed, mask=mask)


def edit_without_bundle(
    adapter: Adapter, asked: tuple[Wanted, NDArray[Any]], fallback: Fallback, live: Live
) -> EditResult:
    """Plain on-device generation from the template picture in the user's hands."""
    from sakura.images import load_mask
    from sakura.models.base import Request
    from sakura.pack import load_template
    from sakura.play import edit_on_device

    wanted, reference = asked
    if fallback.template is None or fallback.template_mask is None or fallback.task is None:
        raise InputError("no template to edit")
    template = load_template(
        fallback.template, fallback.template_mask, fallback.task, adapter=adapter
    )
    mask = None if wanted.mask is None else load_mask(wanted.mask, template.mask.grid)
    request = Request(reference, wanted.prompt, wanted.seed, mask)
    return edit_on_device(adapter, template, request, live.event)


def _write_logs(result: EditResult, outputs: Outputs) -> None:
    if outputs.events is not None:
        put_atomic(outputs.events, (line.encode() for line in result.events.jsonl()))
    if outputs.timeline is not None:
        from sakura.viz.timeline import write_timeline

        write_timeline(outputs.timeline, list(result.events))


def warnings_of(report: RunReport) -> Iterator[str]:
    """What went wrong on the way although there is a picture."""
    if report.num_damaged:
        shards = ", ".join(
            f"block {block} component {component}" for block, component in report.damaged_shards
        )
        yield (
            f"{report.num_damaged} damaged chunk(s) refused, of {shards}; "
            "`sakura verify` checks the whole bundle"
        )
    if report.fetch_error:
        yield f"fetching ended early: {report.fetch_error}"


def _summary(report: RunReport) -> str:
    """One line for people."""
    total = report.recomputed_blocks + report.injected_blocks
    return (
        f"{format_duration(report.latency_s)}, {format_bytes(report.num_bytes)} fetched, "
        f"{report.recomputed_blocks} of {total} blocks computed with all tokens, "
        f"{report.num_stalls} stalls"
    )
