"""`sakura cache`: what the flash cache holds, and how to make it smaller."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from sakura.cli.options import CACHE_VARIABLE, Size
from sakura.cli.text import note, print_json, table
from sakura.play.flash import DEFAULT_MAX_BYTES, FlashCache
from sakura.play.flash_entry import EntryInfo
from sakura.units import format_bytes

_folder = click.option(
    *("--cache", "folder"),
    envvar=CACHE_VARIABLE,
    show_envvar=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the cache.",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(short_help="List or shrink the flash cache of edits.")
def command() -> None:
    """List or shrink the flash cache that `sakura edit --cache` keeps."""


@command.command()
@_folder
@_as_json
def ls(folder: Path, as_json: bool) -> None:
    """List the bundles in the cache, last used first."""
    entries = FlashCache(folder).entries()
    if as_json:
        print_json([asdict(entry) for entry in entries])
    elif entries:
        click.echo(
            table(("bundle", "version", "share", "levels", "on disk"), map(_row, entries), 2)
        )


@command.command()
@_folder
@click.option(
    "--max-bytes",
    type=Size(),
    default=format_bytes(DEFAULT_MAX_BYTES),
    show_default=True,
    help="What it may keep.",
)
@_as_json
def prune(folder: Path, max_bytes: int, as_json: bool) -> None:
    """Evict down to a size: upper levels first, and what was used longest ago."""
    _report(FlashCache(folder), FlashCache(folder).prune(max_bytes), as_json)


@command.command()
@_folder
@_as_json
def clear(folder: Path, as_json: bool) -> None:
    """Evict everything."""
    _report(FlashCache(folder), FlashCache(folder).clear(), as_json)


def _row(entry: EntryInfo) -> tuple[str, ...]:
    levels = sum(entry.level_bytes)
    return (
        entry.url,
        (entry.etag or "").strip('"')[:12],
        f"{min(1.0, levels / max(1, entry.object_bytes)):.0%}",
        " ".join(format_bytes(num_bytes) for num_bytes in entry.level_bytes),
        format_bytes(entry.num_bytes),
    )


def _report(cache: FlashCache, num_freed: int, as_json: bool) -> None:
    num_left = sum(entry.num_bytes for entry in cache.entries())
    if as_json:
        print_json({"freed_bytes": num_freed, "num_bytes": num_left})
    else:
        note(f"{format_bytes(num_freed)} freed, {format_bytes(num_left)} left")
