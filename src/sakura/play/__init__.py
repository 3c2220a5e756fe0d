"""The player: edits a picture while the template's state is still arriving.

Names load on first use: the decode process needs none of them, and torch takes seconds to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sakura.play.bundle import Bundle, open
    from sakura.play.edit import EditResult, edit_on_device
    from sakura.play.flash import FlashCache
    from sakura.play.player import Player, PlayerOptions
    from sakura.play.report import RunReport

__all__ = [
    "Bundle",
    "EditResult",
    "FlashCache",
    "Player",
    "PlayerOptions",
    "RunReport",
    "edit_on_device",
    "open",
]

_LAZY = {
    "Bundle": "bundle",
    "EditResult": "edit",
    "FlashCache": "flash",
    "Player": "player",
    "PlayerOptions": "player",
    "RunReport": "report",
    "edit_on_device": "edit",
    "open": "bundle",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"sakura.play.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'sakura.play' has no attribute {name!r}")
