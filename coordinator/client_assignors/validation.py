"""Whether an assignment that a member hands in can be the group's target: one sentence of what is wrong is all that its developer gets to see."""

from collections.abc import Iterator, Mapping

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember
from quorate.codecs.client_assignors import TargetDetails, TargetMetadata
from quorate.codecs.tags import Tags, written_tags
from quorate.coordinator.client_assignors.selection import announcement
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.state.consumer import ConsumerGroup

__all__ = ["Given", "checked"]

Given = tuple[Mapping[Uuid, tuple[int, ...]], Tags]
"""What a member is to have: topic id → partitions, without topics of which it gets nothing; and the
tagged fields with what it is to be told.
"""


def checked(
    image: MetadataImage, group: ConsumerGroup, assignor: str, members: tuple[InstalledMember, ...]
) -> dict[str, Given]:
    """Member id → what it is to have, for every member of the group.

    Raises `ApiError` INVALID_ASSIGNMENT: a member is unknown, listed twice or missing; a topic or
    partition does not exist, or its topic is not among those that the member subscribes to; a
    partition is given twice; metadata has a version that the member does not understand.
    """
    given: dict[str, Given] = {}
    owners: dict[tuple[Uuid, int], str] = {}
    for one in members:
        member = group.members.get(one.member_id)
        if member is None:
            raise _invalid(f"{one.member_id} is not a member of group {group.group_id}")
        if one.member_id in given:
            raise _invalid(f"{one.member_id} is listed twice")
        subscribed = frozenset(group.subscribed_topics(member.metadata))
        topics: dict[Uuid, list[int]] = {}
        for topic_id, partition in _existing(image, one):
            name = image.topics_by_id[topic_id].name
            if name not in subscribed:
                raise _invalid(f"{one.member_id} is given {name}-{partition}, but does not subscribe to {name}")
            owner = owners.setdefault((topic_id, partition), one.member_id)
            if owner != one.member_id or partition in topics.get(topic_id, ()):
                raise _invalid(f"{name}-{partition} is given twice, to {owner} and {one.member_id}")
            topics.setdefault(topic_id, []).append(partition)
        metadata = TargetMetadata(version=one.metadata_version, data=one.metadata)
        said = announcement(member.metadata, assignor)
        is_told = bool(one.metadata or one.metadata_version)
        if is_told and not said.minimum_version <= one.metadata_version <= said.maximum_version:
            raise _invalid(
                f"{one.member_id} is told something in version {one.metadata_version}, but understands "
                f"{said.minimum_version} to {said.maximum_version}"
            )
        given[one.member_id] = (
            {topic_id: tuple(partitions) for topic_id, partitions in topics.items()},
            written_tags(TargetDetails(metadata=metadata)) if is_told else (),
        )
    missing = [member_id for member_id in group.members if member_id not in given]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise _invalid(f"{missing[0]}{more} is a member of group {group.group_id}, but not in the assignment")
    return given


def _existing(image: MetadataImage, member: InstalledMember) -> Iterator[tuple[Uuid, int]]:
    for one in member.topic_partitions:
        topic = image.topics_by_id.get(one.topic_id)
        if topic is None:
            raise _invalid(f"{member.member_id} is given partitions of topic {one.topic_id}, which does not exist")
        for partition in one.partitions:
            if not 0 <= partition < topic.partitions:
                raise _invalid(
                    f"{member.member_id} is given {topic.name}-{partition}; {topic.name} has partitions 0 to {topic.partitions - 1}"
                )
            yield one.topic_id, partition


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_ASSIGNMENT, message)
