"""Structs of DescribeQuorumRequest; those of the response have the same names in Kafka."""

from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int32, String


@struct
class PartitionData(Message):
    """A partition in the request."""

    partition_index: Int32 = 0


@struct
class TopicData(Message):
    """Partitions of one topic in the request."""

    topic_name: String = ""
    partitions: Array[PartitionData] = ()
