"""Reassign replicas and elect leaders.

AlterPartitionReassignments v0–1, ListPartitionReassignments v0 (KIP-455), ElectLeaders v0–2
(KIP-183, KIP-460). Replicas share a log here, so that a reassignment is complete with its response.
"""

from functools import partial
from typing import TYPE_CHECKING

from quorate.cluster.apis import Context, changes_metadata
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import PartitionState, wake
from quorate.cluster.turns import Work, map_in_turns
from quorate.codecs.api.broker import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.codecs.api.broker.alter_partition_reassignments import (
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from quorate.codecs.api.broker.elect_leaders import PartitionResult, ReplicaElectionResult
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__: list[str] = []

_ELECTIONS = (0, 1)
"""Preferred and unclean."""


@changes_metadata
def alter_partition_reassignments(
    broker: "Broker", request: AlterPartitionReassignmentsRequest, context: Context
) -> Work[AlterPartitionReassignmentsResponse]:
    """Assign the requested replicas to each partition."""
    topics = []
    may_resize = request.allow_replication_factor_change
    for topic in request.topics:
        partitions = yield from map_in_turns(topic.partitions, partial(_reassigned, broker, topic.name, may_resize))
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield None
    return AlterPartitionReassignmentsResponse(
        error_message=None if request.topics else "",
        allow_replication_factor_change=may_resize or not request.topics,
        responses=tuple(topics),
    )


def _reassigned(
    broker: "Broker", topic: str, may_resize: bool, requested: ReassignablePartition
) -> ReassignablePartitionResponse:
    partition = broker.cluster.state.partition(topic, requested.partition_index)
    error, message = ErrorCode.NONE, None
    try:
        if partition is None:
            missing = f"partition {topic}:{requested.partition_index}"
            if topic not in broker.cluster.topics:
                missing = f"a topic named {topic}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {missing}.")
        if requested.replicas is not None:
            broker.cluster.topic_control.check_assignment(requested.replicas)
            before, after = len(partition.replicas), len(requested.replicas)
            if not may_resize and after != before:
                problem = f"The replication factor is changed from {before} to {after}"
                raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
        broker.cluster.partition_control.reassign(partition, requested.replicas)
    except ApiError as refusal:
        error, message = refusal.code, refusal.message
    return ReassignablePartitionResponse(
        partition_index=requested.partition_index, error_code=error, error_message=message
    )


def list_partition_reassignments(
    broker: "Broker", request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Return no reassignments: none is ever in progress."""
    return ListPartitionReassignmentsResponse(error_message=None)


@changes_metadata
def elect_leaders(broker: "Broker", request: ElectLeadersRequest, context: Context) -> Work[ElectLeadersResponse]:
    """Elect preferred leaders.

    An unclean election changes nothing, because replicas share a log.
    """
    cluster = broker.cluster
    if request.topic_partitions == ():
        return ElectLeadersResponse()  # for any election type: brokers check nothing else
    if request.election_type not in _ELECTIONS:
        code = ErrorCode.INVALID_REQUEST
        refused = []
        for topic_partition in request.topic_partitions or ():
            named = yield from map_in_turns(
                topic_partition.partitions, lambda index: PartitionResult(partition_id=index, error_code=code)
            )
            refused.append(ReplicaElectionResult(topic=topic_partition.topic, partition_result=named))
            yield None
        return ElectLeadersResponse(error_code=code, replica_election_results=tuple(refused))
    chosen, batch, elected = yield from cluster.controller.preparing(partial(_electing, cluster, request))
    yield from cluster.controller.committing(batch)
    for partition in elected:
        wake(partition)
        yield None
    return ElectLeadersResponse(replica_election_results=tuple(chosen))


def _electing(
    cluster: "SharedCluster", request: ElectLeadersRequest
) -> Work[tuple[list[ReplicaElectionResult], MetadataBatch, list[PartitionState]]]:
    """Return the results, the records, and the partitions with new leaders."""
    everything = request.topic_partitions is None
    wanted = (
        {name: range(len(topic.partitions)) for name, topic in cluster.topics.items()}
        if request.topic_partitions is None
        else {topic_partition.topic: topic_partition.partitions for topic_partition in request.topic_partitions}
    )
    results = []
    batch = yield from cluster.controller.encoding(())
    elected: dict[int, PartitionState] = {}  # by identity
    for topic, indexes in wanted.items():
        parts = []
        for index in indexes:
            yield None
            partition = cluster.state.partition(topic, index)
            error, message = ErrorCode.NONE, None
            try:
                if partition is None:
                    missing = f"partition as {topic}-{index}" if topic in cluster.topics else f"topic as {topic}"
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {missing}")
                record = None if request.election_type == 1 else cluster.partition_control.preferred_leader(partition)
                if record is None or id(partition) in elected:
                    error = ErrorCode.ELECTION_NOT_NEEDED
                    message = error.text
                else:
                    batch.add(record)
                    elected[id(partition)] = partition
            except ApiError as refusal:
                error, message = refusal.code, refusal.message
            if not (everything and error is ErrorCode.ELECTION_NOT_NEEDED):
                parts.append(PartitionResult(partition_id=index, error_code=error, error_message=message))
        results.append(ReplicaElectionResult(topic=topic, partition_result=tuple(parts)))
        yield None
    return results, batch, list(elected.values())
