"""The group coordinators of a cluster: one for each partition of `__consumer_offsets`, on the broker that leads it, with that partition's log as its log.

What a coordinator writes are real batches in a real topic. When the partition's leader moves, the
coordinator there loads the log, as Kafka's does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from quorate.cluster.access import AccessContext
from quorate.cluster.authorizer import Authorizer, Operation
from quorate.cluster.coordinators import PartitionCoordinatorLog, TopicHost
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import Work
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    api_of,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.config import GROUP_CONFIGS, group_configs
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.log import AppendError
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.runtime import Coordinator, CoordinatorRuntime

__all__ = ["GroupCoordinators"]

_MANY: dict[type[Message], tuple[str, str, Callable[[Any], str]]] = {
    DescribeGroupsRequest: ("groups", "groups", str),
    DeleteGroupsRequest: ("groups_names", "results", str),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", str),
    ShareGroupDescribeRequest: ("group_ids", "groups", str),
    StreamsGroupDescribeRequest: ("group_ids", "groups", str),
    OffsetFetchRequest: ("groups", "groups", lambda group: str(group.group_id)),
}
"""Requests about several groups: the field of the request with the groups, that of the response,
and how to get an id.
"""


_NAMES_AT_ONCE = 2_000
"""Names of a subscription that are looked at in one turn."""

_GROUPS_AT_ONCE = 200
"""Groups of a request that a coordinator is asked about in one turn."""


class GroupCoordinators:
    """All group coordinators of a cluster. `configs`: those of groups, by name."""

    def __init__(self, services: Services, authorizer: Authorizer | None) -> None:
        self.configs: dict[str, Mapping[str, int]] = {}
        self._broker_configs = services.broker_configs
        self._state = services.state
        self._new_id = services.new_id
        self._authorizer = authorizer
        self._host = TopicHost(services, CONSUMER_OFFSETS, "groups", self._new_shard)
        self.runtime: CoordinatorRuntime[PartitionState, GroupCoordinatorShard] = CoordinatorRuntime(self._host)
        self._nobody = GroupCoordinatorShard(self._broker_configs.coordinator, new_id=self._new_id)

    def _new_shard(self, partition: PartitionState) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(
            self._broker_configs.coordinator,
            image=self._state.image,
            new_id=self._new_id,
            may_describe=None if self._authorizer is None else self._describable,
        )
        shard.group_configs = self.configs
        return shard

    def _describable(self, context: RequestContext, topics: frozenset[str]) -> frozenset[str]:
        """The topics that a client may describe, of those that a regex matches."""
        access = context.access if isinstance(context, AccessContext) else None
        return topics if access is None else access.topics(Operation.DESCRIBE, topics)

    # ---- who coordinates

    def partition_for(self, group_id: str) -> PartitionState | None:
        """The partition that a group is in; `None` while there is no `__consumer_offsets`."""
        return self._host.partition_for(group_id)

    def _of(self, partition: PartitionState | None, broker: int) -> Coordinator[GroupCoordinatorShard] | None:
        """The coordinator for a partition, if this broker is it."""
        return None if partition is None or partition.leader != broker else self.runtime.at(partition)

    def broker_configs_changed(self) -> None:
        """The brokers' configs have changed while they run."""
        for running in self.runtime:
            running.shard.config = self._broker_configs.coordinator

    def config_changed(self, group: str) -> None:
        """A group's own configs have changed."""
        configs = self._state.group_configs.get(group)
        if configs is None:
            self.configs.pop(group, None)
        else:
            followed = {name: value for name, value in configs.items() if name in GROUP_CONFIGS}
            self.configs[group] = group_configs(followed)

    def runtimes(self) -> dict[int, PartitionRuntime[GroupCoordinatorShard]]:
        """The coordinators at work, by partition."""
        return {one.partition.index: one.runtime for one in self.runtime}

    # ---- requests

    def request(self, broker: int, group_id: str, request: Message, context: RequestContext) -> Message | Pending[Any]:
        """Answer a request about one group."""
        if not group_id and _needs_a_name(request):
            return self._nobody.failed(request, context, ErrorCode.INVALID_GROUP_ID, "")
        running = self._of(self.partition_for(group_id), broker)
        if running is None:
            return self._nobody.failed(request, context, ErrorCode.NOT_COORDINATOR, "")
        return self.runtime.request(running, request, context)

    def bounded(self, group_id: str, names: Sequence[str]) -> Work[tuple[str, ...]]:
        """The different names of a subscription, cut off where it is certain that no record has room for them: what becomes of the request is the same."""
        partition = self.partition_for(group_id)
        most = 0 if partition is None else partition.log.config.max_message_bytes
        found: dict[str, None] = {}
        size = 0
        for first in range(0, len(names), _NAMES_AT_ONCE):
            some = dict.fromkeys(name for name in names[first : first + _NAMES_AT_ONCE] if name not in found)
            size += sum(map(len, some)) + len(some)  # in UTF-8, with a byte or more for its length
            found.update(some)
            if size > most:
                break
            yield None
        return tuple(found)

    def request_many(self, broker: int, request: Message, context: RequestContext) -> Work[Message]:
        """Answer a request about several groups, each by its coordinator."""
        asked, answered, id_of = _MANY[type(request)]
        parts: dict[int, tuple[PartitionState | None, list[Any]]] = {}
        for group in getattr(request, asked):
            partition = self.partition_for(id_of(group))
            index = -1 if partition is None else partition.index
            parts.setdefault(index, (partition, []))[1].append(group)
            yield None
        answers: list[Any] = []
        some = (
            (partition, groups[first : first + _GROUPS_AT_ONCE])
            for partition, groups in parts.values()
            for first in range(0, len(groups), _GROUPS_AT_ONCE)
        )
        for partition, groups in some:
            yield None
            part = replace(request, **{asked: tuple(groups)})
            there = partition is not None and self._state.has(partition)  # the topic may be deleted meanwhile
            running = self._of(partition, broker) if there else None
            if running is None:
                answers.append(self._nobody.failed(part, context, ErrorCode.NOT_COORDINATOR, ""))
            else:
                answers.append(self.runtime.request(running, part, context))
        if not answers:
            nothing: Message = api_of(type(request)).response.cls()
            return nothing
        yield None  # so that a response that took long is encoded in the thread
        responses: list[Any] = [one.response if isinstance(one, Pending) else one for one in answers]
        everything = [group for one in responses for group in getattr(one, answered)]
        whole: Message = replace(responses[0], **{answered: tuple(everything)})
        return whole

    def failed(self, request: Message, context: RequestContext, code: ErrorCode) -> Message:
        """The answer to a request that failed as a whole."""
        return self._nobody.failed(request, context, code, "")

    def list_groups(self, broker: int, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """The groups of all partitions that a broker leads."""
        groups: list[Any] = []
        for partition in self._host.partitions():
            running = self._of(partition, broker)
            if running is None:
                continue  # led elsewhere, or its log cannot be read
            answer = self.runtime.request(running, request, context)
            groups += getattr(answer.response if isinstance(answer, Pending) else answer, "groups")  # noqa: B009
        return ListGroupsResponse(groups=tuple(groups))

    def end_transaction(
        self, partition: PartitionState, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> None:
        """Write the marker of a transaction that committed offsets.

        Raises `AppendError` if nobody coordinates the partition.
        """
        running = self._of(partition, partition.leader)
        if running is None:
            raise AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = running.runtime.log
        assert isinstance(log, PartitionCoordinatorLog)
        log.coordinator_epoch = coordinator_epoch
        self.runtime.run(running, lambda one: one.end_transaction(producer_id, epoch, commit=commit))


def _needs_a_name(request: Message) -> bool:
    """Whether to refuse a group without a name here: offsets may be kept without one, and the newer protocols have an error of their own for it."""
    return not isinstance(
        request,
        OffsetCommitRequest | OffsetFetchRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest,
    )
