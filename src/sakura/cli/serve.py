"""`sakura serve`: the origin over a folder of bundles."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Serve a folder of bundles with byte ranges.")
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8765, show_default=True, help="Port; 0 takes a free one.")
def command(folder: Path, host: str, port: int) -> None:
    """Serve the bundles in FOLDER with byte ranges until interrupted.

    Read-only; nothing but the files in FOLDER can be reached.
    """
    from sakura.origin.folder import Folder
    from sakura.origin.serve import serve

    Folder(folder)  # complains before anything listens
    serve(folder, host, port)
