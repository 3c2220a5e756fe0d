"""SAKURA: edit pictures on a device while the template's attention state is still arriving.

Importing this package needs neither torch nor the network; the heavy names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sakura.errors import (
    CodecError,
    DigestError,
    FingerprintError,
    FormatError,
    InputError,
    NotFoundError,
    PlayError,
    SakuraError,
    StaleError,
    StoreError,
)

__version__ = "0.1.0"

__all__ = [
    "CodecError",
    "DigestError",
    "FingerprintError",
    "FlashCache",
    "FormatError",
    "InputError",
    "NotFoundError",
    "PlayError",
    "Player",
    "SakuraError",
    "StaleError",
    "StoreError",
    "load_model",
    "open",
]

_LAZY = {
    "FlashCache": "sakura.play",
    "Player": "sakura.play",
    "load_model": "sakura.models",
    "open": "sakura.play",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sakura' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
