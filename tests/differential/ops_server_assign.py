"""The ops `serverAssign` and `shareAssign`: the server-side assignors, answered by quorate, with the records that the coordinator writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from quorate.assignors import GroupSpec
from quorate.assignors.java_order import JavaHashSet
from quorate.assignors.server import (
    Record,
    ServerAssignor,
    ServerRangeAssignor,
    SimpleAssignor,
    SubscriptionType,
    TargetAssignment,
    UniformAssignor,
)
from quorate.assignors.server.sharing import Pool
from quorate.assignors.server.simple import assignable_partitions
from quorate.codecs import CONSUMER_OFFSETS, CoordinatorRecord, encode_record
from quorate.codecs.message import Message
from quorate.codecs.messages import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.messages.consumer_group import TopicPartition
from tests.assignors.server_cases import read_server_case
from tests.differential.ops import OPS, Answer, BadInput, need, op

__all__ = ["OPS"]

JDK = 17
"""The oracle's."""

Types = tuple[Callable[..., Message], Callable[..., Message], Callable[..., Message], Callable[..., Message]]
"""Key and value of a member's target assignment, and of that of the group."""

CONSUMER: Types = (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
SHARE: Types = (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

ASSIGNORS: dict[str, type[ServerAssignor]] = {"uniform": UniformAssignor, "range": ServerRangeAssignor}


@op("serverAssign")
def server_assign(asked: Answer) -> Answer:
    name = need(asked, "assignor")
    if name not in ASSIGNORS:
        raise BadInput(f"no server assignor {name}")
    group, kind = _read(asked)
    target = ASSIGNORS[name](subscription_type=kind, jdk=JDK).target(group)
    assignment = _assignment(asked, target, name, kind)
    return {
        "subscriptionType": kind.value,
        "assignment": assignment,
        "records": list(_records(asked, target, CONSUMER)),
    }


@op("shareAssign")
def share_assign(asked: Answer) -> Answer:
    group, kind = _read(asked)
    target = SimpleAssignor(subscription_type=kind, jdk=JDK, assignable=asked.get("assignable")).target(group)
    assignment = _assignment(asked, target, "simple", kind)
    return {"subscriptionType": kind.value, "assignment": assignment, "records": list(_records(asked, target, SHARE))}


def _read(asked: Answer) -> tuple[GroupSpec, SubscriptionType]:
    need(asked, "members")
    group = read_server_case(asked)
    kind = SubscriptionType(asked["subscriptionType"]) if "subscriptionType" in asked else SubscriptionType.of(group)
    return group, kind


# ---- the assignment as the broker's assignor returns it


def _assignment(
    asked: Answer, target: TargetAssignment, name: str, kind: SubscriptionType
) -> Mapping[str, Mapping[str, Sequence[int]]]:
    group = target.group
    if not _subscribed(group, name, kind):
        return {}
    changed = set(target.changed.tolist())
    before = _once_more(asked, group, kind) if name == "simple" else set()
    return {
        member_id: {str(topic): list(partitions) for topic, partitions in target.record(member)}
        if member in changed
        else _as_before(asked, member_id, name, again=member in before)
        for member, member_id in enumerate(group.member_ids)
    }


def _subscribed(group: GroupSpec, name: str, kind: SubscriptionType) -> bool:
    """Whether the assignor finds topics; otherwise it returns nothing at all."""
    if name == "range":
        return True
    if kind is SubscriptionType.HOMOGENEOUS and len(group):
        first = int(group.hash_order[0])
        if name == "simple":  # it looks at names
            return len(group.listings[group.listing_of[first]]) > 0
        return len(group.subscriptions[group.subscription_of[first]].topics) > 0
    return len(group.subscribed_topics) > 0


def _as_before(asked: Answer, member_id: str, name: str, *, again: bool) -> Mapping[str, Sequence[int]]:
    """An unchanged target as the broker's map iterates it, or `again` a copy of that; `range` makes ranges anew."""
    ids: Mapping[str, str] = {topic["name"]: topic["id"] for topic in asked.get("topics", ())}
    target: Mapping[str, list[int]] = asked["members"][member_id].get("target") or {}
    iterated = {topic: list(JavaHashSet.of(partitions, jdk=JDK)) for topic, partitions in target.items()}
    if again:  # trees grow differently
        iterated = {topic: list(JavaHashSet.of(partitions, jdk=JDK)) for topic, partitions in iterated.items()}
    return {
        ids.get(topic, topic): sorted(partitions) if name == "range" else partitions
        for topic, partitions in iterated.items()
    }


def _once_more(asked: Answer, group: GroupSpec, kind: SubscriptionType) -> set[int]:
    """The members of whose targets `simple` makes a copy, though nothing may change: where all subscribe alike, those that have their part."""
    if kind is SubscriptionType.HETEROGENEOUS or not len(group):
        return set()
    topics = group.subscriptions[group.subscription_of[group.hash_order[0]]].topics
    partitions = assignable_partitions(group.topology, topics, asked.get("assignable"))
    parts = Pool(np.arange(len(group)), partitions).parts
    return set(group.hash_order[np.diff(group.owned_offsets)[group.hash_order] >= parts].tolist())


# ---- records


def _told(asked: Answer, target: TargetAssignment) -> Iterator[tuple[str, Record]]:
    """The members that get a record, in order: those with another target than before, or that had none."""
    changed = set(target.changed.tolist())
    for member in target.group.hash_order.tolist():
        member_id = target.group.member_ids[member]
        if member in changed:
            yield member_id, target.record(member)
        elif asked["members"][member_id].get("target") is None:
            yield member_id, ()


def _records(asked: Answer, target: TargetAssignment, types: Types) -> Iterator[Answer]:
    group_id = asked.get("group", "g")
    for member_id, record in _told(asked, target):
        listed = tuple(TopicPartition(topic_id=topic, partitions=partitions) for topic, partitions in record)
        yield _bytes(types[0](group_id=group_id, member_id=member_id), types[1](topic_partitions=listed))
    written = types[3](assignment_epoch=asked.get("epoch", 1), assignment_timestamp=asked.get("nowMs", 0))
    yield _bytes(types[2](group_id=group_id), written)


def _bytes(key: Message, value: Message) -> Answer:
    pair = encode_record(CoordinatorRecord(topic=CONSUMER_OFFSETS, key=key, value=value, version=0))
    return {name: None if data is None else data.hex() for name, data in zip(("key", "value"), pair, strict=True)}
