"""Group coordinators and share coordinators together: state of share groups, and their offsets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ManualClock, share_state
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.core import ClusterCore
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    InitializeShareGroupStateRequest,
    ShareGroupHeartbeatRequest,
    alter_share_group_offsets,
    describe_share_group_offsets,
)
from quorate.codecs.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequestTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import StoredRecord
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.coordinator.share_state.requests import OPERATIONS
from quorate.coordinator.share_state.shard import ShareCoordinatorShard
from tests.cluster.storage.test_restart import quiet_core

ONE = {"share.coordinator.state.topic.num.partitions": 1, "group.share.assignment.interval.ms": 0}


def with_topic(data: Path | None = None) -> ClusterCore:
    core = quiet_core(data, ManualClock(), **ONE)
    core.internal_topic(CONSUMER_OFFSETS)
    core.internal_topic(SHARE_GROUP_STATE)
    core.create_topic("orders", partitions=2)
    return core


def send(core: ClusterCore, request: Message, group: str = "g", version: int = 1) -> Any:
    partition = core.groups.partition_for(group)
    assert partition is not None
    context = RequestContext(api_version=version, now_ms=core.clock.now_ms())
    found = core.groups.request(partition.leader, group, request, context)
    return found.response if isinstance(found, Pending) else found


def join(core: ClusterCore) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=("orders",))
    assert send(core, request).error_code == 0
    core.clock.advance(0)  # type: ignore[attr-defined]


def leave(core: ClusterCore) -> None:
    assert send(core, ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)).error_code == 0


def alter(core: ClusterCore, offsets: dict[int, int], topic: str = "orders") -> Any:
    partitions = tuple(
        alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        for index, offset in offsets.items()
    )
    one = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    return send(core, AlterShareGroupOffsetsRequest(group_id="g", topics=(one,)), version=0)


def described(core: ClusterCore) -> dict[int, tuple[int, int]]:
    """Return partition → start offset and lag."""
    one = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    (group,) = send(core, DescribeShareGroupOffsetsRequest(groups=(one,))).groups
    assert group.error_code == 0
    return {part.partition_index: (part.start_offset, part.lag) for topic in group.topics for part in topic.partitions}


def state_records(core: ClusterCore) -> list[Any]:
    (partition,) = core.topics[SHARE_GROUP_STATE].partitions
    return [one.record for one in PartitionCoordinatorLog(partition).read() if isinstance(one, StoredRecord)]


def test_heartbeat_initializes_state_with_the_groups_epoch() -> None:
    core = with_topic()
    join(core)
    assert [(one.key.partition, one.value.state_epoch, one.value.start_offset) for one in state_records(core)] == [
        (0, 2, -1),
        (1, 2, -1),
    ]
    assert described(core) == {0: (-1, -1), 1: (-1, -1)}


def test_partitions_added_to_a_known_topic_are_consumed_from_the_first_record() -> None:
    core = with_topic()
    join(core)
    core.partition_control.add_partitions("orders", 3)
    join(core)
    assert [(one.key.partition, one.value.start_offset) for one in state_records(core)][2:] == [(2, 0)]


def test_offsets_of_a_group_without_members_are_altered_and_described() -> None:
    core = with_topic()
    join(core)
    assert alter(core, {0: 5}).error_code == ErrorCode.NON_EMPTY_GROUP
    leave(core)
    response = alter(core, {0: 5, 1: 7, 2: 1})
    assert [one.error_code for one in response.responses[0].partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert described(core) == {0: (5, -5), 1: (7, -7)}  # the topic has no records


def test_offsets_of_an_unknown_topic_cannot_be_altered() -> None:
    """Random requests on 4.4.0, seed 31020: nor those of a negative partition."""
    response = alter(with_topic(), {0: 5, -1: 5}, topic="unknown")
    assert [one.error_code for one in response.responses[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_alter_creates_a_group_with_share_state() -> None:
    core = with_topic()
    assert [one.error_code for one in alter(core, {1: 7}).responses[0].partitions] == [0]
    assert described(core) == {1: (7, -7)}


def test_error_of_the_share_coordinator_is_in_the_response(monkeypatch: pytest.MonkeyPatch) -> None:
    core = with_topic()

    def refuse(shard: ShareCoordinatorShard, key: SharePartitionKey, *_: Any) -> Any:
        raise ApiError(ErrorCode.FENCED_STATE_EPOCH if key.partition else ErrorCode.INVALID_REQUEST)

    operation = replace(OPERATIONS[InitializeShareGroupStateRequest], run=refuse)
    monkeypatch.setattr(share_state, "OPERATIONS", {**OPERATIONS, InitializeShareGroupStateRequest: operation})
    response = alter(core, {0: 1, 1: 1})
    assert [one.error_code for one in response.responses[0].partitions] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_STATE_EPOCH,
    ]


def test_a_request_that_the_persister_refuses_fails_as_a_whole() -> None:
    """Random requests on 4.4.0, seeds 706 and 713: Kafka's persister validates all partitions."""
    core = with_topic()
    join(core)
    leave(core)
    for partitions in ((0, -1), ()):
        topic = describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
            topic_name="orders", partitions=partitions
        )
        one = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=(topic,))
        (group,) = send(core, DescribeShareGroupOffsetsRequest(groups=(one,))).groups
        assert (group.error_code, group.topics) == (ErrorCode.UNKNOWN_SERVER_ERROR, ())
    response = alter(core, {-1: 7, 0: 1})
    assert (response.error_code, response.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, ())
    assert described(core) == {0: (-1, -1), 1: (-1, -1)}
    (deleted,) = send(core, DeleteGroupsRequest(groups_names=("g",)), version=2).results
    assert deleted.error_code == ErrorCode.UNKNOWN_SERVER_ERROR  # partition -1 is still being initialized


def test_deleted_offsets_are_deleted_by_the_share_coordinator() -> None:
    core = with_topic()
    join(core)
    leave(core)
    topics = tuple(DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("orders", "missing"))
    response = send(core, DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), version=0)
    assert [(one.topic_name, one.error_code) for one in response.responses] == [("orders", 0), ("missing", 3)]
    assert described(core) == {}
    assert [one.value for one in state_records(core)][2:] == [None, None]


def test_deleting_a_group_deletes_its_state() -> None:
    core = with_topic()
    join(core)
    leave(core)
    request = DeleteGroupsRequest(groups_names=("g",))
    (found,) = send(core, request, version=2).results
    assert found.error_code == 0
    assert [one.value for one in state_records(core)][2:] == [None, None]


def test_group_is_kept_while_its_state_cannot_be_deleted() -> None:
    core = with_topic()
    join(core)
    leave(core)
    state_partition = core.topics[SHARE_GROUP_STATE].partitions[0]
    state_partition.leader = -1
    core.share_state.runtime.leaders_changed()
    (found,) = send(core, DeleteGroupsRequest(groups_names=("g",)), version=2).results
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_alter_waits_for_a_share_coordinator() -> None:
    core = with_topic()
    state_partition = core.topics[SHARE_GROUP_STATE].partitions[0]
    leader, state_partition.leader = state_partition.leader, -1
    partition = core.groups.partition_for("g")
    assert partition is not None
    one = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
        topic_name="orders",
        partitions=(
            alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=3),
        ),
    )
    context = RequestContext(api_version=0, now_ms=core.clock.now_ms())
    request = AlterShareGroupOffsetsRequest(group_id="g", topics=(one,))
    pending = core.groups.request(partition.leader, "g", request, context)
    assert isinstance(pending, Pending)
    assert not pending.done
    state_partition.leader = leader
    core.clock.advance(1_000)  # type: ignore[attr-defined]
    assert pending.response.responses[0].partitions[0].error_code == 0
    assert described(core) == {0: (3, -3)}
