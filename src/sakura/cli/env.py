"""`sakura env`: what is installed, what that allows, and what is shipped."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import click

from sakura.bench.machine import EXTRAS, extras, machine, missing_modules, versions
from sakura.cli.text import facts, print_json, table
from sakura.codec.native import default_kernel
from sakura.store.trace import trace_names

_USES = {
    "http": "bundles over http",
    "cloud": "bundles in S3, GCS and Azure",
    "torch": "pack, edit, demo",
    "serve": "serve, demo",
    "viz": "timelines, plots, demo",
    "bench": "codec bench",
}


@click.command(short_help="Say what is installed, and what that allows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Say what is installed, and what that allows.

    Put it into a bug report.
    """
    report = environment()
    if as_json:
        print_json(report)
        return
    click.echo(facts({name: str(value) for name, value in report["machine"].items()}))
    click.echo()
    click.echo(facts(report["versions"]))
    click.echo()
    rows = [
        (name, "yes" if there else "no", _USES[name], "" if there else _install(name))
        for name, there in report["extras"].items()
    ]
    click.echo(table(("extra", "there", "for", "to install"), rows, num_left=4))
    click.echo()
    shipped = {
        "codec kernel": report["codec_kernel"],
        "traces": ", ".join(report["traces"]),
        "models": ", ".join(
            name if there else f"{name} (no weights)" for name, there in report["models"].items()
        ),
    }
    click.echo(facts(shipped))


def environment() -> dict[str, Any]:
    """Everything the command prints, as JSON values; imports nothing heavy."""
    assets = files("sakura") / "assets"
    return {
        "machine": machine(),
        "versions": versions(),
        "extras": extras(),
        "codec_kernel": default_kernel().name,
        "models": {"mini": (assets / "mini_a.safetensors").is_file()},
        "traces": list(trace_names()),
    }


def _install(extra: str) -> str:
    assert set(EXTRAS) == set(_USES)
    return f'pip install "sakura-kv[{extra}]"  # lacks {", ".join(missing_modules(extra))}'
