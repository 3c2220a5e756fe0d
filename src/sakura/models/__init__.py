"""Model families behind one interface; importing this package needs no torch."""

from __future__ import annotations

from sakura.models.registry import load_model, profile_for

__all__ = ["load_model", "profile_for"]
