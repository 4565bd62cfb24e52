"""The ops `serverAssign` and `shareAssign`: server-side assignors and their records."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from quorate.assignors import GroupSpec
from quorate.assignors.java_order import JavaHashSet
from quorate.assignors.server import (
    KafkaServerAssignor,
    Record,
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
from tests.differential.ops import OPS, BadInput, Json, need, op

__all__ = ["OPS"]

JDK = 17
"""The oracle's Java version."""

Types = tuple[Callable[..., Message], Callable[..., Message], Callable[..., Message], Callable[..., Message]]
"""Key and value of a member's target assignment, key and value of the group's."""

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

ASSIGNORS: dict[str, type[KafkaServerAssignor]] = {"uniform": UniformAssignor, "range": ServerRangeAssignor}


@op("serverAssign")
def server_assign(request: Json) -> Json:
    name = need(request, "assignor")
    if name not in ASSIGNORS:
        raise BadInput(f"no server assignor {name}")
    group, kind = _read(request)
    target = ASSIGNORS[name](subscription_type=kind, jdk=JDK).target(group)
    assignment = _assignment(request, target, name, kind)
    return {
        "subscriptionType": kind.value,
        "assignment": assignment,
        "records": list(_records(request, target, CONSUMER)),
    }


@op("shareAssign")
def share_assign(request: Json) -> Json:
    group, kind = _read(request)
    target = SimpleAssignor(subscription_type=kind, jdk=JDK, assignable=request.get("assignable")).target(group)
    assignment = _assignment(request, target, "simple", kind)
    return {"subscriptionType": kind.value, "assignment": assignment, "records": list(_records(request, target, SHARE))}


def _read(request: Json) -> tuple[GroupSpec, SubscriptionType]:
    need(request, "members")
    group = read_server_case(request)
    kind = SubscriptionType(request["subscriptionType"]) if "subscriptionType" in request else group.subscription_type
    return group, kind


# ---- the assignment as the broker's assignor returns it


def _assignment(
    request: Json, target: TargetAssignment, name: str, kind: SubscriptionType
) -> Mapping[str, Mapping[str, Sequence[int]]]:
    group = target.group
    if not _subscribed(group, name, kind):
        return {}
    changed = set(target.changed.tolist())
    before = _copied(request, group, kind) if name == "simple" else set()
    return {
        member_id: {str(topic): list(partitions) for topic, partitions in target.record(member)}
        if member in changed
        else _as_before(request, member_id, name, again=member in before)
        for member, member_id in enumerate(group.member_ids)
    }


def _subscribed(group: GroupSpec, name: str, kind: SubscriptionType) -> bool:
    """Return whether the assignor finds topics. If not, its assignment is empty."""
    if name == "range":
        return True
    if kind is SubscriptionType.HOMOGENEOUS and len(group):
        first = int(group.hash_order[0])
        if name == "simple":  # it uses names
            return len(group.listings[group.listing_of[first]]) > 0
        return len(group.subscriptions[group.subscription_of[first]].topics) > 0
    return len(group.subscribed_topics) > 0


def _as_before(request: Json, member_id: str, name: str, *, again: bool) -> Mapping[str, Sequence[int]]:
    """Return an unchanged target in the map order, or `again` a copy; `range` computes it."""
    ids: Mapping[str, str] = {topic["name"]: topic["id"] for topic in request.get("topics", ())}
    target: Mapping[str, list[int]] = request["members"][member_id].get("target") or {}
    iterated = {topic: list(JavaHashSet.of(partitions, jdk=JDK)) for topic, partitions in target.items()}
    if again:  # the trees of a copy differ
        iterated = {topic: list(JavaHashSet.of(partitions, jdk=JDK)) for topic, partitions in iterated.items()}
    return {
        ids.get(topic, topic): sorted(partitions) if name == "range" else partitions
        for topic, partitions in iterated.items()
    }


def _copied(request: Json, group: GroupSpec, kind: SubscriptionType) -> set[int]:
    """Return the members whose unchanged targets `simple` copies.

    With equal subscriptions these are the members that own their share of partitions.
    """
    if kind is SubscriptionType.HETEROGENEOUS or not len(group):
        return set()
    topics = group.subscriptions[group.subscription_of[group.hash_order[0]]].topics
    partitions = assignable_partitions(group.topology, topics, request.get("assignable"))
    parts = Pool(np.arange(len(group)), partitions).parts
    return set(group.hash_order[np.diff(group.owned_offsets)[group.hash_order] >= parts].tolist())


# ---- records


def _with_record(request: Json, target: TargetAssignment) -> Iterator[tuple[str, Record]]:
    """Yield the members with a record, in order: those with a new or changed target."""
    changed = set(target.changed.tolist())
    for member in target.group.hash_order.tolist():
        member_id = target.group.member_ids[member]
        if member in changed:
            yield member_id, target.record(member)
        elif request["members"][member_id].get("target") is None:
            yield member_id, ()


def _records(request: Json, target: TargetAssignment, types: Types) -> Iterator[Json]:
    group_id = request.get("group", "g")
    for member_id, record in _with_record(request, target):
        listed = tuple(TopicPartition(topic_id=topic, partitions=partitions) for topic, partitions in record)
        yield _bytes(types[0](group_id=group_id, member_id=member_id), types[1](topic_partitions=listed))
    written = types[3](assignment_epoch=request.get("epoch", 1), assignment_timestamp=request.get("nowMs", 0))
    yield _bytes(types[2](group_id=group_id), written)


def _bytes(key: Message, value: Message) -> Json:
    pair = encode_record(CoordinatorRecord(topic=CONSUMER_OFFSETS, key=key, value=value, version=0))
    return {name: None if data is None else data.hex() for name, data in zip(("key", "value"), pair, strict=True)}
