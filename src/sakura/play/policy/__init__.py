"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sakura.errors import InputError
from sakura.play.policy.base import Offer, Policy, View
from sakura.play.policy.buffer import BufferPolicy
from sakura.play.policy.deadline import DeadlinePolicy
from sakura.play.policy.device import DevicePolicy
from sakura.play.policy.fixed import FixedPolicy
from sakura.play.policy.oracle import OraclePolicy, StepPlan
from sakura.play.policy.rate import RatePolicy
from sakura.play.policy.sakura import SakuraPolicy
from sakura.play.policy.wait import WaitPolicy

_ALL = (
    SakuraPolicy,
    DeadlinePolicy,
    DevicePolicy,
    WaitPolicy,
    FixedPolicy,
    RatePolicy,
    BufferPolicy,
)
POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {policy.name: policy for policy in _ALL}
)
"""Those that need to know nothing ahead."""


def create_policy(name: str) -> Policy:
    """The policy named `name`; InputError when there is none."""
    if name not in POLICIES:
        raise InputError(f"unknown policy {name!r}", hint=f"known: {', '.join(POLICIES)}")
    return POLICIES[name]()


__all__ = ["POLICIES", "Offer", "OraclePolicy", "Policy", "StepPlan", "View", "create_policy"]
