"""`sakura verify`: read bundles whole and check every digest."""

from __future__ import annotations

from typing import Any

import click

from sakura.cli.text import note, print_json
from sakura.errors import FormatError
from sakura.format import verify_bundle
from sakura.store.open import open_reader
from sakura.units import format_bytes


@click.command(short_help="Check every digest of bundles.")
@click.argument("bundles", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, a bundle an entry.")
def command(bundles: tuple[str, ...], as_json: bool) -> int:
    """Check every digest of BUNDLES (paths or URLs).

    Exits with 3 if any byte of any of them is damaged.
    """
    results = [check(bundle) for bundle in bundles]
    if as_json:
        print_json(results)
    else:
        for result in results:
            _print(result)
    return 0 if all(result["is_intact"] for result in results) else FormatError.exit_code


def check(bundle: str) -> dict[str, Any]:
    """One bundle's verdict as JSON values. Raises StoreError where it cannot be read."""
    reader = open_reader(bundle)
    num_bytes = reader.stat().num_bytes
    try:
        report = verify_bundle(lambda at, length: reader.read(at, at + length), num_bytes)
    except FormatError as error:
        problems, num_chunks = [{"where": "head", "message": str(error)}], 0
    else:
        problems = [{"where": p.where, "message": p.message} for p in report.problems]
        num_chunks = report.num_chunks
    return {
        "bundle": bundle,
        "is_intact": not problems,
        "num_bytes": num_bytes,
        "num_chunks": num_chunks,
        "problems": problems,
    }


def _print(result: dict[str, Any]) -> None:
    state = "intact" if result["is_intact"] else "damaged"
    size = format_bytes(result["num_bytes"])
    click.echo(f"{result['bundle']}: {state}, {result['num_chunks']} chunks, {size}")
    for problem in result["problems"]:
        note(f"error: {problem['where']}: {problem['message']}")
