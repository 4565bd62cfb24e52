"""CreateTopics v2–7.

v4 defaults of the broker (KIP-464), v5 flexible, and the created topics (KIP-525), v6 throttling
(KIP-599), v7 topic ids (KIP-516).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct, tagged
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String, Uuid


@struct
class CreatableReplicaAssignment(Message):
    """The brokers for the replicas of a partition."""

    partition_index: Int32 = field(default=0, map_key=True)
    broker_ids: Array[Int32] = ()


@struct
class CreatableTopicConfig(Message):
    """A config of the topic."""

    name: String = field(default="", map_key=True)
    value: String | None = ""


@struct
class CreatableTopic(Message):
    """A topic to create. -1 partitions or replicas: the broker's default."""

    name: String = field(default="", map_key=True)
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreatableReplicaAssignment] = ()
    configs: Array[CreatableTopicConfig] = ()


@request(api_key=19, versions=range(2, 8), flexible_since=5)
class CreateTopicsRequest(Message):
    """The topics to create."""

    topics: Array[CreatableTopic] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = field(since=1, default=False)


@struct
class CreatableTopicConfigs(Message):
    """A config that the topic has."""

    name: String = field(since=5, default="")
    value: String | None = field(since=5, default="")
    read_only: Bool = field(since=5, default=False)
    config_source: Int8 = field(since=5, default=-1, ignorable=True)
    is_sensitive: Bool = field(since=5, default=False)


@struct
class CreatableTopicResult(Message):
    """The result for one topic."""

    name: String = field(default="", map_key=True)
    topic_id: Uuid = field(since=7, default=Uuid.ZERO, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = field(since=1, default="", ignorable=True)
    topic_config_error_code: Int16 = tagged(0, default=0, since=5, ignorable=True)
    num_partitions: Int32 = field(since=5, default=-1, ignorable=True)
    replication_factor: Int16 = field(since=5, default=-1, ignorable=True)
    configs: Array[CreatableTopicConfigs] | None = field(since=5, default=(), ignorable=True)


@response(CreateTopicsRequest)
class CreateTopicsResponse(Message):
    """The result for each topic."""

    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: Array[CreatableTopicResult] = ()
