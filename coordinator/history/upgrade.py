"""What an upgrade of the brokers would do to groups, found in their records before it: which groups get another epoch, which cannot be converted, and why.

Rules: KIP-1101 (metadata hash instead of records of type 4, since Kafka 4.1), KIP-848 "Migration" (classic groups that become consumer groups while members are in them).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from quorate.assignors import Topic
from quorate.codecs import DecodeError
from quorate.codecs.consumer_protocol import decode_assignment, decode_subscription
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.history.words import hash_text
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, Group, ShareGroup
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL

__all__ = ["Finding", "FindingKind", "expected_hash", "findings"]


class FindingKind(StrEnum):
    """What was found. The first three are about the metadata hash, the others about conversion to a consumer group."""

    WILL_BUMP = "will-bump"
    TOPIC_RECORD = "topic-record"
    HASH_DIFFERS = "hash-differs"
    CONVERTIBLE = "convertible"
    NOT_CONVERTIBLE = "not-convertible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something worth knowing before an upgrade, and in a sentence."""

    kind: FindingKind
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def findings(group: Group, config: CoordinatorConfig, topics: Mapping[str, Topic] | None = None) -> Iterator[Finding]:
    """What there is to say of a group. `topics`: those that exist, by name, with ids and racks; `None` if they are not known."""
    if isinstance(group, ConsumerGroup | ShareGroup):
        yield from _of_hash(group, topics, config.hash_algorithm)
    elif isinstance(group, ClassicGroup) and group.members:
        reasons = list(_against_conversion(group, config))
        if reasons:
            for reason in reasons:
                yield Finding(
                    kind=FindingKind.NOT_CONVERTIBLE, sentence=f"cannot be converted while members are in it: {reason}"
                )
        else:
            yield Finding(
                kind=FindingKind.CONVERTIBLE,
                sentence="becomes a consumer group when a member of the new protocol joins; no partition moves before that member gets some",
            )


def _of_hash(
    group: ConsumerGroup | ShareGroup, topics: Mapping[str, Topic] | None, algorithm: HashAlgorithm
) -> Iterator[Finding]:
    expected = None if topics is None else expected_hash(group.topic_subscribers, topics, algorithm)
    if group.members and not group.metadata_hash and group.topic_subscribers and expected != 0:
        yield Finding(
            kind=FindingKind.WILL_BUMP,
            sentence=f"has no metadata hash: the first heartbeat on Kafka 4.1 or later stores one and raises the epoch from {group.epoch} to {group.epoch + 1}; no partition moves for that",
        )
    elif group.members and group.metadata_hash and expected is not None and expected != group.metadata_hash:
        yield Finding(
            kind=FindingKind.HASH_DIFFERS,
            sentence=f"stored metadata hash {hash_text(group.metadata_hash)} is not that of its topics now, {hash_text(expected)}: the next refresh raises the epoch from {group.epoch} to {group.epoch + 1}",
        )
    if isinstance(group, ConsumerGroup) and group.has_partition_metadata_record:
        yield Finding(
            kind=FindingKind.TOPIC_RECORD,
            sentence="has a record of type 4 without a tombstone; Kafka 4.1 or later deletes it with the first heartbeat",
        )


def expected_hash(
    names: Iterable[str], topics: Mapping[str, Topic], algorithm: HashAlgorithm = HashAlgorithm.XXH3
) -> int | None:
    """The metadata hash of those of the topics that exist; `None` if the id of one is not known."""
    hashes = {}
    for name in names:
        topic = topics.get(name)
        if topic is None:
            continue
        if topic.id is None:
            return None
        racks = topic.racks or ((),) * topic.partitions
        hashes[name] = topic_hash(topic.id, name, racks, algorithm)
    return group_hash(hashes, algorithm)


def _against_conversion(group: ClassicGroup, config: CoordinatorConfig) -> Iterator[str]:
    """Why it cannot become a consumer group online. An empty group always can."""
    if not config.group_consumer_migration_policy.upgrades:
        yield f"group.consumer.migration.policy is {config.group_consumer_migration_policy.value}"
    if group.protocol_type != CONSUMER_PROTOCOL:
        yield f"its protocol type is {group.protocol_type!r}, not {CONSUMER_PROTOCOL!r}"
        return
    if len(group.members) > config.group_consumer_max_size:
        yield f"it has {len(group.members):,} members, and group.consumer.max.size is {config.group_consumer_max_size:,}"
    unreadable, carries = [], []
    for member in group.ordered_members():
        try:
            decode_subscription(group.subscription(member.member_id))
            found = decode_assignment(member.assignment).message if member.assignment else None
        except DecodeError:
            unreadable.append(member.member_id)
            continue
        if isinstance(found, ConsumerProtocolAssignment) and found.user_data:
            carries.append(member.member_id)
    if unreadable:
        yield f"the subscription or assignment of {', '.join(unreadable)} cannot be read"
    if carries:
        yield f"{group.protocol} sends user data with the assignment of {', '.join(carries)}, which would be lost"
