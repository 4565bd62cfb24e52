"""AlterReplicaLogDirs v1–2. KIP-113. v2 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@struct
class AlterReplicaLogDirTopic(Message):
    """A topic with the partitions that move."""

    name: String = field(default="", map_key=True)
    partitions: Array[Int32] = ()


@struct
class AlterReplicaLogDir(Message):
    """A log directory of the broker, by its absolute path, and the replicas to move there."""

    path: String = field(default="", map_key=True)
    topics: Array[AlterReplicaLogDirTopic] = ()


@request(api_key=34, versions=range(1, 3), flexible_since=2)
class AlterReplicaLogDirsRequest(Message):
    """Move replicas between the log directories of one broker."""

    dirs: Array[AlterReplicaLogDir] = ()


@struct
class AlterReplicaLogDirPartitionResult(Message):
    """The result for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult(Message):
    """The results for a topic."""

    topic_name: String = ""
    partitions: Array[AlterReplicaLogDirPartitionResult] = ()


@response(AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Message):
    """One result for each partition."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult] = ()
