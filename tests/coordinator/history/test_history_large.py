"""The cost of a history does not grow with the size of the group."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from quorate.coordinator.history import History
from quorate.coordinator.history.facts import MemberProgressed
from quorate.coordinator.records import written
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember
from tests.coordinator.log_entries import log_entry


@dataclass
class Follower:
    """A member that records its calls in `calls`, which members can share."""

    epoch: int
    calls: list[int]

    def is_reconciled_to(self, epoch: int) -> bool:
        self.calls.append(epoch)
        return self.epoch == epoch


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["join", "reach", "fall back", "leave", "target"]), st.integers(0, 5)), max_size=60
    )
)
def test_group_is_reconciled_exactly_when_all_members_are(steps: list[tuple[str, int]]) -> None:
    group: Any = ConsumerGroup("g")
    for what, number in steps:
        name = f"m{number}"
        match what:
            case "target":
                group.assignment_epoch += 1
            case "leave":
                if name in group.members:
                    del group.members[name]
            case "join" | "reach" | "fall back":
                lag = number % 2 if what == "join" else what == "fall back"
                group.members[name] = Follower(group.assignment_epoch - lag, [])
        now = all(member.epoch == group.assignment_epoch for member in group.members.values())
        assert group.is_reconciled == now


def test_cost_of_reconciliation_is_linear_in_the_members() -> None:
    group: Any = ConsumerGroup("g")
    calls: list[int] = []
    for number in range(500):
        group.members[f"m{number}"] = Follower(0, calls)
    for number in range(500):
        assert not group.is_reconciled
        group.members[f"m{number}"] = Follower(group.assignment_epoch, calls)
    assert group.is_reconciled
    assert len(calls) < 5 * 500


def test_progress_of_each_member_is_reported_once() -> None:
    ids = [f"m{number}" for number in range(20)]
    log: list[tuple[int, Any, Any]] = []
    for name in ids:
        member = ConsumerGroupMemberMetadataValue(
            instance_id=None,
            rack_id=None,
            client_id="c",
            client_host="h",
            subscribed_topic_names=("t",),
            subscribed_topic_regex=None,
            rebalance_timeout_ms=5,
            server_assignor=None,
            classic_member_metadata=None,
        )
        log.append((1, ConsumerGroupMemberMetadataKey(group_id="g", member_id=name), member))
    log.append((1, ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=2)))
    target = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2)
    log.append((2, ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), target))
    for at, name in enumerate(ids):
        reached = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=(),
            partitions_pending_revocation=(),
        )
        log.append((3 + at, ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=name), reached))
    history = History()
    entries = (log_entry(written(key, value), place, at_ms) for place, (at_ms, key, value) in enumerate(log))
    events = [event for entry in entries for event in history.take(entry)]
    events += history.finish()
    followed = [fact.member_id for event in events for fact in event.facts if isinstance(fact, MemberProgressed)]
    assert followed == ids
    assert all(len(event.facts) == 1 for event in events[-len(ids) :])
    group = history.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert all(isinstance(one, ConsumerMember) for one in group.members.values())
    assert group.is_reconciled
