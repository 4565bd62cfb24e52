"""Responses to heartbeats of streams members: tasks, endpoint information, and statuses."""

from collections.abc import Iterable, Iterator, Mapping

from quorate.assignors.java_order import JavaHashMap
from quorate.codecs.api.streams_group_heartbeat import Endpoint, EndpointToPartitions, Status, TaskIds
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember
from quorate.coordinator.state.streams_tasks import AssignedTasks, Tasks
from quorate.coordinator.streams.checks import check_has_epoch
from quorate.coordinator.streams.endpoints import endpoint_to_partitions
from quorate.coordinator.streams.reconcile import hash_order
from quorate.coordinator.streams.statuses import StreamsStatus
from quorate.coordinator.streams.topology import ConfiguredTopology, InternalTopologyError


def task_ids(tasks: Mapping[str, Iterable[int]]) -> tuple[TaskIds, ...]:
    """Return tasks in the order of Kafka's map."""
    return tuple(TaskIds(subtopology_id=one, partitions=tuple(sorted(tasks[one]))) for one in hash_order(tasks))


def endpoint_information(
    group: StreamsGroup,
    member: StreamsMember,
    replaced: StreamsMember | None,
    configured: ConfiguredTopology | None,
    image: MetadataImage,
) -> tuple[EndpointToPartitions, ...]:
    """Return the partitions that can be queried at the members' endpoints, this member's last.

    `replaced`: the static member that it replaces. Raises `ApiError` UNKNOWN_SERVER_ERROR if a
    topic is missing, as Kafka does.
    """
    others = [
        other
        for member_id, other in group.members.ordered()
        if member_id != member.member_id and (replaced is None or member_id != replaced.member_id)
    ]
    return tuple(
        found for one in (*others, member) if (found := _information(group, one, configured, image)) is not None
    )


def _information(
    group: StreamsGroup, member: StreamsMember, configured: ConfiguredTopology | None, image: MetadataImage
) -> EndpointToPartitions | None:
    endpoint = None if member.metadata is None else member.metadata.user_endpoint
    if endpoint is None:
        return None
    found = group.endpoints.get(member.member_id)
    if found is not None:
        return found
    check_has_epoch(member)
    tasks = member.assigned
    if configured is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id} has no configured topology")
    try:
        found = endpoint_to_partitions(
            Endpoint(host=endpoint.host, port=endpoint.port),
            {one: frozenset(tasks.active[one]) for one in hash_order(tasks.active)},
            _replicas(tasks),
            configured,
            image,
        )
    except InternalTopologyError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    group.endpoints[member.member_id] = found
    return found


def _replicas(tasks: AssignedTasks) -> Tasks:
    """Return standby and warm-up tasks, in the order of Kafka's map of both."""
    both: JavaHashMap[str, set[int]] = JavaHashMap()
    for one in hash_order(tasks.standby):
        both.put(one, set(tasks.standby[one]))
    for one in hash_order(tasks.warmup):
        both.compute_if_absent(one, set).update(tasks.warmup[one])
    return {one: frozenset(partitions) for one, partitions in both.items()}


def status(code: StreamsStatus, detail: str) -> Status:
    """Return a status for the member."""
    return Status(status_code=code, status_detail=detail)


def stale_topology(group: StreamsGroup, topology_epoch: int) -> Iterator[Status]:
    """Yield a status if the member's topology is older than the group's."""
    if group.topology is not None and topology_epoch < group.topology.epoch:
        yield status(
            StreamsStatus.STALE_TOPOLOGY,
            # plain: Kafka's text
            f"The member's topology epoch {topology_epoch} is behind the group's topology epoch "
            f"{group.topology.epoch}.",
        )


def topic_problem(configured: ConfiguredTopology) -> Iterator[Status]:
    """Yield a status if topics are missing, or have wrong partition counts."""
    error = configured.topic_configuration_error
    if error is not None:
        yield status(error.status, str(error))


def shutdown(group: StreamsGroup) -> Iterator[Status]:
    """Yield a status if a member shut down the application."""
    if group.shutdown_member_id is not None:
        yield status(
            StreamsStatus.SHUTDOWN_APPLICATION,
            f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown for "
            "the entire application.",
        )


def missing_tags(member: StreamsMember, required: Iterable[str]) -> Iterator[Status]:
    """Yield a status if the member lacks client tags that the assignment needs."""
    known = () if member.metadata is None else {tag.key for tag in member.metadata.client_tags}
    missing = [tag for tag in required if tag not in known]
    if missing:
        yield status(
            StreamsStatus.MISSING_CLIENT_TAGS,
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
            "Configure them via 'client.tag.<tagKey>' in your Streams config.",
        )
