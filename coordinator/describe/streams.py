"""StreamsGroupDescribe v0–1 (KIP-1071).

A broker describes the topology with partition counts once a member has sent it a heartbeat; here
they are computed per request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from quorate.assignors.java_order import JavaHashMap, in_java_order, string_key
from quorate.codecs.api import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from quorate.codecs.api.streams_group_describe import Assignment, DescribedGroup, Member, Subtopology, Topology
from quorate.codecs.api.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TopicInfo
from quorate.codecs.messages import streams_group as stored
from quorate.coordinator.describe.common import describe_each, fail_each
from quorate.coordinator.describe.topology import TopologyProblem, internal_topics
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember

__all__ = ["described", "streams_group_describe", "streams_group_describe_failed"]


def streams_group_describe(
    shard: CoordinatorShard, request: StreamsGroupDescribeRequest, context: RequestContext
) -> Result[StreamsGroupDescribeResponse]:
    """Describe streams groups. Groups of other types are unknown."""
    groups = describe_each(shard, request.group_ids, StreamsGroup, described, DescribedGroup)
    if request.include_topology_description:
        # Without a plug-in of the broker (KIP-1331) none is stored.
        groups = tuple(
            one if one.error_code else replace(one, topology_description_status=_NOT_STORED) for one in groups
        )
    return Result(response=StreamsGroupDescribeResponse(groups=groups))


streams_group_describe_failed = fail_each(StreamsGroupDescribeResponse, DescribedGroup)


def described(shard: CoordinatorShard, group: StreamsGroup) -> DescribedGroup:
    """Return the description of a group."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology, shard.image),
        members=tuple(_member(group, member) for _, member in group.members.ordered()),
        assignor_name=_ASSIGNOR,
    )


_NOT_STORED = 1
_ASSIGNOR = "sticky"
"""Kafka's only task assignor."""


def _topology(topology: stored.StreamsGroupTopologyValue, image: MetadataImage) -> Topology:
    """Return the topology with partition counts; without them while it cannot run."""
    counts: Mapping[str, int] | None
    try:
        counts = internal_topics(topology, image)
    except TopologyProblem:
        counts = None
    return Topology(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=_sorted(subtopology.source_topics),
                repartition_sink_topics=_sorted(subtopology.repartition_sink_topics),
                state_changelog_topics=_topics(subtopology.state_changelog_topics, counts),
                repartition_source_topics=_topics(subtopology.repartition_source_topics, counts),
            )
            for subtopology in sorted(
                topology.subtopologies, key=lambda subtopology: string_key(subtopology.subtopology_id)
            )
        ),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(in_java_order(names))


def _topics(topics: Iterable[stored.InternalTopic], counts: Mapping[str, int] | None) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions if counts is None else counts[topic.name],
            replication_factor=topic.replication_factor,
            topic_configs=_configs(topic, in_map=counts is not None),
        )
        for topic in sorted(topics, key=lambda topic: string_key(topic.name))
    )


def _configs(topic: stored.InternalTopic, *, in_map: bool) -> tuple[KeyValue, ...]:
    configs = [(topic_config.key, topic_config.value) for topic_config in topic.topic_configs]
    if in_map:
        configs = list(_map(configs).items())
    return tuple(KeyValue(key=key, value=value) for key, value in configs)


def _map(pairs: Iterable[tuple[str, str]]) -> JavaHashMap[str, str]:
    made: JavaHashMap[str, str] = JavaHashMap()
    for key, value in pairs:
        made.put(key, value)
    return made


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    metadata, current = member.metadata, member.current
    target = group.targets.get(member.member_id)
    current_tasks, target_tasks = _assignment(current), _assignment(target)
    if metadata is None:
        return Member(
            member_id=member.member_id,
            member_epoch=member.epoch,
            assignment=current_tasks,
            target_assignment=target_tasks,
        )
    endpoint = metadata.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=tuple(
            KeyValue(key=key, value=value)
            for key, value in _map((client_tag.key, client_tag.value) for client_tag in metadata.client_tags).items()
        ),
        assignment=current_tasks,
        target_assignment=target_tasks,
    )


def _assignment(
    tasks: stored.StreamsGroupCurrentMemberAssignmentValue | stored.StreamsGroupTargetAssignmentMemberValue | None,
) -> Assignment:
    if tasks is None:
        return Assignment()
    return Assignment(
        active_tasks=_tasks(tasks.active_tasks),
        standby_tasks=_tasks(tasks.standby_tasks),
        warmup_tasks=_tasks(tasks.warmup_tasks),
    )


def _tasks(tasks: Iterable[stored.TaskIds | stored.TargetTaskIds]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=task.subtopology_id, partitions=tuple(sorted(task.partitions)))
        for task in sorted(tasks, key=lambda task: string_key(task.subtopology_id))
    )
