"""Every policy against the conformance class."""

from __future__ import annotations

import pytest

from sakura.bench.oracle import play_oracle
from sakura.bench.simulate import Scene, SimResult
from sakura.play.policy import POLICIES, OraclePolicy, Policy, StepPlan, create_policy
from tests.conformance.policy import PolicyConformance


class TestSakura(PolicyConformance):
    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("sakura")


class TestDeadline(PolicyConformance):
    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("deadline")


class TestDevice(PolicyConformance):
    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("device")


class TestWait(PolicyConformance):
    keeps_floor = False
    never_goes_back = False
    is_patient = True

    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("wait")


class TestFixed(PolicyConformance):
    never_goes_back = False
    is_patient = True

    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("fixed")


class TestRate(PolicyConformance):
    never_goes_back = False
    is_patient = True

    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("rate")


class TestBuffer(PolicyConformance):
    never_goes_back = False
    is_patient = True

    @pytest.fixture
    def policy(self) -> Policy:
        return create_policy("buffer")


class TestOracle(PolicyConformance):
    @pytest.fixture
    def policy(self) -> Policy:
        return OraclePolicy([StepPlan(2, 0.2)] * 4)

    def play(self, policy: Policy, scene: Scene) -> SimResult:
        return play_oracle(scene)


def test_every_policy_is_here() -> None:
    classes = PolicyConformance.__subclasses__()
    tested = {kind.__name__.removeprefix("Test").lower() for kind in classes}
    assert {*POLICIES, "oracle"} == tested
