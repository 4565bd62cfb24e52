"""The op `streamsAssign`: the task assignor of streams groups."""

from quorate.assignors.java_order import JavaHashMap, TimelineMap, copied_map_capacity
from quorate.assignors.streams import (
    StickyTaskAssignor,
    StreamsAssignmentConfigs,
    StreamsMemberSpec,
    StreamsSubtopology,
    TaskOffsets,
    Tasks,
)
from tests.differential.ops import OPS, Json, need, op

__all__ = ["OPS"]

JDK = 17
"""The oracle's Java version."""


@op("streamsAssign")
def streams_assign(request: Json) -> Json:
    members: TimelineMap[str, StreamsMemberSpec] = TimelineMap()
    for member_id, member in need(request, "members").items():
        members[member_id] = _member(member)
    assignment = StickyTaskAssignor().assign(
        dict(members.ordered()),
        StreamsAssignmentConfigs(num_standby_replicas=request.get("numStandbyReplicas", 0)),
        [
            StreamsSubtopology(
                subtopology_id=one["id"],
                max_num_input_partitions=one["partitions"],
                is_stateful=one.get("stateful", False),
            )
            for one in need(request, "subtopologies")
        ],
    )
    written = [
        [member_id, {"active": _written(tasks.active_tasks), "standby": _written(tasks.standby_tasks)}]
        for member_id, tasks in assignment.items()
    ]
    return {"assignment": dict(written)}


def _member(member: Json) -> StreamsMemberSpec:
    return StreamsMemberSpec(
        process_id=need(member, "processId"),
        instance_id=member.get("instanceId"),
        rack_id=member.get("rackId"),
        active_tasks=_tasks(member.get("activeTasks", {})),
        standby_tasks=_tasks(member.get("standbyTasks", {})),
        warmup_tasks=_tasks(member.get("warmupTasks", {})),
        task_offsets=_offsets(member.get("taskOffsets", {})),
    )


def _tasks(tasks: Json) -> Tasks:
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items()}


def _offsets(offsets: Json) -> TaskOffsets:
    return {
        subtopology: {int(partition): offset for partition, offset in partitions.items()}
        for subtopology, partitions in offsets.items()
    }


def _written(tasks: Tasks) -> Json:
    """Return tasks in the order of Kafka's map, which is filled from a map of computed entries."""
    computed: JavaHashMap[str, None] = JavaHashMap()
    for subtopology in tasks:
        computed.compute_if_absent(subtopology, lambda: None)
    copied: JavaHashMap[str, None] = JavaHashMap(copied_map_capacity(len(tasks), JDK))
    for subtopology in computed:
        copied.put(subtopology, None)
    return {subtopology: sorted(tasks[subtopology]) for subtopology in copied}
