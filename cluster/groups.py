"""The group coordinators of a cluster, one for each partition of `__consumer_offsets`.

A coordinator runs on the broker that leads the partition, and uses its log. It appends real batches
to a real topic. When the leader changes, the coordinator on the new leader loads the log, as in
Kafka.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from quorate.cluster.access import AccessContext
from quorate.cluster.authorizer import Authorizer, Operation
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.coordinators import TopicHost
from quorate.cluster.group_configs import GroupConfigs
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import Work
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeShareGroupOffsetsRequest,
    HeartbeatRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    api_of,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.config import GROUP_CONFIGS, group_configs
from quorate.coordinator.consumer import checks as consumer_checks
from quorate.coordinator.errors import ApiError
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.log import AppendError
from quorate.coordinator.offsets.commit import PreparedCommit, prepare_commit
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.runtime import Coordinator, CoordinatorRuntime
from quorate.coordinator.share import checks as share_checks
from quorate.coordinator.share_state.persister import Persister

log = logging.getLogger(__name__)

_SEVERAL_GROUPS: dict[type[Message], tuple[str, str, Callable[[Any], str]]] = {
    DescribeGroupsRequest: ("groups", "groups", str),
    DeleteGroupsRequest: ("groups_names", "results", str),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", str),
    ShareGroupDescribeRequest: ("group_ids", "groups", str),
    StreamsGroupDescribeRequest: ("group_ids", "groups", str),
    OffsetFetchRequest: ("groups", "groups", lambda group: str(group.group_id)),
    DescribeShareGroupOffsetsRequest: ("groups", "groups", lambda group: str(group.group_id)),
}
"""Requests about several groups → the request's field with the groups, the response's field, and a
function that returns a group's id.
"""

_IN_THE_ORDER_OF_REQUESTS = (OffsetFetchRequest, DescribeShareGroupOffsetsRequest)
"""Brokers request each of these groups for itself, others by coordinator."""

_NAMES_PER_TURN = 2_000
"""Topic names of a subscription that are checked in one turn."""

_GROUPS_PER_TURN = 200
"""Groups of a request that a coordinator handles in one turn."""


class GroupCoordinators:
    """All group coordinators of a cluster. `configs`: group id → dynamic configs."""

    def __init__(
        self,
        services: Services,
        authorizer: Authorizer | None,
        persister: Persister,
        group_configs: GroupConfigs,
    ) -> None:
        self.configs: dict[str, Mapping[str, Any]] = {}
        self._group_configs = group_configs
        self._broker_configs = services.broker_configs
        self._state = services.state
        self._new_id = services.new_id
        self._reports = services.reports
        self._authorizer = authorizer
        self._persister = persister
        self._host = TopicHost(services, CONSUMER_OFFSETS, "groups", self._new_shard)
        self.runtime: CoordinatorRuntime[PartitionState, GroupCoordinatorShard] = CoordinatorRuntime(self._host)
        self._no_coordinator = GroupCoordinatorShard(self._broker_configs.coordinator, new_id=self._new_id)

    def _new_shard(self, partition: PartitionState) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(
            self._broker_configs.coordinator,
            image=self._state.image,
            new_id=self._new_id,
            may_describe=None if self._authorizer is None else self._describable,
            log_offsets=self._log_offsets,
            on_fault=partial(self._fault, partition),
            persister=self._persister,
            wake=partial(self._wake, partition),
        )
        shard.group_configs = self.configs
        return shard

    def _wake(self, partition: PartitionState) -> None:
        """Run the tasks of a partition's coordinator, after a response of a share coordinator."""
        running = self.runtime.at(partition) if self._state.has(partition) else None
        if running is not None and not running.is_loading:
            self.runtime.run(running, lambda runtime: runtime.settle())

    def _describable(self, context: RequestContext, topics: frozenset[str]) -> frozenset[str]:
        """Return the topics that a client may describe, of those that a regex matches."""
        access = context.access if isinstance(context, AccessContext) else None
        return topics if access is None else access.topics(Operation.DESCRIBE, topics)

    def _fault(self, partition: PartitionState, text: str) -> None:
        """Report a fault of an assignor in the log of the group's broker."""
        self._reports.note(f"broker {partition.leader}: {text}")
        if not self._reports.has_listener:  # it matters to the author of the assignor
            log.error("%s", text)

    def _log_offsets(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the log start offset and the high watermark of a partition."""
        found = self._state.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        log = found.partitions[partition].log
        return log.start_offset, log.high_watermark

    # ---- coordinators

    def partition_for(self, group_id: str) -> PartitionState | None:
        """Return the partition of a group; `None` while `__consumer_offsets` does not exist."""
        return self._host.partition_for(group_id)

    def _of(self, partition: PartitionState | None, broker: int) -> Coordinator[GroupCoordinatorShard] | ErrorCode:
        """Return the coordinator of a partition, or why this broker has none that is ready."""
        running = None if partition is None or partition.leader != broker else self.runtime.at(partition)
        if running is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if running.is_loading else running

    def broker_configs_changed(self) -> None:
        """Pass changed configs of brokers to the coordinators."""
        for shard in self.runtime.shards():
            shard.config = self._broker_configs.coordinator

    def config_changed(self, group: str) -> None:
        """Apply changed configs of a group."""
        configs = self._group_configs.of(group)
        followed = {name: value for name, value in configs.items() if name in GROUP_CONFIGS}
        if followed:
            self.configs[group] = group_configs(followed)
        else:
            self.configs.pop(group, None)

    def streams_heartbeat_interval_ms(self, group: str) -> int:
        """Return the heartbeat interval of a streams group."""
        name = "group_streams_heartbeat_interval_ms"
        default: int = getattr(self._broker_configs.coordinator, name)
        interval_ms: int = self.configs.get(group, {}).get(name, default)
        return interval_ms

    def runtimes(self) -> dict[int, PartitionRuntime[GroupCoordinatorShard]]:
        """Return the coordinators that have loaded their log, by partition."""
        return {one.partition.index: one.runtime for one in self.runtime}

    # ---- requests

    def request(self, broker: int, group_id: str, request: Message, context: RequestContext) -> Message | Pending[Any]:
        """Handle a request about one group."""
        if not group_id and _requires_group_id(request):
            return self._no_coordinator.failed(request, context, ErrorCode.INVALID_GROUP_ID, "")
        partition = self._host.partition_for(group_id)
        running = None if partition is None or partition.leader != broker else self.runtime.at(partition)
        if running is not None and running.steps is None:
            return self.runtime.request(running, request, context)
        try:
            self._check_heartbeat(request, context.api_version)
        except ApiError as error:
            return self._no_coordinator.failed(request, context, error.code, error.message or "")
        code = ErrorCode.NOT_COORDINATOR if running is None else self._while_loading(request)
        return self._no_coordinator.failed(request, context, code, "")

    def _check_heartbeat(self, request: Message, version: int) -> None:
        """Check what needs no group, before the missing coordinator is reported. Raises `ApiError`.

        A coordinator that is ready checks it itself.
        """
        if not self._broker_configs.behaviour.heartbeats_checked_first:
            return
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            consumer_checks.check_request(self._broker_configs.coordinator, request, version)
        elif isinstance(request, ShareGroupHeartbeatRequest):
            share_checks.check_request(request)

    def _while_loading(self, request: Message) -> ErrorCode:
        """Return the error while the coordinator is loading.

        As in Kafka, heartbeats of classic members succeed, so that they stay in their groups.
        Before 4.0 members that wait for an assignment join again.
        """
        if isinstance(request, HeartbeatRequest):
            return ErrorCode.NONE
        if isinstance(request, SyncGroupRequest) and not self._broker_configs.coordinator.behaviour.new_coordinator:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def bounded(self, group_id: str, names: Sequence[str]) -> Work[tuple[str, ...]]:
        """Return the distinct names of a subscription, cut off once they exceed any record's size.

        The response is the same as for the whole subscription.
        """
        partition = self.partition_for(group_id)
        max_bytes = 0 if partition is None else partition.log.config.max_message_bytes
        found: dict[str, None] = {}
        size = 0
        for first in range(0, len(names), _NAMES_PER_TURN):
            some = dict.fromkeys(name for name in names[first : first + _NAMES_PER_TURN] if name not in found)
            size += sum(map(len, some)) + len(some)  # a lower bound of the size in UTF-8, with length prefixes
            found.update(some)
            if size > max_bytes:
                break
            yield None
        return tuple(found)

    def prepare_commit(
        self, request: OffsetCommitRequest | TxnOffsetCommitRequest, context: RequestContext
    ) -> Work[PreparedCommit]:
        """Compute what a large commit writes, before its coordinator decides on it at once."""
        return prepare_commit(self._broker_configs.coordinator, self._state.image, request, context)

    def request_many(self, broker: int, request: Message, context: RequestContext) -> Work[Message]:
        """Handle a request about several groups, each by its coordinator."""
        request_field, response_field, id_of = _SEVERAL_GROUPS[type(request)]
        parts: dict[int, tuple[PartitionState | None, list[Any]]] = {}
        places: dict[int, list[int]] = {}
        for place, group in enumerate(getattr(request, request_field)):
            partition = self.partition_for(id_of(group))
            index = -1 if partition is None else partition.index
            parts.setdefault(index, (partition, []))[1].append(group)
            places.setdefault(index, []).append(place)
            yield None
        results: list[Any] = []
        some = (
            (partition, groups[first : first + _GROUPS_PER_TURN])
            for partition, groups in parts.values()
            for first in range(0, len(groups), _GROUPS_PER_TURN)
        )
        for partition, groups in some:
            yield None
            part = replace(request, **{request_field: tuple(groups)})
            exists = partition is not None and self._state.has(partition)  # the topic may be deleted meanwhile
            running = self._of(partition, broker) if exists else ErrorCode.NOT_COORDINATOR
            if isinstance(running, ErrorCode):
                results.append(self._no_coordinator.failed(part, context, running, ""))
            else:
                results.append(self.runtime.request(running, part, context))
        if not results:
            empty: Message = api_of(type(request)).response.cls()
            return empty
        yield None  # a response that took long is then encoded in the thread
        responses: list[Any] = [result.response if isinstance(result, Pending) else result for result in results]
        everything = [group for response in responses for group in getattr(response, response_field)]
        if isinstance(request, _IN_THE_ORDER_OF_REQUESTS):
            in_order = (place for some_places in places.values() for place in some_places)
            everything = [group for _, group in sorted(zip(in_order, everything, strict=True), key=itemgetter(0))]
        whole: Message = replace(responses[0], **{response_field: tuple(everything)})
        return whole

    def failed(self, request: Message, context: RequestContext, code: ErrorCode) -> Message:
        """Return the error response to a request that failed as a whole."""
        return self._no_coordinator.failed(request, context, code, "")

    def list_groups(self, broker: int, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """Return the groups of all partitions that a broker leads.

        As in Kafka, the request fails while one of them is loading.
        """
        groups: list[Any] = []
        coordinators = [self._of(partition, broker) for partition in self._host.partitions()]  # all begin to load
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in coordinators:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for running in coordinators:
            if isinstance(running, ErrorCode):
                continue  # another broker leads it, or its log cannot be read
            result = self.runtime.request(running, request, context)
            groups += getattr(result.response if isinstance(result, Pending) else result, "groups")  # noqa: B009
        return ListGroupsResponse(groups=tuple(groups))

    def end_transaction(
        self, partition: PartitionState, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> None:
        """Write the marker of a transaction that committed offsets, after loading the log.

        Raises `AppendError` if the partition has no coordinator.
        """
        running = self.runtime.loaded_at(partition)
        if running is None:
            raise AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = running.runtime.log
        assert isinstance(log, PartitionCoordinatorLog)
        log.coordinator_epoch = coordinator_epoch
        self.runtime.run(running, lambda one: one.end_transaction(producer_id, epoch, commit=commit))


def _requires_group_id(request: Message) -> bool:
    """Return whether to reject an empty group id here.

    Offsets can be stored without a group id, and newer protocols return an error of their own.
    """
    return not isinstance(
        request,
        OffsetCommitRequest
        | OffsetFetchRequest
        | ConsumerGroupHeartbeatRequest
        | ShareGroupHeartbeatRequest
        | StreamsGroupHeartbeatRequest
        | StreamsGroupTopologyDescriptionUpdateRequest,
    )
