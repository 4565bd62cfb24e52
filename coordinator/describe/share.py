"""ShareGroupDescribe v1 (KIP-932)."""

from quorate.assignors.java_order import copied_set
from quorate.codecs.api import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from quorate.codecs.api.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from quorate.coordinator.describe.common import describe_each, in_map_order
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.share import ShareGroup, ShareMember

ASSIGNOR = "simple"
"""The only assignor of share groups."""


def share_group_describe(
    shard: CoordinatorShard, request: ShareGroupDescribeRequest, context: RequestContext
) -> Result[ShareGroupDescribeResponse]:
    """Describe share groups. Groups of other types are unknown."""
    groups = describe_each(shard, request.group_ids, ShareGroup, described, DescribedGroup)
    return Result(response=ShareGroupDescribeResponse(groups=groups))


def described(shard: CoordinatorShard, group: ShareGroup) -> DescribedGroup:
    """Return the description of a group. Assignments omit topics that no longer exist."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=tuple(_member(shard.image, member) for _, member in group.members.ordered()),
    )


def _member(image: MetadataImage, member: ShareMember) -> Member:
    metadata = member.metadata
    topics = in_map_order((topic.topic_id, topic.partitions) for topic in member.assigned)
    return Member(
        member_id=member.member_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=tuple(copied_set(metadata.subscribed_topic_names)),
        assignment=Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(partitions))
                for topic_id, partitions in topics
                if (topic := image.topics_by_id.get(topic_id)) is not None
            )
        ),
    )
