"""ConsumerGroupPrepareAssignment: returns the input of the assignor to the computing member."""

from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupPrepareAssignmentRequest, ConsumerGroupPrepareAssignmentResponse
from quorate.codecs.api.consumer_group_prepare_assignment import (
    PreparedAssignor,
    PreparedMember,
    PreparedPartition,
    PreparedTopic,
    PreparedTopicPartitions,
)
from quorate.coordinator.client_assignors.computing_member import (
    check_computing_member,
    computation_of,
    put_computation,
)
from quorate.coordinator.client_assignors.selection import announcement
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember


def consumer_group_prepare_assignment(
    shard: CoordinatorShard, request: ConsumerGroupPrepareAssignmentRequest, context: RequestContext
) -> Result[ConsumerGroupPrepareAssignmentResponse]:
    """Return the group, with members in the order of Kafka's map, and topics by name.

    Raises `ApiError`, see `check_computing_member`.
    """
    group, used = check_computing_member(shard, request.group_id, request.member_id, request.member_epoch)
    topics: dict[str, TopicImage] = {}
    members = tuple(_member(shard.image, group, member, used.name, topics) for _, member in group.members.ordered())

    def computing() -> None:
        put_computation(group, computation_of(group).computing(group.epoch))

    response = ConsumerGroupPrepareAssignmentResponse(
        group_epoch=group.epoch,
        assignor_name=used.name,
        minimum_version=used.minimum_version,
        maximum_version=used.maximum_version,
        members=members,
        topics=tuple(_topic(shard.image, topics[name]) for name in sorted(topics)),
    )
    return Result(response=response, on_appended=computing)


def _member(
    image: MetadataImage, group: ConsumerGroup, member: ConsumerMember, assignor: str, topics: dict[str, TopicImage]
) -> PreparedMember:
    """Return the member, and add its subscribed topics to `topics`."""
    assignor_metadata = announcement(member.metadata, assignor)
    subscribed: list[Uuid] = []
    for name in dict.fromkeys(group.subscribed_topics(member.metadata)):
        topic = image.topics.get(name)
        if topic is not None:
            topics[name] = topic
            subscribed.append(topic.id)
    return PreparedMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.metadata.instance_id,
        rack_id=member.metadata.rack_id,
        subscribed_topic_ids=tuple(subscribed),
        assignor=PreparedAssignor(
            reason=assignor_metadata.reason,
            metadata_version=assignor_metadata.metadata_version,
            metadata=assignor_metadata.metadata,
        ),
        topic_partitions=tuple(
            PreparedTopicPartitions(topic_id=one.topic_id, partitions=one.partitions)
            for one in group.targets.get(member.member_id, ())
        ),
    )


def _topic(image: MetadataImage, topic: TopicImage) -> PreparedTopic:
    return PreparedTopic(
        topic_id=topic.id,
        topic_name=topic.name,
        partitions=tuple(
            PreparedPartition(partition=number, racks=racks) for number, racks in enumerate(image.racks(topic))
        ),
    )
