"""The command line's front door: finds a verb's file, runs it, and turns errors into messages.

Data goes to stdout, everything else to stderr. A verb lives in the file of its name and exports
`command`; it is imported only when asked for, so `sakura inspect` never loads torch.
docs/guides/cli.md documents the exit codes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from sakura import __version__
from sakura.errors import SakuraError

VERBS = ("cache", "codec", "demo", "edit", "env", "inspect", "pack", "serve", "simulate", "verify")
COMPLETE = "_SAKURA_COMPLETE"
EXIT_UNEXPECTED, EXIT_INTERRUPTED = 70, 130


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
@click.option("--debug", is_flag=True, help="Show the traceback of any error.")
@click.version_option(__version__, prog_name="sakura")
def cli(debug: bool) -> None:
    """Pack, serve and play precomputed attention state for picture edits."""


def main() -> NoReturn:
    """Entry point of the `sakura` script."""
    # A polite kill cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if COMPLETE in os.environ:  # a shell asks for completions
        cli.main(prog_name="sakura", complete_var=COMPLETE)
    status = run(sys.argv[1:])
    _close_stdout()
    sys.exit(status)


def run(args: Sequence[str]) -> int:
    """Run a command line; returns its exit code, raises nothing but with `--debug`."""
    debug = bool(args) and args[0] == "--debug"
    try:
        with cli.make_context("sakura", list(args)) as context:
            result = cli.invoke(context)
    except click.exceptions.Exit as done:  # --help and --version
        return done.exit_code
    except click.ClickException as error:  # wrong usage
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        return 0
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Say on stderr what went wrong and what to do about it; returns the exit code."""
    if isinstance(error, SakuraError):
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return error.exit_code
    click.echo(f"error: unexpected {type(error).__name__}: {error}", err=True)
    click.echo("hint: `sakura --debug ...` shows where; please report it", err=True)
    return EXIT_UNEXPECTED


def _close_stdout() -> None:
    """Flush now, so that a reader that has left is no error at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
