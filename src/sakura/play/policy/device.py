"""`device`: everything is computed here and nothing is fetched."""

from __future__ import annotations

from sakura.play.plan import Decision
from sakura.play.policy.base import View


class DevicePolicy:
    """Plain on-device generation."""

    name = "device"
    is_streaming = False

    def decide(self, view: View) -> Decision:
        """Compute."""
        return Decision("compute", "on-device generation")
