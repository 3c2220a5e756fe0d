"""`sakura edit`: private edits from a bundle; on the device alone where the origin is down."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sakura.cli.edit_report import Told, report_of, tell, warnings_of
from sakura.cli.live import Live
from sakura.cli.options import CACHE_VARIABLE, InputPath, Output, Size, gathered, require
from sakura.cli.text import note, print_json
from sakura.errors import InputError, StoreError
from sakura.models.registry import ADAPTERS, TASKS
from sakura.play.flash import DEFAULT_MAX_BYTES, FlashCache
from sakura.play.policy import POLICIES
from sakura.store.writer import check_output, put_atomic
from sakura.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sakura.models.base import Adapter
    from sakura.play import Bundle, EditResult


@dataclass(frozen=True, slots=True)
class Wanted:
    """The edit as asked for."""

    bundle: str
    reference: Path
    prompt: str | None
    seed: int
    num_images: int
    mask: Path | None
    policy: str
    floor_db: float
    deadline_s: float | None
    cache: Path | None
    cache_size: int

    @property
    def seeds(self) -> range:
        """One per picture."""
        return range(self.seed, self.seed + self.num_images)


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

    def of(self, num_images: int) -> list[Outputs]:
        """Those of each picture: as they are for one, NAME-1.png, NAME-2.png, ... for more."""
        if num_images == 1:
            return [self]
        return [
            Outputs(
                _numbered(self.output, number),
                self.events and _numbered(self.events, number),
                self.timeline and _numbered(self.timeline, number),
            )
            for number in range(1, num_images + 1)
        ]

    def check(self) -> None:
        """Refuse before the work what could not be written after it. Raises InputError."""
        paths = [path for path in (self.output, self.events, self.timeline) if path is not None]
        if len({path.absolute() for path in paths}) < len(paths):
            raise InputError("two outputs are one file", hint="name each output apart")
        if self.timeline is not None:
            require("a timeline", "viz")
        for path in paths:
            check_output(path)


@click.command(short_help="Edit a private picture from a bundle.")
@click.argument("bundle")
@click.option("--reference", required=True, type=InputPath, help="The private picture.")
@click.option("--prompt", help="What to do; the template's task by default.")
@click.option("--seed", default=0, show_default=True, help="Seed of the edited region's noise.")
@click.option(
    "--num-images",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Pictures to make, with this seed and those that follow.",
)
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
    "--cache",
    envvar=CACHE_VARIABLE,
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="Folder to keep downloads in; a later edit needs them no more, nor the origin.",
)
@click.option(
    "--cache-size",
    type=Size(),
    default=format_bytes(DEFAULT_MAX_BYTES),
    show_default=True,
    help="What that folder may hold.",
)
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

    each = outputs.of(wanted.num_images)
    for one in each:
        one.check()
    bundle, reference = open_bundle(wanted, fallback), load_rgb(wanted.reference)
    with Live(quiet=told.as_json) as live:
        live.stage("load the model", 0.0)
        adapter = load_model(model)
        live.stage("edit", 0.5)
        if bundle is None:
            results = edit_without_bundle(adapter, (wanted, reference), fallback, live)
        else:
            results = edit(adapter, bundle, (wanted, reference), live)
    for one, result in zip(each, results, strict=True):
        save_png(one.output, result.image)
        _write_logs(result, one)
        for warning in warnings_of(result.report):
            note(f"warning: {warning}")
        if not told.as_json:
            tell(result, one.output, told)
    if told.as_json:
        pairs = zip(each, results, strict=True)
        reports = [report_of(result, one.output, told) for one, result in pairs]
        print_json(reports[0] if wanted.num_images == 1 else reports)


def open_bundle(wanted: Wanted, fallback: Fallback) -> Bundle | None:
    """The bundle; None where it cannot be had and the fallback will do."""
    from sakura.play import open

    try:
        bundle = open(wanted.bundle, _cache_of(wanted))
        if bundle.offline is not None:
            note(f"warning: {bundle.offline}; editing from the cache")
        return bundle
    except StoreError as error:
        if not fallback.is_complete:
            hint = "give --template, --template-mask and --task to edit without the bundle"
            hints = filter(None, (error.hint, hint))
            raise StoreError(str(error), hint="; or ".join(hints)) from error
        note(f"warning: {error}; editing on the device alone")
        return None


def edit(
    adapter: Adapter, bundle: Bundle, asked: tuple[Wanted, NDArray[Any]], live: Live
) -> list[EditResult]:
    """Make the edits from the bundle; `asked` holds the reference's pixels as well."""
    from sakura.images import load_mask
    from sakura.play import Player, PlayerOptions

    wanted, reference = asked
    mask = None if wanted.mask is None else load_mask(wanted.mask, bundle.manifest.token_grid)
    options = PlayerOptions(
        policy=wanted.policy, floor_db=wanted.floor_db, deadline_s=wanted.deadline_s
    )
    with Player(adapter, bundle, options, listener=live.event) as player:
        return player.edit_many(reference, wanted.prompt, wanted.seeds, mask)


def edit_without_bundle(
    adapter: Adapter, asked: tuple[Wanted, NDArray[Any]], fallback: Fallback, live: Live
) -> list[EditResult]:
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
    return [
        edit_on_device(adapter, template, Request(reference, wanted.prompt, seed, mask), live.event)
        for seed in wanted.seeds
    ]


def _cache_of(wanted: Wanted) -> FlashCache | None:
    return None if wanted.cache is None else FlashCache(wanted.cache, wanted.cache_size)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _write_logs(result: EditResult, outputs: Outputs) -> None:
    if outputs.events is not None:
        put_atomic(outputs.events, (line.encode() for line in result.events.jsonl()))
    if outputs.timeline is not None:
        from sakura.viz.timeline import write_timeline

        write_timeline(outputs.timeline, list(result.events))
