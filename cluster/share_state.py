"""The share coordinators of a cluster, one for each partition of `__share_group_state` (KIP-932).

Their logic is in `quorate.coordinator.share_state`. `ShareCoordinators` is also the `Persister`
with which brokers reach them: as all brokers share a loop, it calls them without a connection.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from quorate.cluster.controller.topics import TopicControl
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.coordinators import TopicHost
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import Work
from quorate.codecs import SHARE_GROUP_STATE
from quorate.codecs.api import ReadShareGroupStateSummaryRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.codecs.releases import features_of
from quorate.coordinator.errors import ApiError
from quorate.coordinator.results import Pending
from quorate.coordinator.runtime import Coordinator, CoordinatorRuntime
from quorate.coordinator.share_state.key import SharePartitionKey
from quorate.coordinator.share_state.requests import OPERATIONS, PartResult, named, parts, persistable, response
from quorate.coordinator.share_state.shard import ShareCoordinatorConfig, ShareCoordinatorShard

_ATTEMPTS: Final = 5
_BACKOFF_MS: Final = 1_000
"""The delay before the first retry of the persister; each next one is twice as long."""
_RETRIABLE: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)

_Part = tuple[SharePartitionKey, Any]


class ShareCoordinators:
    """All share coordinators of a cluster, and the persister of its brokers."""

    def __init__(self, services: Services, topics: TopicControl) -> None:
        self._services = services
        self._topics = topics
        self._host = TopicHost(services, SHARE_GROUP_STATE, "share groups", self._new_shard, loads_all=True)
        self.runtime: CoordinatorRuntime[PartitionState, ShareCoordinatorShard] = CoordinatorRuntime(self._host)

    def _new_shard(self, partition: PartitionState) -> ShareCoordinatorShard:
        number = self._services.broker_configs.number
        config = ShareCoordinatorConfig(
            is_strict=self._services.broker_configs.coordinator.behaviour.strict_share_state,
            share_coordinator_snapshot_update_records_per_snapshot=number(
                "share.coordinator.snapshot.update.records.per.snapshot"
            ),
            share_coordinator_cold_partition_snapshot_interval_ms=number(
                "share.coordinator.cold.partition.snapshot.interval.ms"
            ),
        )
        return ShareCoordinatorShard(config, image=self._services.state.image)

    @property
    def is_supported(self) -> bool:
        """Whether the cluster's release has share coordinators: since 4.1."""
        return "share.version" in features_of(self._services.broker_configs.kafka_version)

    # ---- coordinators

    def partition_for(self, key: str) -> PartitionState | None:
        """Return the partition of a share-partition; `None` without `__share_group_state`."""
        return self._host.partition_for(key)

    def _coordinator_of(self, key: SharePartitionKey, broker: int | None) -> Coordinator[ShareCoordinatorShard]:
        """Return the coordinator, if it is on this broker and loaded. Raises `ApiError`.

        `broker`: `None` for any.
        """
        partition = self.partition_for(key.coordinator_key)
        found = None
        if partition is not None and partition.leader >= 0 and broker in (None, partition.leader):
            found = self.runtime.at(partition)
        code = ErrorCode.NOT_COORDINATOR if found is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if found is None or found.is_loading:
            raise ApiError(code, code.text)
        return found

    def _run(self, request: Message, key: SharePartitionKey, data: Any, broker: int | None = None) -> PartResult:
        """Run the operation of a request on one partition, and return its result."""
        operation = OPERATIONS[type(request)]
        refusal: ApiError | None = None

        def run(shard: ShareCoordinatorShard, now_ms: int) -> Any:
            nonlocal refusal
            try:
                return operation.run(shard, key, data, now_ms)
            except ApiError as error:
                refusal = error
                raise

        try:
            coordinator = self._coordinator_of(key, broker)
            done = self.runtime.run(coordinator, lambda runtime: runtime.run(operation.name, run))
        except ApiError as error:
            message = error.message if error is refusal else f"Unable to {operation.name}: {error}"
            return operation.failed(key, error.code, message)
        return key, done.response

    def request(self, broker: int, request: Message) -> Work[Message]:
        """Handle a request to a broker: each partition by its coordinator."""
        results: list[PartResult] = []
        if named(request):
            for key, data in parts(request):
                results.append(self._run(request, key, data, broker))
                yield None
        whole: Message = response(request, results)
        return whole

    # ---- `Persister`

    def persist(self, request: Message) -> Pending[Any]:
        """Handle a request about share state, in several turns, again while coordinators move.

        A summary is read in one turn if all coordinators are loaded: the group coordinator does not
        wait for others.
        """
        pending: Pending[Any] = Pending()
        left = tuple(parts(request)) if persistable(request) else ()
        if isinstance(request, ReadShareGroupStateSummaryRequest):
            results = [self._run(request, *part) for part in left]
            if not any(result.error_code in _RETRIABLE for _, result in results):
                pending.complete(response(request, [_persisted(request, result) for result in results]))
                return pending
        self._attempt(request, left, (), _ATTEMPTS, pending)
        return pending

    def _attempt(
        self,
        request: Message,
        left: Sequence[_Part],
        results: Sequence[PartResult],
        attempts: int,
        pending: Pending[Any],
    ) -> None:
        """Run the operations that are left, and complete the response, or retry those that may."""
        # A new topic changes the metadata of coordinators, such as the one that may be calling.
        exists = bool(self._host.partitions())
        run = self._services.turns.run if exists else self._services.turns.later

        def work() -> Work[tuple[list[PartResult], list[_Part]]]:
            self._create_topic()
            done, again = list(results), []
            for key, data in left:
                result = self._run(request, key, data)
                if attempts > 1 and result[1].error_code in _RETRIABLE:
                    again.append((key, data))
                else:
                    done.append(_persisted(request, result))
                yield None
            return done, again

        def finished(found: tuple[list[PartResult], list[_Part]]) -> None:
            done, again = found
            if not again:
                pending.complete(response(request, done))
                return
            clock = self._services.clock
            delay_ms = _BACKOFF_MS << (_ATTEMPTS - attempts)
            retry = partial(self._attempt, request, again, done, attempts - 1, pending)
            clock.call_at(clock.now_ms() + delay_ms, retry)

        def failed(error: BaseException) -> None:
            self._services.reports.failed("a share coordinator's request", error)
            operation = OPERATIONS[type(request)]
            failures = [operation.failed(key, ErrorCode.UNKNOWN_SERVER_ERROR, None) for key, _ in left]
            pending.complete(response(request, [*results, *failures]))

        run(work(), finished, failed)

    def _create_topic(self) -> None:
        """Create `__share_group_state`, if possible; without it there are no coordinators."""
        try:
            self._topics.internal_topic(SHARE_GROUP_STATE)
        except ApiError as error:
            self._services.reports.note(f"{SHARE_GROUP_STATE} could not be created: {error}")

    # ---- periodic work

    def snapshot_cold_partitions(self) -> None:
        """Write snapshots of share-partitions that are not updated, which allows to prune."""
        for coordinator in self.runtime:
            self.runtime.run(coordinator, lambda runtime: runtime.clean_up())

    def prune(self) -> None:
        """Delete the records that no share-partition needs. Raises `AppendError` on a full disk."""
        for coordinator in self.runtime:
            last, log = coordinator.shard.redundant.last, coordinator.runtime.log
            assert isinstance(log, PartitionCoordinatorLog)
            if last is not None:
                log.partition.log.delete_before(last)


def _persisted(request: Message, result: PartResult) -> PartResult:
    """Return the result that brokers receive, with the error message of `PersisterStateManager`."""
    key, found = result
    if not found.error_code:
        return result
    rpc, text = OPERATIONS[type(request)].rpc, found.error_message
    if found.error_code in _RETRIABLE:
        text = f"Exhausted max retries to complete {rpc} RPC without success."
    return key, replace(found, error_message=f"Error in {rpc} RPC. {text}")
