"""DescribeLogDirs v1–5.

KIP-113. v2 flexible, v3 an error for all, v4 sizes of volumes (KIP-827), v5 whether a
directory is cordoned.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, Int64, String


@struct
class DescribableLogDirTopic(Message):
    """Partitions of one topic."""

    topic: String = field(default="", map_key=True)
    partitions: Array[Int32] = ()


@request(api_key=35, versions=range(1, 6), flexible_since=2)
class DescribeLogDirsRequest(Message):
    """A request for log directories. A null list of topics means all."""

    topics: Array[DescribableLogDirTopic] | None = ()


@struct
class DescribeLogDirsPartition(Message):
    """A partition's log."""

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


@struct
class DescribeLogDirsTopic(Message):
    """Logs of one topic."""

    name: String = ""
    partitions: Array[DescribeLogDirsPartition] = ()


@struct
class DescribeLogDirsResult(Message):
    """A log directory."""

    error_code: Int16 = 0
    log_dir: String = ""
    topics: Array[DescribeLogDirsTopic] = ()
    total_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    usable_bytes: Int64 = field(since=4, default=-1, ignorable=True)
    is_cordoned: Bool = field(since=5, default=False, ignorable=True)


@response(DescribeLogDirsRequest)
class DescribeLogDirsResponse(Message):
    """The log directories and the logs in them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=3, default=0, ignorable=True)
    results: Array[DescribeLogDirsResult] = ()
