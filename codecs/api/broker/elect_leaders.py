"""ElectLeaders v0–2. KIP-183. v1 unclean elections (KIP-460), v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@struct
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[Int32] = ()


@request(api_key=43, versions=range(0, 3), flexible_since=2)
class ElectLeadersRequest(Message):
    """Partitions to elect the preferred leader for (`election_type` 0), or any leader (1).

    A null list means all.
    """

    election_type: Int8 = field(since=1, default=0)
    topic_partitions: Array[TopicPartitions] | None = ()
    timeout_ms: Int32 = 60000


@struct
class PartitionResult(Message):
    """The result for one partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@struct
class ReplicaElectionResult(Message):
    """The results for the partitions of one topic."""

    topic: String = ""
    partition_result: Array[PartitionResult] = ()


@response(ElectLeadersRequest)
class ElectLeadersResponse(Message):
    """The result for each election."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=1, default=0)
    replica_election_results: Array[ReplicaElectionResult] = ()
