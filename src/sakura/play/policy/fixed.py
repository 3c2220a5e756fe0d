"""`fixed`: every shard at one level, and every block waits for its own."""

from __future__ import annotations

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View
from sakura.play.policy.stream import stream


class FixedPolicy:
    """Streams at one level.

    Args:
        level: which; None for the lowest that keeps the floor.
    """

    name = "fixed"
    is_streaming = True
    is_patient = True
    chooses_levels = True

    def __init__(self, level: int | None = None) -> None:
        self._level = level

    def decide(self, view: View) -> Decision:
        """Inject or wait."""
        return stream(view)

    def choose_level(self, offer: Offer) -> int:
        """The one level."""
        return offer.floor_level if self._level is None else min(self._level, offer.top_level)
