"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Any

from quorate.codecs import Uuid
from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.checks.classic_groups import stable_member
from quorate.integration.verify.checks.consumer_groups import joined
from quorate.integration.verify.session import CheckSession


def offsets_of(*offsets: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Return consecutive partitions of a commit."""
    return [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "", **more}
        for index, offset in enumerate(offsets, first)
    ]


def commit(s: CheckSession, group: str, topic: str, *offsets: int, version: int = 8, **more: Any) -> None:
    """Commit offsets of consecutive partitions, and record the response."""
    s.ask("OffsetCommit", version, group_id=group, topics=[{"name": topic, "partitions": offsets_of(*offsets)}], **more)


def commit_as(s: CheckSession, member_id: str, epoch: int, group: str, topic: str, **more: Any) -> None:
    """Commit an offset as a member, and record the response."""
    commit(s, group, topic, 1, member_id=member_id, generation_id_or_member_epoch=epoch, **more)


def fetch(s: CheckSession, group: str, topic: str | None, *partitions: int, **more: Any) -> None:
    """Fetch offsets of one group, and record the response; all topics without a topic."""
    topics = None if topic is None else [{"name": topic, "partition_indexes": list(partitions)}]
    s.ask("OffsetFetch", 8, groups=[{"group_id": group, "topics": topics}], **more)


@check("Kafka protocol guide", "Generation -1 commits into a group without members, which need not exist.")
def commit_without_a_group(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    commit(s, group, topic, 5, 7)
    fetch(s, group, topic, 0, 1)


@check("KIP-320", "OffsetFetch returns the metadata and the leader epoch of the last commit.")
def commit_keeps_metadata_and_leader_epoch(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    first = offsets_of(5, committed_metadata="note", committed_leader_epoch=3)
    for partitions in (first, offsets_of(4, committed_metadata=None)):
        s.ask("OffsetCommit", 8, group_id=group, topics=[{"name": topic, "partitions": partitions}])
        fetch(s, group, topic, 0)


@check(
    "Kafka protocol guide",
    "OffsetFetch of partitions without an offset, or of a missing group, returns -1 and no error.",
)
def missing_offsets_are_minus_1(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    fetch(s, group, topic, 0)
    commit(s, group, topic, 5)
    fetch(s, group, topic, 0, 9)
    fetch(s, group, s.name("none"), 0)


@check("KIP-88", "OffsetFetch without topics returns all offsets of the group.")
def all_offsets_of_a_group_are_fetched(s: CheckSession) -> None:
    group, first, second = s.name(), s.topic(), s.topic()
    commit(s, group, first, 1)
    commit(s, group, second, 2)
    fetch(s, group, None)


@check("KIP-709", "OffsetFetch before version 8 names one group.")
def offsets_before_version_8_are_of_one_group(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    commit(s, group, topic, 1, version=7)
    s.ask("OffsetFetch", 7, group_id=group, topics=[{"name": topic, "partition_indexes": [0, 3]}])


@check(
    "Kafka protocol guide",
    "A commit to a topic or partition that does not exist is an UNKNOWN_TOPIC_OR_PARTITION for it.",
)
def commit_to_a_missing_topic(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    commit(s, group, s.name("none"), 1)
    commit(s, group, topic, 1, 2)


@check(
    "Kafka protocol guide",
    "Metadata longer than offset.metadata.max.bytes is an OFFSET_METADATA_TOO_LARGE for its partition.",
)
def long_metadata_is_rejected(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    partitions = offsets_of(1, committed_metadata="x" * 5000) + offsets_of(2, first=1)
    s.ask("OffsetCommit", 8, group_id=group, topics=[{"name": topic, "partitions": partitions}])
    fetch(s, group, topic, 0, 1)


@check("Kafka protocol guide", "A commit to a group with members needs a member and its generation.")
def commit_needs_the_members_generation(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    member = stable_member(s, group)
    commit(s, group, topic, 1)
    for member_id, generation in (("nobody", 1), (member, 5), (member, 1)):
        commit_as(s, member_id, generation, group, topic)


@check("KIP-345", "A commit with an instance id that the group does not have is an UNKNOWN_MEMBER_ID.")
def commit_of_a_static_member_is_fenced(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    member = stable_member(s, group)
    commit_as(s, member, 1, group, topic, group_instance_id="none")


@check(
    "KIP-848",
    "A commit with a generation to a missing group is ILLEGAL_GENERATION, since version 9 GROUP_ID_NOT_FOUND.",
)
def commit_to_a_missing_group_with_a_generation(s: CheckSession) -> None:
    topic = s.topic()
    for version in (8, 9):
        commit_as(s, "m", 3, s.name(), topic, version=version)


@check(
    "KIP-848",
    "A commit to a consumer group at another epoch is a STALE_MEMBER_EPOCH, of a missing member UNKNOWN_MEMBER_ID.",
)
def commit_needs_the_members_epoch(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic)
    for member_id, at in (("m1", epoch), ("m1", epoch + 1), ("m2", epoch), ("", -1)):
        commit_as(s, member_id, at, group, topic, version=9)


@check("KIP-848", "A commit before version 9 with another epoch is an UNSUPPORTED_VERSION.")
def old_commit_to_a_consumer_group(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic)
    for at in (epoch, epoch + 1):
        commit_as(s, "m1", at, group, topic)


@check(
    "KIP-848", "OffsetFetch of a member at another epoch is a STALE_MEMBER_EPOCH, of a missing one UNKNOWN_MEMBER_ID."
)
def fetch_needs_the_members_epoch(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic)
    for member_id, at in (("m1", epoch), ("m1", epoch + 1), ("m2", epoch)):
        topics = [{"name": topic, "partition_indexes": [0]}]
        group_of_member = {"group_id": group, "topics": topics, "member_id": member_id, "member_epoch": at}
        s.ask("OffsetFetch", 9, groups=[group_of_member])


@check("KIP-848", "Since version 10 topics have ids; an id that does not exist is an UNKNOWN_TOPIC_ID.")
def topics_of_commits_have_ids(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    if s.target.versions[8][-1] < 10:
        return
    for topic_id in (s.target.topic_id(topic), Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")):
        s.ask("OffsetCommit", 10, group_id=group, topics=[{"topic_id": topic_id, "partitions": offsets_of(1)}])
        topics = [{"topic_id": topic_id, "partition_indexes": [0]}]
        s.ask("OffsetFetch", 10, groups=[{"group_id": group, "topics": topics}])


@check("KIP-496", "OffsetDelete removes offsets of a group without members.")
def offsets_can_be_deleted(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    commit(s, group, topic, 1, 2)
    s.ask("OffsetDelete", 0, group_id=group, topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])
    fetch(s, group, topic, 0, 1)
    s.ask("OffsetDelete", 0, group_id=s.name(), topics=[{"name": topic, "partitions": [{"partition_index": 0}]}])


@check("KIP-496", "OffsetDelete of a topic to which a member subscribes is a GROUP_SUBSCRIBED_TO_TOPIC.")
def offsets_of_subscribed_topics_stay(s: CheckSession) -> None:
    group, topic, other = s.name(), s.topic(), s.topic()
    joined(s, group, topic)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (topic, other)]
    s.ask("OffsetDelete", 0, group_id=group, topics=topics)


@check("KIP-709", "OffsetFetch since version 8 returns offsets of several groups, with an error for each.")
def several_groups_are_fetched_at_once(s: CheckSession) -> None:
    first, topic = s.name(), s.topic()
    commit(s, first, topic, 1)
    topics = [{"name": topic, "partition_indexes": [0]}]
    s.ask("OffsetFetch", 8, groups=[{"group_id": first, "topics": topics}, {"group_id": first, "topics": None}])


CHECKS = checks_in(globals())
