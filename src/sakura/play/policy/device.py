"""`device`: everything is computed here and nothing is fetched."""

from __future__ import annotations

from sakura.play.plan import Decision
from sakura.play.policy.base import Offer, View


class DevicePolicy:
    """Plain on-device generation."""

    name = "device"
    is_streaming = False
    is_patient = False
    chooses_levels = False

    def decide(self, view: View) -> Decision:
        """Compute."""
        return Decision("compute", "on-device generation")

    def choose_level(self, offer: Offer) -> int:
        """All of them; never asked."""
        return offer.top_level
