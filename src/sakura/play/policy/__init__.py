"""Policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sakura.errors import InputError
from sakura.play.policy.base import Policy, View
from sakura.play.policy.device import DevicePolicy
from sakura.play.policy.sakura import SakuraPolicy
from sakura.play.policy.wait import WaitPolicy

POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {policy.name: policy for policy in (SakuraPolicy, DevicePolicy, WaitPolicy)}
)


def create_policy(name: str) -> Policy:
    """The policy named `name`; InputError when there is none."""
    if name not in POLICIES:
        raise InputError(f"unknown policy {name!r}", hint=f"known: {', '.join(POLICIES)}")
    return POLICIES[name]()


__all__ = ["POLICIES", "Policy", "View", "create_policy"]
