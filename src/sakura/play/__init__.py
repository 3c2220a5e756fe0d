"""The player: edits a picture while the template's state is still arriving."""

from __future__ import annotations

from sakura.play.bundle import Bundle, open
from sakura.play.edit import EditResult, edit_on_device
from sakura.play.player import Player, PlayerOptions
from sakura.play.report import RunReport

__all__ = [
    "Bundle",
    "EditResult",
    "Player",
    "PlayerOptions",
    "RunReport",
    "edit_on_device",
    "open",
]
