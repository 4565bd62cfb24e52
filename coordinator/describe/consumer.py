"""ConsumerGroupDescribe v0–1 (KIP-848, KIP-1099)."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from quorate.assignors.java_order import JavaHashMap, copied_set
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from quorate.codecs.api.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from quorate.coordinator.consumer.owned import Order
from quorate.coordinator.describe.common import describe_each, in_map_order
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember


def consumer_group_describe(
    shard: CoordinatorShard, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> Result[ConsumerGroupDescribeResponse]:
    """Describe consumer groups. Groups of other types are unknown."""
    groups = describe_each(shard, request.group_ids, ConsumerGroup, described, DescribedGroup)
    return Result(response=ConsumerGroupDescribeResponse(groups=groups))


def described(shard: CoordinatorShard, group: ConsumerGroup) -> DescribedGroup:
    """Return the description of a group.

    Assignments omit topics that no longer exist, and include partitions pending revocation.
    """
    assignor = max(group.assignor_votes.ordered(), key=itemgetter(1), default=None)
    server_side = shard.config.group_consumer_assignors[0] if assignor is None else assignor[0]
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=server_side,
        members=tuple(_member(shard, group, member) for _, member in group.members.ordered()),
    )
    for extension in shard.extensions:
        described = extension.described(group, described)
    return described


def _member(shard: CoordinatorShard, group: ConsumerGroup, member: ConsumerMember) -> Member:
    image = shard.image
    metadata = member.metadata
    target = group.targets.get(member.member_id, ())
    return Member(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=tuple(copied_set(metadata.subscribed_topic_names)),
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_current(shard, member),
        target_assignment=_assignment(image, ((topic.topic_id, topic.partitions) for topic in target)),
        member_type=0 if member.uses_classic_protocol else 1,
    )


def _current(shard: CoordinatorShard, member: ConsumerMember) -> Assignment:
    """Return the current assignment; since 4.3 with partitions pending revocation."""
    order = Order.of(shard.config)
    if not order.maps:
        return _listed(shard.image, order.loaded(member.assigned))
    listed: JavaHashMap[Uuid, list[int]] = JavaHashMap()
    for owned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in order.loaded(owned).items():
            if topic_id in shard.image.topics_by_id:
                listed.compute_if_absent(topic_id, list).extend(partitions)
    return _listed(shard.image, dict(listed.items()))


def _listed(image: MetadataImage, topics: Mapping[Uuid, Iterable[int]]) -> Assignment:
    """Return the existing topics, in the order given."""
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        )
    )


def _assignment(image: MetadataImage, topics: Iterable[tuple[Uuid, Sequence[int]]]) -> Assignment:
    return _listed(image, dict(in_map_order(topics)))
