"""The state transitions of classic groups, compared with Kafka and the documentation."""

import re
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorate.codecs.api import JoinGroupRequest
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.states import TRANSITIONS, IllegalTransition, can_rebalance
from quorate.coordinator.log import MemoryLog
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.state import ClassicState
from tests.coordinator.classic.test_classic_groups import NOT_COORDINATOR


@pytest.mark.parametrize(("old", "new"), list(product(ClassicState, ClassicState)))
def test_group_only_makes_transitions_of_the_table(old: ClassicState, new: ClassicState) -> None:
    group = LiveGroup("g", since_ms=0)
    group.phase = old
    if new in TRANSITIONS[old]:
        group.transition_to(new, 5)
        assert (group.previous_phase, group.phase, group.since_ms) == (old, new, 5)
    else:
        with pytest.raises(IllegalTransition, match=f"cannot change from {old.value} to {new.value}"):
            group.transition_to(new, 5)
        assert group.phase is old


def test_table_equals_kafkas_valid_previous_states() -> None:
    assert {new: {old for old in ClassicState if new in TRANSITIONS[old]} for new in ClassicState} == {
        ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
        ClassicState.PREPARING_REBALANCE: {
            ClassicState.STABLE,
            ClassicState.COMPLETING_REBALANCE,
            ClassicState.EMPTY,
        },
        ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
        ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
        ClassicState.DEAD: set(ClassicState),
    }
    assert [state.value for state in ClassicState if can_rebalance(state)] == ["Empty", "CompletingRebalance", "Stable"]


def test_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "explanation" / "classic-groups.md").read_text()
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \|", page, re.MULTILINE)
    reported = {old: new.split(", ") for old, new in rows if old != "state"}
    assert {old: sorted(new) for old, new in reported.items()} == {
        old.value: sorted(new.value for new in TRANSITIONS[old]) for old in ClassicState
    }


MADE_UP = UUID(int=7)


def alone(version: int) -> tuple[PartitionRuntime, Pending[Any]]:
    """Return our coordinator, and the response to a JoinGroup of client "billing"."""
    runtime = PartitionRuntime(GroupCoordinatorShard(new_id=lambda: MADE_UP), MemoryLog(), now_ms=0)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    return runtime, runtime.request(request, RequestContext(api_version=version, now_ms=0, client_id="billing"))


def test_member_ids_are_client_ids_with_a_uuid_of_the_shard() -> None:
    _, reply = alone(9)
    assert reply.response.member_id == f"billing-{MADE_UP}"


def test_pending_requests_fail_when_the_coordinator_moves() -> None:
    runtime, reply = alone(3)
    assert not reply.done
    runtime.unload()
    assert (reply.response.error_code, reply.response.member_id) == (NOT_COORDINATOR, f"billing-{MADE_UP}")
