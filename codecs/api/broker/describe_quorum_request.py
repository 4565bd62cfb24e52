"""What DescribeQuorum asks about: apart from its response, whose structs have the same names in Kafka."""

from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int32, String

__all__ = ["PartitionData", "TopicData"]


@struct
class PartitionData(Message):
    """A partition that is asked about."""

    partition_index: Int32 = 0


@struct
class TopicData(Message):
    """Partitions of one topic that are asked about."""

    topic_name: String = ""
    partitions: Array[PartitionData] = ()
