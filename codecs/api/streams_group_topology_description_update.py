"""StreamsGroupTopologyDescriptionUpdate v0 (KIP-1331)."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Int8, Int16, Int32, String


@struct
class TopologyDescriptionNode(Message):
    """A node of the processing graph. `node_type`: 1 source, 2 processor, 3 sink."""

    name: String = ""
    node_type: Int8 = 0
    source_topics: Array[String] = ()
    sink_topic: String | None = None
    stores: Array[String] = ()
    successors: Array[String] = ()


@struct
class TopologyDescriptionSubtopology(Message):
    """A subtopology with its nodes."""

    subtopology_id: String = ""
    nodes: Array[TopologyDescriptionNode] = ()


@struct
class TopologyDescriptionGlobalStore(Message):
    """A global state store: its source node, and the processor that fills it."""

    source: TopologyDescriptionNode = field(default=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = field(default=TopologyDescriptionNode)


@struct
class TopologyDescription(Message):
    """The processing graph of an application."""

    subtopologies: Array[TopologyDescriptionSubtopology] = ()
    global_stores: Array[TopologyDescriptionGlobalStore] = ()


@request(api_key=93, versions=range(0, 1), flexible_since=0)
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    """The description of a group's topology, for the broker's plug-in that stores it."""

    group_id: String = ""
    member_id: String = ""
    topology_epoch: Int32 = 0
    topology_description: TopologyDescription = field(default=TopologyDescription)


@response(StreamsGroupTopologyDescriptionUpdateRequest)
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    """Whether it was stored."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
