"""StreamsGroupHeartbeat v0–1 (KIP-1071).

v1 topology descriptions (KIP-1331), and a status for missing client tags (KAFKA-20744).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, Int64, String, UInt16


@struct
class KeyValue(Message):
    """A config of a topic, or a client tag."""

    key: String = ""
    value: String = ""


@struct
class TopicInfo(Message):
    """A changelog or repartition topic.

    0 partitions mean as many as the source topics have; replication factor 0 means the default of
    the cluster.
    """

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Array[KeyValue] = ()


@struct
class CopartitionGroup(Message):
    """Topics that must have equal partition counts, as indexes into the subtopology's lists."""

    source_topics: Array[Int16] = ()
    source_topic_regex: Array[Int16] = ()
    repartition_source_topics: Array[Int16] = ()


@struct
class Subtopology(Message):
    """A subtopology, a part of the topology whose tasks run independently."""

    subtopology_id: String = ""
    source_topics: Array[String] = ()
    source_topic_regex: Array[String] = ()
    state_changelog_topics: Array[TopicInfo] = ()
    repartition_sink_topics: Array[String] = ()
    repartition_source_topics: Array[TopicInfo] = ()
    copartition_groups: Array[CopartitionGroup] = ()


@struct
class Topology(Message):
    """The topology of the application."""

    epoch: Int32 = 0
    subtopologies: Array[Subtopology] = ()


@struct
class TaskIds(Message):
    """Tasks of one subtopology."""

    subtopology_id: String = ""
    partitions: Array[Int32] = ()


@struct
class TaskOffset(Message):
    """The sum of a task's offsets, or end offsets, in its changelogs."""

    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@struct
class Endpoint(Message):
    """The address at which a member serves interactive queries."""

    host: String = ""
    port: UInt16 = 0


@request(api_key=88, versions=range(0, 2), flexible_since=0)
class StreamsGroupHeartbeatRequest(Message):
    """A member's heartbeat, with what changed since the last one.

    Null, and a timeout of -1, mean "unchanged". `member_epoch`: 0 joins (with the topology), -1
    leaves, -2 is a static member that leaves temporarily.
    """

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: Array[TaskIds] | None = None
    standby_tasks: Array[TaskIds] | None = None
    warmup_tasks: Array[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue] | None = None
    task_offsets: Array[TaskOffset] | None = None
    task_end_offsets: Array[TaskOffset] | None = None
    shutdown_application: Bool = False


@struct
class Status(Message):
    """A status of the group for its members.

    `status_code`: 0 stale topology, 1 missing source topics, 2 incorrectly partitioned topics, 3
    missing internal topics, 4 shut down the application, 5 assignment delayed, 6 missing client
    tags.
    """

    status_code: Int8 = 0
    status_detail: String = ""


@struct
class TopicPartition(Message):
    """Partitions of one topic."""

    topic: String = ""
    partitions: Array[Int32] = ()


@struct
class EndpointToPartitions(Message):
    """The partitions that can be queried at an endpoint."""

    user_endpoint: Endpoint = field(default=Endpoint)
    active_partitions: Array[TopicPartition] = ()
    standby_partitions: Array[TopicPartition] = ()


@response(StreamsGroupHeartbeatRequest)
class StreamsGroupHeartbeatResponse(Message):
    """The member's epoch, and its tasks if they changed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Int32 = field(until=0, default=0)
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int64 = field(since=1, default=-1, ignorable=True)
    status: Array[Status] | None = ()
    active_tasks: Array[TaskIds] | None = None
    standby_tasks: Array[TaskIds] | None = None
    warmup_tasks: Array[TaskIds] | None = None
    topology_description_required: Bool = field(since=1, default=False)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Array[EndpointToPartitions] | None = None
