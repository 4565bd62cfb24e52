"""Streams groups (KIP-1071): record types 17 and 19 to 23 of `__consumer_offsets`.

Type 18 never was in a release.
"""

from quorate.codecs.message import Message, field, key, struct, tagged, value
from quorate.codecs.wire import Array, Int8, Int16, Int32, Int64, String, UInt16


@key(17, since="4.1")
class StreamsGroupMetadataKey(Message):
    """The group's id."""

    group_id: String


@struct
class LastAssignmentConfig(Message):
    """A config of the group used for the last assignment."""

    key: String
    value: String


@value(StreamsGroupMetadataKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupMetadataValue(Message):
    """Epoch of the group, hash of the topics its topology needs, and what was last validated.

    The default of `last_assignment_configs` is empty, not null (its schema's `"default": null`
    lacks the quotes).
    """

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, default=-1, release="4.2")
    last_assignment_configs: Array[LastAssignmentConfig] | None = tagged(1, default=(), release="4.2")
    stored_description_topology_epoch: Int32 = tagged(2, default=-1, release="4.4")
    failed_description_topology_epoch: Int32 = tagged(3, default=-1, release="4.4")


@key(19, since="4.1")
class StreamsGroupMemberMetadataKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class Endpoint(Message):
    """The address at which a member serves interactive queries."""

    host: String
    port: UInt16


@struct
class KeyValue(Message):
    """A client tag."""

    key: String
    value: String


@value(StreamsGroupMemberMetadataKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupMemberMetadataValue(Message):
    """The metadata that a member sent."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: Array[KeyValue]


@key(20, since="4.1")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """The group's id."""

    group_id: String


@value(StreamsGroupTargetAssignmentMetadataKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0, ignorable=True, release="4.3")  # KIP-1263


@key(21, since="4.1")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class TargetTaskIds(Message):
    """Tasks of one subtopology."""

    subtopology_id: String
    partitions: Array[Int32]


@value(StreamsGroupTargetAssignmentMemberKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The target assignment of a member."""

    active_tasks: Array[TargetTaskIds]
    standby_tasks: Array[TargetTaskIds]
    warmup_tasks: Array[TargetTaskIds]


@key(22, since="4.1")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """A member of a group."""

    group_id: String
    member_id: String


@struct
class TaskIds(Message):
    """Tasks of one subtopology and, in parallel, the epochs at which they were assigned.

    As in consumer groups, the default is no epochs, not null.
    """

    subtopology_id: String
    partitions: Array[Int32]
    assignment_epochs: Array[Int32] | None = tagged(0, default=(), release="4.2")


@value(StreamsGroupCurrentMemberAssignmentKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The tasks of a member, and those that it must still revoke.

    `state`: 1 stable, 2 unrevoked, 3 unreleased tasks (not as in consumer groups).
    """

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]
    active_tasks_pending_revocation: Array[TaskIds]
    standby_tasks_pending_revocation: Array[TaskIds]
    warmup_tasks_pending_revocation: Array[TaskIds]


@key(23, since="4.1")
class StreamsGroupTopologyKey(Message):
    """The group's id."""

    group_id: String


@struct
class TopicConfig(Message):
    """A config of an internal topic."""

    key: String
    value: String


@struct
class InternalTopic(Message):
    """A changelog or repartition topic. `partitions` 0: as many as the source topics have."""

    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[TopicConfig]


@struct
class CopartitionGroup(Message):
    """Topics that must have equal partition counts, as indexes into the subtopology's lists."""

    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


@struct
class Subtopology(Message):
    """A subtopology, a part of the topology whose tasks run independently."""

    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[InternalTopic]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[InternalTopic]
    copartition_groups: Array[CopartitionGroup]


@value(StreamsGroupTopologyKey, versions=range(0, 1), flexible_since=0)
class StreamsGroupTopologyValue(Message):
    """The topology that the group's members run."""

    epoch: Int32
    subtopologies: Array[Subtopology]
