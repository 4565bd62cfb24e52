"""Replay of single records of one group."""

import re
from typing import Any

import pytest

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue, TopicPartition, TopicPartitions
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.coordinator.state import (
    CoordinatorState,
    ReplayError,
)

T, U = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
KINDS = {"consumer": ("ConsumerGroup", consumer), "share": ("ShareGroup", share), "streams": ("StreamsGroup", streams)}


def rejected(text: str) -> "pytest.RaisesExc[ReplayError]":
    return pytest.raises(ReplayError, match=f"^{re.escape(text)}$")


class Log:
    """Replays records of a group "g" of some kind."""

    def __init__(self, kind: str = "consumer", state: CoordinatorState | None = None) -> None:
        self.name, self.module = KINDS[kind]
        self.state = state or CoordinatorState()

    def write(self, what: str, value: Any, *key: str, strict: bool = True) -> None:
        self.state.replay(self.record(what, value, *key), strict=strict)

    def record(self, what: str, value: Any, *key: str) -> CoordinatorRecord:
        cls = getattr(self.module, f"{self.name}{what}Key")
        names = ("group_id", "regular_expression" if what == "RegularExpression" else "member_id")
        made = cls(**dict(zip(names, key or ("g",), strict=False)))
        return CoordinatorRecord(key=made, value=value, version=0)

    def value(self, what: str, **given: Any) -> Any:
        return getattr(self.module, f"{self.name}{what}Value")(**given)

    def group_at(self, epoch: int) -> None:
        more = {"metadata_hash": 7}
        if self.module is streams:
            more |= {"validated_topology_epoch": -1}
        self.write("Metadata", self.value("Metadata", epoch=epoch, **more))

    def target_at(self, epoch: int) -> None:
        self.write("TargetAssignmentMetadata", self.value("TargetAssignmentMetadata", assignment_epoch=epoch))

    def target(self, member_id: str) -> None:
        given: dict[str, Any] = {"topic_partitions": (TopicPartition(topic_id=T, partitions=(0,)),)}
        if self.module is streams:
            given = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
        self.write("TargetAssignmentMember", self.value("TargetAssignmentMember", **given), "g", member_id)

    def current(self, member_id: str, epoch: int, *partitions: int) -> None:
        self.write("CurrentMemberAssignment", self.current_value(epoch, *partitions), "g", member_id)

    def current_value(self, epoch: int, *partitions: int) -> Any:
        given: dict[str, Any] = {"member_epoch": epoch, "previous_member_epoch": epoch - 1, "state": 0}
        if self.module is consumer:
            owned = (TopicPartitions(topic_id=T, partitions=partitions),) if partitions else ()
            given |= {"assigned_partitions": owned, "partitions_pending_revocation": ()}
        elif self.module is share:
            given |= {"assigned_partitions": (TopicPartition(topic_id=T, partitions=partitions),)}
        else:
            tasks = ("active_tasks", "standby_tasks", "warmup_tasks")
            given |= dict.fromkeys((*tasks, *(f"{task}_pending_revocation" for task in tasks)), ())
        return self.value("CurrentMemberAssignment", **given)

    @property
    def group(self) -> Any:
        return self.state.groups["g"]


def commit(state: CoordinatorState, group: str = "g") -> None:
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
    state.replay(CoordinatorRecord(key=OffsetCommitKey(group=group, topic="t", partition=0), value=value, version=4))


KIND = pytest.mark.parametrize("kind", KINDS)


def member(**given: Any) -> ConsumerGroupMemberMetadataValue:
    base: dict[str, Any] = {"instance_id": None, "rack_id": None, "client_id": "c", "client_host": "/h"}
    base |= {"subscribed_topic_names": (), "subscribed_topic_regex": None, "server_assignor": None}
    return ConsumerGroupMemberMetadataValue(**base | given)
