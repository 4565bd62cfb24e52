"""OffsetDelete v0 (KIP-496), and removal of a deleted topic's offsets.

Offsets of subscribed topics are not deleted, and do not expire.
"""

from collections.abc import Iterable
from typing import Any

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import OffsetDeleteRequest, OffsetDeleteResponse
from quorate.codecs.api.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta
from quorate.coordinator.records import tombstone
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, CoordinatorGroup, StreamsGroup
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL
from quorate.coordinator.state.offsets import Topics


def delete_offsets(
    shard: CoordinatorShard, request: OffsetDeleteRequest, context: RequestContext
) -> Result[OffsetDeleteResponse]:
    """Delete offsets of topics that the group does not subscribe to.

    Offsets that do not exist cause no error.
    """
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.state.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"unknown group {request.group_id}, or not a group with offsets")
    if isinstance(group, ClassicGroup) and not group.is_empty and group.protocol_type != "consumer":
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"group {request.group_id} has members")
    records: list[CoordinatorRecord] = []
    topics = []
    for topic in request.topics:
        subscribed = is_subscribed(group, topic.name)
        partitions = []
        for part in topic.partitions:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            partitions.append(OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=code))
            where = (request.group_id, topic.name, part.partition_index)
            if not subscribed and (shard.state.offsets.get(*where) or shard.state.offsets.is_pending(*where)):
                records.append(
                    tombstone(OffsetCommitKey(group=request.group_id, topic=topic.name, partition=part.partition_index))
                )
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(partitions)))
    return Result(records=records, response=OffsetDeleteResponse(topics=tuple(topics)))


def forget_topics(shard: CoordinatorShard, delta: MetadataDelta, now_ms: int) -> Result[None]:
    """Return the tombstones of the offsets of deleted topics."""
    records: list[CoordinatorRecord] = []
    if delta.deleted:
        found_in = _by_id if shard.behaviour.deletes_topics_by_id else _by_partition
        offsets = shard.state.offsets
        for groups in (offsets.committed, *(groups for _, groups in offsets.pending.ordered())):
            for group, topics in groups.ordered():
                records += [
                    tombstone(OffsetCommitKey(group=group, topic=topic, partition=partition))
                    for topic, partition in found_in(topics, delta)
                ]
        if not shard.behaviour.new_coordinator:
            records += _of_empty_groups(shard, frozenset(topic.name for topic in delta.deleted))
    return Result(records=records, atomic=False)


def _of_empty_groups(shard: CoordinatorShard, deleted: frozenset[str]) -> list[CoordinatorRecord]:
    """Return tombstones of groups without members whose offsets are all of deleted topics."""
    offsets = shard.state.offsets
    return [
        tombstone(GroupMetadataKey(group=group_id))
        for group_id, group in shard.state.groups.ordered()
        if isinstance(group, ClassicGroup)
        and group.is_empty
        and not offsets.has_pending(group_id)
        and all(topic in deleted for topic, _ in _topics_of(offsets.committed.get(group_id)))
    ]


def _topics_of(held: Topics | None) -> Iterable[tuple[str, Any]]:
    return () if held is None else held.ordered()


def _by_id(topics: Topics, delta: MetadataDelta) -> list[tuple[str, int]]:
    """Return offsets with a deleted topic id, or without id, in the order of a HashSet of ids."""
    places = delta.deleted_places
    if len(topics) < len(places):  # a group commits to few of the deleted topics
        names: Iterable[str] = sorted((name for name in topics if name in places), key=lambda name: places[name][0])
    else:
        names = (name for name in places if name in topics)
    return [
        (name, partition)
        for name in names
        for partition, offset in topics[name].ordered()
        if offset.topic_id in (Uuid.ZERO, places[name][1].id)
    ]


def _by_partition(topics: Topics, delta: MetadataDelta) -> list[tuple[str, int]]:
    """Return offsets of partitions that existed when their topic was deleted."""
    places = delta.deleted_places
    return [
        (name, partition)
        for name, stored in topics.ordered()
        if name in places
        for partition in range(places[name][1].partitions)
        if partition in stored
    ]


def offset_tombstones(shard: CoordinatorShard, group: str) -> list[CoordinatorRecord]:
    """Return tombstones of a group's offsets: committed, then those only in open transactions."""
    offsets = shard.state.offsets
    found: dict[tuple[str, int], None] = {}
    for groups in (offsets.committed, offsets.open):
        held = groups.get(group)
        for topic, partitions in held.ordered() if held is not None else ():
            found.update(dict.fromkeys((topic, partition) for partition, _ in partitions.ordered()))
    return [tombstone(OffsetCommitKey(group=group, topic=topic, partition=partition)) for topic, partition in found]


def is_subscribed(group: CoordinatorGroup, topic: str) -> bool:
    """Return whether a member subscribes to the topic.

    If the subscriptions of a classic consumer group are unknown, it counts as subscribed.
    """
    if isinstance(group, ConsumerGroup):
        return topic in group.topic_subscribers
    if isinstance(group, StreamsGroup):
        return not group.is_empty and topic in group.source_topics
    if not isinstance(group, ClassicGroup):
        return False
    topics = group.subscribed_topics
    return group.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics
