"""A real nginx over a folder, configured as docs/guides/serving.md says."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs/guides/serving.md"
CONFIG = """
{user}
worker_processes 1;
pid {run}/nginx.pid;
error_log {run}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {run}/body;
    proxy_temp_path {run}/proxy;
    fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi;
    scgi_temp_path {run}/scgi;
    {server}
}}
"""


def _documented_server(root: Path, port: int) -> str:
    """The guide's server block, on this folder and port."""
    block = re.search(r"```nginx\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    text = block[1]
    assert "listen 8080;" in text
    assert "root /srv/sakura;" in text
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};")
    return text.replace("root /srv/sakura;", f"root {root};")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def nginx_over(root: Path, run: Path) -> Iterator[str]:
    """Base URL of an nginx that serves `root`; skips the test where there is none."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    port = _free_port()
    # As root the workers would become `nobody`, who cannot enter pytest's folders.
    user = "user root;" if os.geteuid() == 0 else ""
    config = run / "nginx.conf"
    config.write_text(CONFIG.format(user=user, run=run, server=_documented_server(root, port)))
    command = [program, "-c", str(config), "-p", str(run), "-e", str(run / "error.log")]
    subprocess.run(command, check=True, timeout=30)  # returns once it listens
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        subprocess.run([*command, "-s", "stop"], check=True, timeout=30)
