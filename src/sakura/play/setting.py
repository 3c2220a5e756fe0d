"""What a session starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from sakura.format import Head
from sakura.play.downloads import Limits
from sakura.play.plan import ErrorModel
from sakura.play.policy import Policy

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What a session starts from.

    Args:
        head: manifest and data start.
        model: what injecting costs.
        policy: who decides.
        levels_BC: level of each shard that is decoded already, -1 for none.
        limits: how much to ask for.
        prior_bps: throughput of an earlier edit.
        opened_bytes: how many first bytes of the object came with its head.
        deadline_s: when the edit should be done, in seconds since it began; None for soon.
    """

    head: Head
    model: ErrorModel
    policy: Policy
    levels_BC: Array
    limits: Limits = field(default_factory=Limits)
    prior_bps: float | None = None
    opened_bytes: int = 0
    deadline_s: float | None = None
