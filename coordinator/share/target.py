"""Target assignments of share groups and their records (KIP-932; interval: KIP-1263)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from quorate.assignors.errors import AssignorError
from quorate.assignors.java_order import JavaHashMap, TimelineMap, copied_map_capacity
from quorate.assignors.subscription_type import SubscriptionType
from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.coordinator.consumer.owned import Partitions
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.state.share import ShareGroup, ShareMember

if TYPE_CHECKING:
    from quorate.assignors.group import GroupSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTargetRequest:
    """Request for a target assignment of a group at `epoch`, with the updated `member`.

    `topics`: the names that it subscribes to, in request order.
    """

    group: ShareGroup
    epoch: int
    member: ShareMember
    topics: tuple[str, ...]
    subscription_type: SubscriptionType
    now_ms: int


def waits_for_target(shard: CoordinatorShard, group: ShareGroup) -> bool:
    """Return whether a subscribed topic's partitions with share state differ from its target."""
    state = shard.state.share_states.get(group.group_id)
    if state is None:
        return False
    assigned: dict[Uuid, set[int]] = {}
    for target in group.targets.values():
        for topic in target:
            assigned.setdefault(topic.topic_id, set()).update(topic.partitions)
    return any(
        topic.topic_name in group.topic_subscribers and assigned.get(topic.topic_id) != set(topic.partitions)
        for topic in state.initialized_topics
    )


def assignable(shard: CoordinatorShard, group_id: str) -> Mapping[str, tuple[int, ...]]:
    """Return the partitions with share state by topic; only these are assignable."""
    state = shard.state.share_states.get(group_id)
    found: dict[str, tuple[int, ...]] = {}
    for initialized_topic in () if state is None else state.initialized_topics:
        topic = shard.image.topics_by_id.get(initialized_topic.topic_id)
        if topic is not None:
            found[topic.name] = tuple(number for number in initialized_topic.partitions if number < topic.partitions)
    return found


def next_target(shard: CoordinatorShard, request: ShareTargetRequest, records: list[CoordinatorRecord]) -> Partitions:
    """Compute the target assignment of the group, and add records of the changes.

    Returns the member's target assignment. Raises `ApiError` UNKNOWN_SERVER_ERROR if the assignor
    fails.
    """
    from quorate.assignors.server import SimpleAssignor  # assignors and NumPy take 0.2 s to load

    group, jdk = request.group, shard.config.jdk
    prepared = _group(shard.image, request)
    assignor = SimpleAssignor(
        version=shard.config.kafka_version,
        jdk=jdk,
        subscription_type=request.subscription_type,
        assignable=assignable(shard, group.group_id),
    )
    try:
        assigned = assignor.target(prepared)
    except AssignorError as error:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot compute the target assignment for epoch {request.epoch}: {error}"
        ) from None
    changed = set(assigned.changed.tolist())
    mine: Partitions = {}
    for number in prepared.hash_order.tolist():
        member_id = prepared.member_ids[number]
        stored = group.targets.get(member_id)
        new: Partitions = dict(assigned.record(number)) if number in changed else {}
        if member_id == request.member.member_id:
            mine = new if number in changed else dict(assignor.unchanged(prepared, number))
        if number in changed or stored is None:
            records.append(write.target_assignment(group.group_id, member_id, new))
    time_ms = request.now_ms if shard.behaviour.assignment_interval else 0
    records.append(write.target_epoch(group.group_id, request.epoch, time_ms))
    return mine


def _group(image: MetadataImage, request: ShareTargetRequest) -> "GroupSpec":
    """Return the group for the assignor: its members in the order of Kafka's map."""
    from quorate.assignors import GroupSpec, Member, Topic, Topology

    group, updated = request.group, request.member
    members: TimelineMap[str, ShareMember] = TimelineMap()
    members.slots = group.members.slots
    for member_id, member in group.members.items():
        members[member_id] = member
    members[updated.member_id] = updated
    prepared: dict[str, Member] = {}
    names: dict[str, None] = {}
    for member_id, member in members.ordered():
        own = member_id == updated.member_id
        topics = request.topics if own else member.metadata.subscribed_topic_names
        owned = _owned(image, group.targets.get(member_id, ()))
        names.update(dict.fromkeys(filter(image.topics.__contains__, topics)))  # missing topics cost nothing more
        names.update(dict.fromkeys(name for name, _ in owned))
        prepared[member_id] = Member(topics=topics, rack=member.metadata.rack_id, owned=owned)
    topology = Topology(
        Topic(name=name, partitions=topic.partitions, id=topic.id)
        for name in names
        if (topic := image.topics.get(name)) is not None
    )
    return GroupSpec(prepared, topology)


def _owned(image: MetadataImage, target: tuple[TopicPartition, ...]) -> list[tuple[str, int]]:
    """Return a target for `SimpleAssignor`.

    A topic without partitions has partition -1, a deleted topic its id as name.
    """
    owned: list[tuple[str, int]] = []
    for one in target:
        topic = image.topics_by_id.get(one.topic_id)
        name = str(one.topic_id) if topic is None else topic.name
        owned += [(name, partition) for partition in one.partitions or (-1,)]
    return owned


def filter_subscribed(target: Partitions, image: MetadataImage, topics: tuple[str, ...], *, jdk: int) -> Partitions:
    """Return the target without deleted or unsubscribed topics.

    The same object if there are none, else in the order of a copied map.
    """
    subscribed = frozenset(topics) if target else ()
    gone = [
        topic_id
        for topic_id in target
        if (topic := image.topics_by_id.get(topic_id)) is None or topic.name not in subscribed
    ]
    if not gone:
        return target
    left: JavaHashMap[Uuid, None] = JavaHashMap(copied_map_capacity(len(target), jdk))
    for topic_id in target:
        left.put(topic_id, None)
    for topic_id in gone:
        left.remove(topic_id)
    return {topic_id: target[topic_id] for topic_id, _ in left.items()}
