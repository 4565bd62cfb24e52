"""ListPartitionReassignments v0. KIP-455."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Int16, Int32, String


@struct
class ListPartitionReassignmentsTopics(Message):
    """Partitions of one topic."""

    name: String = ""
    partition_indexes: Array[Int32] = ()


@request(api_key=46, versions=range(0, 1), flexible_since=0)
class ListPartitionReassignmentsRequest(Message):
    """A request for ongoing reassignments. A null list of topics means all."""

    timeout_ms: Int32 = 60000
    topics: Array[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment(Message):
    """A partition whose replicas are changing."""

    partition_index: Int32 = 0
    replicas: Array[Int32] = ()
    adding_replicas: Array[Int32] = ()
    removing_replicas: Array[Int32] = ()


@struct
class OngoingTopicReassignment(Message):
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[OngoingPartitionReassignment] = ()


@response(ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse(Message):
    """The ongoing reassignments."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Array[OngoingTopicReassignment] = ()
