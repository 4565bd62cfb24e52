"""Records as short text for tables.

Topic names are collected from the records, because many records have only topic ids. Texts are not
cut to the width of a terminal here.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.consumer_protocol import OpenedBytes, open_nested
from quorate.codecs.message import Message
from quorate.codecs.messages.classic_group import GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.messages.offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment
from quorate.codecs.messages.share_group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.messages.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from quorate.codecs.messages.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)
from quorate.codecs.messages.transaction import TransactionLogValue
from quorate.codecs.printable import brief_id, hash_text, spans, time_text
from quorate.codecs.records import CoordinatorRecord, MalformedRecord, UnknownRecord, as_kafka_reads
from quorate.codecs.wire import Uuid

CONSUMER_MEMBER_STATES = {0: "stable", 1: "unrevoked partitions", 2: "unreleased partitions"}
STREAMS_MEMBER_STATES = {1: "stable", 2: "unrevoked tasks", 3: "unreleased tasks"}
"""Kafka numbers the states of streams members from 1, those of consumer group members from 0."""
TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's names, by the status in the record."""

METADATA = ', metadata "'
"""Separates a committed offset and the client's metadata."""


def _list(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def learn_names(names: dict[Uuid, str], record: object) -> None:
    """Add the topic names of a record that has both names and ids."""
    readable = as_kafka_reads(record)
    if readable is None:
        return
    key, value = readable.key, readable.value
    if isinstance(value, OffsetCommitValue) and isinstance(key, OffsetCommitKey):
        if value.topic_id != Uuid.ZERO:
            names[value.topic_id] = key.topic
    elif isinstance(value, ConsumerGroupPartitionMetadataValue):
        names |= {topic.topic_id: topic.topic_name for topic in value.topics}
    elif isinstance(value, ShareGroupStatePartitionMetadataValue):
        for topics in (value.initializing_topics, value.initialized_topics, value.deleting_topics):
            names |= {topic.topic_id: topic.topic_name for topic in topics}


class RecordText:
    """Describes records one after the other, and remembers the topic names in them.

    `brief` is for narrow columns: it shortens random ids to their first characters, and "metadata
    hash" to "hash".
    """

    def __init__(self, *, brief: bool = False) -> None:
        self._member = brief_id if brief else str
        self._hash_name = "hash" if brief else "metadata hash"
        self._topics: dict[Uuid, str] = {}

    def what(self, record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord) -> str:
        """Return the content of a record as text, without its group.

        The text may contain characters that are not printable; see `printable`.
        """
        if isinstance(record, ControlRecord):
            epoch = "" if record.coordinator_epoch is None else f" (coordinator epoch {record.coordinator_epoch})"
            return f"{record.name}{epoch}"
        if not isinstance(record, CoordinatorRecord):
            readable = as_kafka_reads(record)
            if readable is not None:
                return f"{self.what(readable)} · {record.problem}"
            key = self._key(record.key)
            return f"{key}: {record.problem}" if key else str(record.problem)
        value = record.value
        key = self._key(record.key)
        if value is None:
            return f"{key}: tombstone" if key else "tombstone"
        self.learn(record)
        text = _VALUES[type(value)](self, open_nested(value))
        words = (f"{key} {text}" if text.startswith("→") else f"{key}: {text}") if key else text
        return f"{words} · {record.problem}" if record.key_trailing or record.value_trailing else words

    def topic(self, topic_id: Uuid) -> str:
        """Return the latest name of the topic, or its id."""
        return self._topics.get(topic_id) or str(topic_id)

    def learn(self, record: object) -> None:
        """Remember the names of topics in a record."""
        learn_names(self._topics, record)

    def _key(self, key: Any) -> str:
        """Return the content of the key other than the group."""
        if key is None:
            return ""
        if isinstance(key, ShareSnapshotKey | ShareUpdateKey):
            return f"{self.topic(key.topic_id)}-{key.partition}"
        for name in ("member_id", "regular_expression"):
            if hasattr(key, name):
                text: str = getattr(key, name)
                return self._member(text) if name == "member_id" else text
        return f"{key.topic}-{key.partition}" if hasattr(key, "topic") else ""

    # ---- texts of values

    def _legacy_offset(self, value: LegacyOffsetCommitValue) -> str:
        return f"→ {value.offset:,}{_metadata(value.metadata)}"

    def _offset(self, value: OffsetCommitValue) -> str:
        epoch = f" (leader epoch {value.leader_epoch})" if value.leader_epoch >= 0 else ""
        expires = f", expires {time_text(value.expire_timestamp)}" if value.expire_timestamp >= 0 else ""
        return f"→ {value.offset:,}{epoch}{expires}{_metadata(value.metadata)}"

    def _classic_group(self, value: GroupMetadataValue) -> str:
        protocol = _list([f"{value.protocol_type or 'no'} protocol", value.protocol])
        if not value.members:
            return f"generation {value.generation}, no members" + (f", {protocol}" if value.protocol_type else "")
        return f"generation {value.generation}, {protocol}: " + "; ".join(map(self._classic_member, value.members))

    def _classic_member(self, member: MemberMetadata) -> str:
        assignment = member.assignment
        member_id = self._member(member.member_id)
        if not isinstance(assignment, OpenedBytes) or not isinstance(
            assignment.opened.message, ConsumerProtocolAssignment
        ):
            return f"{member_id} assignment of {len(assignment)} bytes"
        partitions = _list(f"{t.topic} {spans(t.partitions)}" for t in assignment.opened.message.assigned_partitions)
        return f"{member_id} {_assigned(partitions, 'partitions')}"

    def _consumer_group(self, value: ConsumerGroupMetadataValue) -> str:
        return _list([f"epoch {value.epoch}", self._hash(value) if value.metadata_hash else None])

    def _hash(self, value: Any) -> str:
        return f"{self._hash_name} {hash_text(value.metadata_hash)}"

    def _group_with_hash(self, value: ShareGroupMetadataValue) -> str:
        return f"epoch {value.epoch}, {self._hash(value)}"

    def _streams_group(self, value: StreamsGroupMetadataValue) -> str:
        validated = (
            f"topology epoch {value.validated_topology_epoch} validated"
            if value.validated_topology_epoch >= 0
            else None
        )
        configs = [f"{config.key}={config.value}" for config in value.last_assignment_configs or ()]
        return _list([f"epoch {value.epoch}", self._hash(value), validated, *configs])

    def _partition_metadata(self, value: ConsumerGroupPartitionMetadataValue) -> str:
        racks = sum(len(partition.racks) for topic in value.topics for partition in topic.partition_metadata)
        topics = _list(f"{topic.topic_name} {topic.num_partitions}" for topic in value.topics)
        return f"number of partitions: {topics or 'no topics'}" + (f", {racks} rack ids" if racks else "")

    def _consumer_member(self, value: ConsumerGroupMemberMetadataValue) -> str:
        classic = value.classic_member_metadata
        protocols = [protocol.name for protocol in classic.supported_protocols] if classic else []
        return _list(
            [
                *self._client(value),
                _subscription(value.subscribed_topic_names, value.subscribed_topic_regex),
                f"assignor {value.server_assignor}" if value.server_assignor else None,
                f"classic protocol {' '.join(protocols)}" if protocols else None,
            ]
        )

    def _share_member(self, value: ShareGroupMemberMetadataValue) -> str:
        return _list([*self._client(value), _subscription(value.subscribed_topic_names, None)])

    def _streams_member(self, value: StreamsGroupMemberMetadataValue) -> str:
        endpoint = f"endpoint {value.user_endpoint.host}:{value.user_endpoint.port}" if value.user_endpoint else None
        tags = [f"{tag.key}={tag.value}" for tag in value.client_tags]
        return _list(
            [
                *self._client(value),
                f"topology epoch {value.topology_epoch}",
                f"process {value.process_id}",
                endpoint,
                *tags,
            ]
        )

    def _client(self, value: Any) -> list[str | None]:
        instance = getattr(value, "instance_id", None)
        return [
            f"instance {instance}" if instance is not None else None,
            f"rack {value.rack_id}" if value.rack_id is not None else None,
            f"client {value.client_id} at {value.client_host}",
        ]

    def _target(self, value: Any) -> str:
        """Describe the target assignment metadata of consumer, share and streams groups."""
        computed = f"computed {time_text(value.assignment_timestamp)}" if value.assignment_timestamp else None
        return _list([f"assignment epoch {value.assignment_epoch}", computed])

    def _target_member(self, value: ConsumerGroupTargetAssignmentMemberValue) -> str:
        return f"target assignment {self._partitions(value.topic_partitions) or 'empty'}"

    def _target_tasks(self, value: StreamsGroupTargetAssignmentMemberValue) -> str:
        return f"target assignment {_tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks) or 'empty'}"

    def _current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> str:
        pending = value.partitions_pending_revocation
        return _list(
            [
                _epochs(value),
                CONSUMER_MEMBER_STATES.get(value.state, f"state {value.state}"),
                _assigned(self._partitions(value.assigned_partitions), "partitions"),
                f"pending revocation {self._partitions(pending)}" if pending else None,
            ]
        )

    def _share_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> str:
        return f"{_epochs(value)}, {_assigned(self._partitions(value.assigned_partitions), 'partitions')}"

    def _streams_current(self, value: StreamsGroupCurrentMemberAssignmentValue) -> str:
        pending = (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        )
        return _list(
            [
                _epochs(value),
                STREAMS_MEMBER_STATES.get(value.state, f"state {value.state}"),
                _assigned(_tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks), "tasks"),
                f"pending revocation {_tasks(*pending)}" if any(pending) else None,
            ]
        )

    def _partitions(self, topics: Sequence[Any]) -> str:
        """List partitions by topic, with the epochs at which they were assigned if known."""
        return _list(f"{self.topic(t.topic_id)} {_with_epochs(t)}" for t in topics)

    def _regex(self, value: ConsumerGroupRegularExpressionValue) -> str:
        resolved = f"metadata version {value.version}, {time_text(value.timestamp)}"
        return f"matches {_list(value.topics) or 'no topics'} ({resolved})"

    def _share_state_topics(self, value: ShareGroupStatePartitionMetadataValue) -> str:
        def topics(infos: Sequence[Any]) -> str:
            return _list(f"{info.topic_name} {spans(info.partitions)}" for info in infos)

        deleting = _list(info.topic_name for info in value.deleting_topics)
        return (
            _list(
                [
                    f"initialized {topics(value.initialized_topics)}" if value.initialized_topics else None,
                    f"initializing {topics(value.initializing_topics)}" if value.initializing_topics else None,
                    f"deleting {deleting}" if deleting else None,
                ]
            )
            or "no topics"
        )

    def _topology(self, value: StreamsGroupTopologyValue) -> str:
        texts = []
        for subtopology in value.subtopologies:
            repartition = [topic.name for topic in subtopology.repartition_source_topics]
            topics = _list([*subtopology.source_topics, *subtopology.source_topic_regex, *repartition])
            texts.append(f"subtopology {subtopology.subtopology_id} reads {topics or 'no topics'}")
        return f"topology epoch {value.epoch}: " + "; ".join(texts)

    def _share_snapshot(self, value: ShareSnapshotValue) -> str:
        return _list([f"snapshot {value.snapshot_epoch}", f"state epoch {value.state_epoch}", *_share_progress(value)])

    def _share_update(self, value: ShareUpdateValue) -> str:
        return _list([f"update of snapshot {value.snapshot_epoch}", *_share_progress(value)])

    def _transaction(self, value: TransactionLogValue) -> str:
        status = value.transaction_status
        state = TRANSACTION_STATES[status] if 0 <= status < len(TRANSACTION_STATES) else f"status {status}"
        partitions = _list(f"{p.topic} {spans(p.partition_ids)}" for p in value.transaction_partitions or ())
        return _list([state, f"producer {value.producer_id} epoch {value.producer_epoch}", partitions])


def _metadata(text: str) -> str:
    return f'{METADATA}{text}"' if text else ""


def _subscription(names: Sequence[str], regex: str | None) -> str | None:
    return _list([f"subscribed to {' '.join(names)}" if names else None, f"regex /{regex}/" if regex else None])


def _epochs(value: Any) -> str:
    previous = value.previous_member_epoch
    return f"epoch {value.member_epoch}" + ("" if previous == value.member_epoch else f" (previous {previous})")


def _assigned(text: str, kind: str) -> str:
    return f"assigned {text}" if text else f"no assigned {kind}"


def _with_epochs(topic: Any) -> str:
    epochs = getattr(topic, "assignment_epochs", None) or ()
    if not epochs or len(set(epochs)) == 1 == len(topic.partitions):
        return spans(topic.partitions) + (f" @{epochs[0]}" if epochs else "")
    if len(set(epochs)) == 1:
        return f"{spans(topic.partitions)} @{epochs[0]}"
    return " ".join(
        f"{p}" if e is None else f"{p}@{e}" for p, e in zip_longest(topic.partitions, epochs) if p is not None
    )


def _tasks(active: Sequence[Any], standby: Sequence[Any], warmup: Sequence[Any]) -> str:
    def tasks(kind: str, items: Sequence[Any]) -> str:
        return _list(f"{kind}{item.subtopology_id}: {_with_epochs(item)}" for item in items)

    return _list([tasks("", active), tasks("standby ", standby), tasks("warm-up ", warmup)])


def _share_progress(value: ShareSnapshotValue | ShareUpdateValue) -> list[str | None]:
    batches = [f"{b.first_offset}-{b.last_offset} {_delivery(b.delivery_state)}" for b in value.state_batches]
    return [
        f"leader epoch {value.leader_epoch}" if value.leader_epoch >= 0 else None,
        f"start offset {value.start_offset:,}" if value.start_offset >= 0 else None,
        *batches,
    ]


def _delivery(state: int) -> str:
    return {0: "available", 2: "acknowledged", 4: "archived"}.get(state, f"state {state}")


_VALUES: dict[type[Message], Callable[[RecordText, Any], str]] = {
    LegacyOffsetCommitValue: RecordText._legacy_offset,
    OffsetCommitValue: RecordText._offset,
    GroupMetadataValue: RecordText._classic_group,
    ConsumerGroupMetadataValue: RecordText._consumer_group,
    ConsumerGroupPartitionMetadataValue: RecordText._partition_metadata,
    ConsumerGroupMemberMetadataValue: RecordText._consumer_member,
    ConsumerGroupTargetAssignmentMetadataValue: RecordText._target,
    ConsumerGroupTargetAssignmentMemberValue: RecordText._target_member,
    ConsumerGroupCurrentMemberAssignmentValue: RecordText._current,
    ConsumerGroupRegularExpressionValue: RecordText._regex,
    ShareGroupMemberMetadataValue: RecordText._share_member,
    ShareGroupMetadataValue: RecordText._group_with_hash,
    ShareGroupTargetAssignmentMetadataValue: RecordText._target,
    ShareGroupTargetAssignmentMemberValue: RecordText._target_member,
    ShareGroupCurrentMemberAssignmentValue: RecordText._share_current,
    ShareGroupStatePartitionMetadataValue: RecordText._share_state_topics,
    StreamsGroupMetadataValue: RecordText._streams_group,
    StreamsGroupMemberMetadataValue: RecordText._streams_member,
    StreamsGroupTargetAssignmentMetadataValue: RecordText._target,
    StreamsGroupTargetAssignmentMemberValue: RecordText._target_tasks,
    StreamsGroupCurrentMemberAssignmentValue: RecordText._streams_current,
    StreamsGroupTopologyValue: RecordText._topology,
    ShareSnapshotValue: RecordText._share_snapshot,
    ShareUpdateValue: RecordText._share_update,
    TransactionLogValue: RecordText._transaction,
}
"""A test checks that every value type is listed."""
