"""The command line's front door: finds a verb's file, runs it, and turns errors into messages.

Data goes to stdout, everything else to stderr. A verb lives in the file of its name and exports
`command`; it is imported only when asked for, so `sakura inspect` never loads torch.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from sakura import __version__
from sakura.errors import SakuraError

VERBS = ("demo", "edit", "env", "inspect", "pack", "serve", "verify")


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"sakura.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sakura")
def cli() -> None:
    """Pack, serve and play precomputed attention state for picture edits."""


def main() -> None:
    """Entry point of the `sakura` script."""
    try:
        cli()
    except SakuraError as error:
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)
