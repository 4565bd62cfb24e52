"""The ops `serverAssign` and `shareAssign`: the server-side assignors, answered by quorate, with the records that the coordinator writes."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from quorate.assignors import Group
from quorate.assignors.server import (
    ServerAssignor,
    ServerRangeAssignor,
    SubscriptionType,
    TargetAssignment,
    UniformAssignor,
)
from quorate.assignors.server.old_targets import iterated_target
from quorate.codecs import CONSUMER_OFFSETS, CoordinatorRecord, Uuid, encode_record
from quorate.codecs.message import Message
from quorate.codecs.messages import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.messages.consumer_group import TopicPartition
from tests.assignors.server_cases import read_server_case
from tests.differential.ops import OPS, Answer, BadInput, need, op

__all__ = ["OPS"]

Lists = list[tuple[int, list[int]]]
"""Topics by number, and partitions, in order."""

ASSIGNORS: dict[str, type[ServerAssignor]] = {"uniform": UniformAssignor, "range": ServerRangeAssignor}


@op("serverAssign")
def server_assign(asked: Answer) -> Answer:
    name = need(asked, "assignor")
    if name not in ASSIGNORS:
        raise BadInput(f"no server assignor {name}")
    need(asked, "members")
    group = read_server_case(asked)
    kind = SubscriptionType(asked["subscriptionType"]) if "subscriptionType" in asked else SubscriptionType.of(group)
    target = ASSIGNORS[name](subscription_type=kind).target(group)
    answer = {"subscriptionType": kind.value, "assignment": _assignment(target, name, kind)}
    records = []
    for member in _written(asked, target):
        listed = tuple(
            TopicPartition(topic_id=_id(group, topic), partitions=tuple(partitions))
            for topic, partitions in target.by_topic(member)
        )
        key = ConsumerGroupTargetAssignmentMemberKey(
            group_id=asked.get("group", "g"), member_id=group.member_ids[member]
        )
        records.append(_record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed)))
    records.append(
        _record(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=asked.get("group", "g")),
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=asked.get("epoch", 1), assignment_timestamp=asked.get("nowMs", 0)
            ),
        )
    )
    return answer | {"records": records}


def _assignment(target: TargetAssignment, name: str, kind: SubscriptionType) -> dict[str, dict[str, list[int]]]:
    """As the broker's assignor returns it."""
    group = target.group
    asked = group.subscribed_topics
    if kind is SubscriptionType.HOMOGENEOUS and len(group):
        asked = group.subscriptions[group.subscription_of[group.hash_order[0]]].topics
    if name == "uniform" and not len(asked):
        return {}
    changed = set(target.changed.tolist())
    return {
        member_id: {
            str(_id(group, topic)): partitions
            for topic, partitions in (target.by_topic(member) if member in changed else _as_before(group, member, name))
        }
        for member, member_id in enumerate(group.member_ids)
    }


def _as_before(group: Group, member: int, name: str) -> Lists:
    """An unchanged target as the broker's map iterates it; `range` makes ranges anew."""
    topology = group.topology
    numbers = iterated_target(group, member, 17)
    listed = [
        (topic, [int(topology.partition_of[number]) for number in part])
        for topic, part in groupby(numbers, key=lambda number: int(topology.topic_of[number]))
    ]
    return [(topic, sorted(partitions)) for topic, partitions in listed] if name == "range" else listed


def _written(asked: Answer, target: TargetAssignment) -> Iterator[int]:
    """The members that get a record, in order: those with another target than before, or that had none."""
    changed = set(target.changed.tolist())
    for member in target.group.hash_order.tolist():
        if member in changed or asked["members"][target.group.member_ids[member]].get("target") is None:
            yield member


def _id(group: Group, topic: int) -> Uuid:
    found = group.topology.topics[topic].id
    assert found is not None
    return found


def _record(key: Message, value: Message) -> dict[str, str | None]:
    record = CoordinatorRecord(topic=CONSUMER_OFFSETS, key=key, value=value, version=0)
    pair: Sequence[bytes | None] = encode_record(record)
    return {name: None if data is None else data.hex() for name, data in zip(("key", "value"), pair, strict=True)}
