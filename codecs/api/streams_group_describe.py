"""StreamsGroupDescribe v0 (KIP-1071)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from quorate.codecs.message import Message, struct
from quorate.codecs.wire import Array, Bool, Int16, Int32, String


@request(api_key=89, versions=range(0, 1), flexible_since=0)
class StreamsGroupDescribeRequest(Message):
    """The groups to describe."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False


@struct
class Subtopology(Message):
    """A subtopology with its topics; regexes are resolved, and partition counts are set."""

    subtopology_id: String = ""
    source_topics: Array[String] = ()
    repartition_sink_topics: Array[String] = ()
    state_changelog_topics: Array[TopicInfo] = ()
    repartition_source_topics: Array[TopicInfo] = ()


@struct
class Topology(Message):
    """The group's topology.

    `subtopologies` is null if the topology cannot be configured: source topics are missing, or
    their partition counts do not match.
    """

    epoch: Int32 = 0
    subtopologies: Array[Subtopology] | None = None


@struct
class Assignment(Message):
    """Tasks assigned to a member, now or in its target assignment."""

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
    """A group, or the error for it.

    `authorized_operations`: one bit per operation, or -2147483648 if not requested.
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
    """The groups in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = ()
