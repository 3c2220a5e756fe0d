"""What this machine is and what is installed on it, found without importing anything heavy."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

REPORTED = ("numpy", "torch", "diffusers", "msgspec", "pillow", "aiohttp", "uvicorn", "matplotlib")
EXTRAS = {
    "http": ("aiohttp",),
    "cloud": ("obstore",),
    "torch": ("torch", "diffusers", "safetensors"),
    "serve": ("starlette", "uvicorn"),
    "viz": ("matplotlib",),
    "bench": ("constriction", "zstandard"),
}
"""Modules that an extra brings, and that decide whether it is there."""


def machine() -> dict[str, str | int]:
    """The machine, for a report."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": processor(),
        "num_cpus": num_cpus(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or "unknown"
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def num_cpus() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def versions(names: Iterable[str] = REPORTED) -> dict[str, str]:
    """Installed versions of packages by distribution name; what is missing is left out."""
    from sakura import __version__

    found = {"sakura": __version__, "python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def extras() -> dict[str, bool]:
    """Which optional parts could be imported."""
    return {name: not missing_modules(name) for name in EXTRAS}


def missing_modules(extra: str) -> list[str]:
    """Modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]
