"""How another release of the brokers would affect groups, found in their records.

Findings are groups whose epoch would be bumped, and groups that cannot be converted, with reasons.
For an older release, also groups that would be lost or prevent loading a partition. The rules are
those of KIP-1101 (metadata hash instead of records of type 4, since Kafka 4.1), KIP-848 "Migration"
(conversion of non-empty classic groups), KIP-932 and KIP-1071 (share and streams groups, whose
records Kafka 4.0 does not support).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from quorate.assignors import Topic
from quorate.codecs import DecodeError
from quorate.codecs.consumer_protocol import decode_assignment, decode_subscription
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment
from quorate.codecs.printable import hash_text
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash
from quorate.coordinator.state import (
    ClassicGroup,
    ConsumerGroup,
    CoordinatorGroup,
    CoordinatorState,
    ShareGroup,
    StreamsGroup,
)
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL


class FindingKind(StrEnum):
    """The kind of a finding.

    The first three are about the metadata hash, the next two about conversion to a consumer group,
    the last two about a downgrade.
    """

    WILL_BUMP = "will-bump"
    TOPIC_RECORD = "topic-record"
    HASH_DIFFERS = "hash-differs"
    CONVERTIBLE = "convertible"
    NOT_CONVERTIBLE = "not-convertible"
    WILL_BE_LOST = "will-be-lost"
    NOT_LOADABLE = "not-loadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An effect of an upgrade or downgrade, with a sentence."""

    kind: FindingKind
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def findings(
    group: CoordinatorGroup, config: CoordinatorConfig, topics: Mapping[str, Topic] | None = None
) -> Iterator[Finding]:
    """Yield the findings for a group.

    `config`: that of brokers of the other release. `topics`: the existing topics by name, with ids
    and racks; `None` if unknown. `share_groups_left` yields the effect of share groups on the other
    groups of their partition.
    """
    if not config.behaviour.metadata_hash and isinstance(group, ConsumerGroup):
        yield from _topic_record_findings(group, config)
    elif not config.behaviour.streams_groups and isinstance(group, StreamsGroup):
        yield Finding(
            kind=FindingKind.WILL_BE_LOST,
            sentence=(
                f"does not exist on Kafka {config.kafka_version}, which skips the records of streams groups; "
                "its committed offsets stay until they expire"
            ),
        )
    elif config.behaviour.metadata_hash and isinstance(group, ConsumerGroup | ShareGroup):
        yield from _hash_findings(group, topics, config.hash_algorithm)
    elif isinstance(group, ClassicGroup) and group.members:
        reasons = list(_obstacles_to_conversion(group, config))
        if reasons:
            for reason in reasons:
                yield Finding(
                    kind=FindingKind.NOT_CONVERTIBLE, sentence=f"cannot be converted while it has members: {reason}"
                )
        else:
            yield Finding(
                kind=FindingKind.CONVERTIBLE,
                sentence="becomes a consumer group when a member of the new protocol joins; "
                "partitions move only when that member is assigned some",
            )


def share_groups_left(
    state: CoordinatorState, config: CoordinatorConfig, partition: int | None = None
) -> Iterator[tuple[str, Finding]]:
    """Yield share groups whose records the release cannot load, sorted by id.

    They prevent loading their partition of `__consumer_offsets`, even if only tombstones remain.
    `partition`: its number, if known. Kafka 4.0.2 can load the member metadata of share groups. It
    fails on their other record types, including tombstones, and every share group has some of them.
    """
    if config.behaviour.share_groups:
        return
    where = (
        "this partition of __consumer_offsets" if partition is None else f"partition {partition} of __consumer_offsets"
    )
    effect = f"prevents Kafka {config.kafka_version} from loading {where}, with all its groups and offsets"
    for group_id in sorted(state.share_group_ids):
        if isinstance(state.groups.get(group_id), ShareGroup):
            remedy = "delete the group first, and wait until compaction has removed its tombstones"
        else:
            remedy = "it is deleted, but its tombstones are in the log: wait until compaction has removed them"
        yield group_id, Finding(kind=FindingKind.NOT_LOADABLE, sentence=f"{effect}: {remedy}")


def _topic_record_findings(group: ConsumerGroup, config: CoordinatorConfig) -> Iterator[Finding]:
    """Yield a finding if a broker before Kafka 4.1 would write a record of type 4."""
    if group.members and group.topic_subscribers and group.partition_metadata is None:
        yield Finding(
            kind=FindingKind.WILL_BUMP,
            sentence=(
                f"has no record of type 4: the first heartbeat on Kafka {config.kafka_version}, "
                "which keeps no metadata hash, writes one and increments the group epoch "
                f"from {group.epoch} to {group.epoch + 1}; no partition moves"
            ),
        )


def _hash_findings(
    group: ConsumerGroup | ShareGroup, topics: Mapping[str, Topic] | None, algorithm: HashAlgorithm
) -> Iterator[Finding]:
    expected = None if topics is None else expected_hash(group.topic_subscribers, topics, algorithm)
    if group.members and not group.metadata_hash and group.topic_subscribers and expected != 0:
        yield Finding(
            kind=FindingKind.WILL_BUMP,
            sentence=(
                "has no metadata hash: the first heartbeat on Kafka 4.1 or later stores one "
                f"and increments the group epoch from {group.epoch} to {group.epoch + 1}; no partition moves"
            ),
        )
    elif group.members and group.metadata_hash and expected is not None and expected != group.metadata_hash:
        yield Finding(
            kind=FindingKind.HASH_DIFFERS,
            sentence=(
                f"stored metadata hash {hash_text(group.metadata_hash)} differs from that of its topics, "
                f"{hash_text(expected)}: the next refresh increments the group epoch "
                f"from {group.epoch} to {group.epoch + 1}"
            ),
        )
    if isinstance(group, ConsumerGroup) and group.has_partition_metadata_record:
        yield Finding(
            kind=FindingKind.TOPIC_RECORD,
            sentence="has a record of type 4 without a tombstone; "
            "Kafka 4.1 or later deletes it with the first heartbeat",
        )


def expected_hash(
    names: Iterable[str], topics: Mapping[str, Topic], algorithm: HashAlgorithm = HashAlgorithm.XXH3
) -> int | None:
    """Return the metadata hash of the existing topics; `None` if the id of one is unknown."""
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


def _obstacles_to_conversion(group: ClassicGroup, config: CoordinatorConfig) -> Iterator[str]:
    """Yield the reasons why a group with members cannot be converted to a consumer group."""
    if not config.group_consumer_migration_policy.upgrades:
        yield f"group.consumer.migration.policy is {config.group_consumer_migration_policy.value}"
    if group.protocol_type != CONSUMER_PROTOCOL:
        yield f"its protocol type is {group.protocol_type!r}, not {CONSUMER_PROTOCOL!r}"
        return
    if len(group.members) > config.group_consumer_max_size:
        max_size = config.group_consumer_max_size
        yield f"it has {len(group.members):,} members, and group.consumer.max.size is {max_size:,}"
    undecodable, with_user_data = [], []
    for member in group.ordered_members():
        try:
            decode_subscription(group.subscription(member.member_id))
            assignment = decode_assignment(member.assignment).message if member.assignment else None
        except DecodeError:
            undecodable.append(member.member_id)
            continue
        if isinstance(assignment, ConsumerProtocolAssignment) and assignment.user_data:
            with_user_data.append(member.member_id)
    if undecodable:
        yield f"the subscription or assignment of {', '.join(undecodable)} cannot be decoded"
    if with_user_data:
        names = ", ".join(with_user_data)
        yield f"{group.protocol} sends user data with the assignment of {names}, which would be lost"
