"""StreamsGroupDescribe v0–1 (KIP-1071). v1 topology descriptions (KIP-1331), and the assignor."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from quorate.codecs.api.streams_group_topology_description_update import TopologyDescription
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String


@request(api_key=89, versions=range(0, 2), flexible_since=0)
class StreamsGroupDescribeRequest(Message):
    """The groups to describe."""

    group_ids: Array[String] = ()
    include_authorized_operations: Bool = False
    include_topology_description: Bool = field(since=1, default=False)


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
    assignment: Assignment = field(default=Assignment)
    target_assignment: Assignment = field(default=Assignment)
    is_classic: Bool = False


@struct
class DescribedGroup(Message):
    """A group, or the error for it.

    `authorized_operations`: one bit per operation, or -2147483648 if not requested.
    `topology_description_status`: 0 not requested, 1 not stored, 2 error, 3 available.
    `assignor_name`: the assignor of the next assignment.
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
    topology_description: TopologyDescription | None = field(since=1, default=None)
    topology_description_status: Int8 = field(since=1, default=0)
    assignor_name: String | None = field(since=1, default=None, ignorable=True)


@response(StreamsGroupDescribeRequest)
class StreamsGroupDescribeResponse(Message):
    """The groups in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = ()
