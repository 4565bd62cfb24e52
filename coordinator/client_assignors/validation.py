"""Validation of an assignment that a member computed.

The error message is the only diagnosis for the assignor's developer.
"""

from collections.abc import Iterator, Mapping

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember
from quorate.codecs.client_assignors import TargetDetails, TargetMetadata
from quorate.codecs.tags import Tags, written_tags
from quorate.coordinator.client_assignors.selection import announcement
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.state.consumer import ConsumerGroup

Given = tuple[Mapping[Uuid, tuple[int, ...]], Tags]
"""A member's target: topic id → partitions, without empty topics.

Second, the tagged fields of its metadata.
"""


def checked(
    image: MetadataImage, group: ConsumerGroup, assignor: str, members: tuple[InstalledMember, ...]
) -> dict[str, Given]:
    """Return member id → target, for every member of the group.

    Raises `ApiError` INVALID_ASSIGNMENT: a member is unknown, duplicate or missing; a topic or
    partition does not exist, or the member does not subscribe to the topic; a partition is assigned
    twice; the member does not support the metadata's version.
    """
    given: dict[str, Given] = {}
    owners: dict[tuple[Uuid, int], str] = {}
    for one in members:
        member = group.members.get(one.member_id)
        if member is None:
            raise _invalid(f"{one.member_id} is not a member of group {group.group_id}")
        if one.member_id in given:
            raise _invalid(f"duplicate member {one.member_id}")
        subscribed = frozenset(group.subscribed_topics(member.metadata))
        topics: dict[Uuid, list[int]] = {}
        for topic_id, partition in _existing(image, one):
            name = image.topics_by_id[topic_id].name
            if name not in subscribed:
                raise _invalid(f"{one.member_id} is assigned {name}-{partition}, but does not subscribe to {name}")
            owner = owners.setdefault((topic_id, partition), one.member_id)
            if owner != one.member_id or partition in topics.get(topic_id, ()):
                raise _invalid(f"{name}-{partition} is assigned twice, to {owner} and {one.member_id}")
            topics.setdefault(topic_id, []).append(partition)
        metadata = TargetMetadata(version=one.metadata_version, data=one.metadata)
        supported = announcement(member.metadata, assignor)
        has_metadata = bool(one.metadata or one.metadata_version)
        if has_metadata and not supported.minimum_version <= one.metadata_version <= supported.maximum_version:
            raise _invalid(
                f"{one.member_id} is assigned metadata of version {one.metadata_version}, but supports "
                f"{supported.minimum_version} to {supported.maximum_version}"
            )
        given[one.member_id] = (
            {topic_id: tuple(partitions) for topic_id, partitions in topics.items()},
            written_tags(TargetDetails(metadata=metadata)) if has_metadata else (),
        )
    missing = [member_id for member_id in group.members if member_id not in given]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise _invalid(f"{missing[0]}{more} is a member of group {group.group_id}, but not in the assignment")
    return given


def _existing(image: MetadataImage, member: InstalledMember) -> Iterator[tuple[Uuid, int]]:
    for topic_partition in member.topic_partitions:
        topic = image.topics_by_id.get(topic_partition.topic_id)
        if topic is None:
            raise _invalid(
                f"{member.member_id} is assigned partitions of topic {topic_partition.topic_id}, which does not exist"
            )
        for partition in topic_partition.partitions:
            if not 0 <= partition < topic.partitions:
                raise _invalid(
                    f"{member.member_id} is assigned {topic.name}-{partition}; "
                    f"{topic.name} has partitions 0 to {topic.partitions - 1}"
                )
            yield topic_partition.topic_id, partition


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_ASSIGNMENT, message)
