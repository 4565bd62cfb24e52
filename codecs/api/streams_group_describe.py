"""StreamsGroupDescribe v0 (KIP-1071)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String


@request(api_key=89, versions=range(0, 1), flexible_since=0)
class StreamsGroupDescribeRequest(Message):
    """Which groups to describe."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


@struct
class Subtopology(Message):
    """A part of the topology that runs on its own, with patterns resolved to topics and partitions counted."""

    subtopology_id: String = ""
    source_topics: Array[String] = ()
    repartition_sink_topics: Array[String] = ()
    state_changelog_topics: Array[TopicInfo] = ()
    repartition_source_topics: Array[TopicInfo] = ()


@struct
class Topology(Message):
    """The group's topology.

    No subtopologies (null): it cannot be configured, for lack of source topics or because of their
    partitions.
    """

    epoch: Int32 = 0
    subtopologies: Array[Subtopology] | None = None


@struct
class Assignment(Message):
    """Tasks that a member has or shall have."""

    active_tasks: Array[TaskIds] = ()
    standby_tasks: Array[TaskIds] = ()
    warmup_tasks: Array[TaskIds] = ()


@struct
class Member(Message):
    """A member."""

    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue] = ()
    task_offsets: Array[TaskOffset] = ()
    task_end_offsets: Array[TaskOffset] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: Bool = False


@struct
class DescribedGroup(Message):
    """A group, or why it is not described.

    `authorized_operations`: a bit for each, or -2147483648 if it was not asked for.
    """

    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: Array[Member] = ()
    authorized_operations: Int32 = -2147483648


@response(StreamsGroupDescribeRequest)
class StreamsGroupDescribeResponse(Message):
    """The groups in the order in which they were asked for."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = ()
