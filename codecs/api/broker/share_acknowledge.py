"""ShareAcknowledge v1–2 (KIP-932): a member of a share group acknowledges records.

v2 has renewed acquisition locks (KIP-1222). v0 was in Kafka 4.0 only, as early access.
"""

from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String, Uuid


@struct
class AcknowledgePartition(Message):
    """A partition, and the acknowledgements of its records."""

    partition_index: Int32 = field(default=0, map_key=True)
    acknowledgement_batches: Array[AcknowledgementBatch] = ()


@struct
class AcknowledgeTopic(Message):
    """Partitions of one topic."""

    topic_id: Uuid = field(default=Uuid.ZERO, map_key=True)
    partitions: Array[AcknowledgePartition] = ()


@request(api_key=79, versions=range(1, 3), flexible_since=0)
class ShareAcknowledgeRequest(Message):
    """Acknowledgements of a share session. `share_session_epoch` -1 closes the session."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = field(since=2, default=False)
    topics: Array[AcknowledgeTopic] = ()


@struct
class PartitionData(Message):
    """The result for a partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse(Message):
    """The results for the partitions of a topic."""

    topic_id: Uuid = field(default=Uuid.ZERO, map_key=True)
    partitions: Array[PartitionData] = ()


@response(ShareAcknowledgeRequest)
class ShareAcknowledgeResponse(Message):
    """The result of each partition, and for how long renewed records are locked."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0, ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse] = ()
    node_endpoints: Array[NodeEndpoint] = ()
