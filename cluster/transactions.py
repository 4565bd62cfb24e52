"""The transaction coordinators of a cluster, and allocation of producer ids (KIP-98, KIP-730).

Each partition of `__transaction_state` has a coordinator on its leader. Its logic is in
`quorate.coordinator.transactions`. The markers of a large transaction are written in several turns,
so some partitions have their marker before others, as in Kafka.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from quorate.cluster.controller.controller import Controller, MetadataWriteError
from quorate.cluster.coordinators import TopicHost
from quorate.cluster.groups import GroupCoordinators
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.codecs.metadata_records import ProducerIdsRecord
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import MAPPED_ERRORS
from quorate.coordinator.results import Result
from quorate.coordinator.runtime import Coordinator, CoordinatorRuntime
from quorate.coordinator.transactions.records import Transaction
from quorate.coordinator.transactions.shard import TransactionShard

_MARKERS_PER_TURN = 20
"""The number of markers that are written in one turn."""

_PRODUCER_ID_BLOCK_SIZE = 1000
"""The number of producer ids that the controller allocates at once (KIP-730)."""

R = TypeVar("R")


class TransactionCoordinators:
    """All transaction coordinators of a cluster."""

    def __init__(self, services: Services, controller: Controller, groups: GroupCoordinators) -> None:
        self._services = services
        self._state = services.state
        self._controller = controller
        self._groups = groups
        self._next_producer_id = -1
        self._host = TopicHost(
            services, TRANSACTION_STATE, "transactions", self._new_shard, loads_all=True, base_sequence=-1
        )
        self.runtime: CoordinatorRuntime[PartitionState, TransactionShard] = CoordinatorRuntime(self._host)

    def _new_shard(self, partition: PartitionState) -> TransactionShard:
        return TransactionShard(self, partition.leader_epoch, self._state.image)

    # ---- coordinators

    def partition_for(self, transactional_id: str) -> PartitionState | None:
        """Return the partition of a transactional id; `None` without `__transaction_state`."""
        return self._host.partition_for(transactional_id)

    def check_coordinator(self, broker: int, transactional_id: str) -> None:
        """Raise `ApiError` if another broker coordinates the id."""
        partition = self.partition_for(transactional_id)
        if partition is None or partition.leader != broker:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def coordinated_by(self, broker: int) -> list[Transaction]:
        """Return the transactions that a broker coordinates.

        Raises `ApiError` while one of their logs is loaded, as Kafka does.
        """
        self.runtime.leaders_changed()
        if any(coordinator.partition.leader == broker for coordinator in self.runtime.loading()):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [
            transaction
            for coordinator in self.runtime
            if coordinator.partition.leader == broker
            for transaction in coordinator.shard.by_id.values()
        ]

    def find(self, transactional_id: str) -> Transaction | None:
        """Return the state of a transactional id; `None` if it is unknown. Raises `ApiError`."""
        return self._coordinator_of(transactional_id).shard.by_id.get(transactional_id)

    @property
    def by_id(self) -> dict[str, Transaction]:
        """All transactions, by transactional id."""
        return {
            key: transaction for coordinator in self.runtime for key, transaction in coordinator.shard.by_id.items()
        }

    def _coordinator_of(self, transactional_id: str) -> Coordinator[TransactionShard]:
        """Return the coordinator of a transactional id.

        Raises `ApiError` if it has none, or the coordinator has not loaded its log.
        """
        partition = self.partition_for(transactional_id)
        coordinator = None if partition is None else self.runtime.at(partition)
        if coordinator is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if coordinator.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return coordinator

    def _run(
        self, transactional_id: str, name: str, operation: Callable[[TransactionShard, int], Result[R]]
    ) -> R | None:
        """Run an operation of the id's coordinator, and return its response. Raises `ApiError`."""
        coordinator = self._coordinator_of(transactional_id)
        return self.runtime.run(coordinator, lambda runtime: runtime.run(name, operation)).response

    # ---- requests of producers

    def init_producer_id(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """Initialize a producer (InitProducerId), and return its producer id and epoch.

        Fences earlier producers of the transactional id, and aborts their open transaction. Raises
        `ApiError`.
        """
        producer = producer_id, epoch
        self._run(
            transactional_id, "fence", lambda shard, now_ms: shard.fence(transactional_id, timeout_ms, producer, now_ms)
        )
        initialized = self._run(
            transactional_id, "begin", lambda shard, now_ms: shard.begin(transactional_id, timeout_ms, producer, now_ms)
        )
        assert initialized is not None
        return initialized

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        version: int = 2,
    ) -> None:
        """Add partitions to the producer's transaction, or begin one with them.

        `version`: the transaction version of the client. Raises `ApiError`.
        """
        producer = producer_id, epoch
        self._run(
            transactional_id,
            "add",
            lambda shard, now_ms: shard.add(transactional_id, producer, partitions, now_ms, version=version),
        )

    def check_open(self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int]) -> None:
        """Raise `ApiError` unless the producer's transaction contains the partition (KIP-890)."""
        coordinator = self._coordinator_of(transactional_id)
        coordinator.shard.check_open(transactional_id, (producer_id, epoch), partition)

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, bump_epoch: bool
    ) -> tuple[int, int]:
        """Commit or abort a transaction (EndTxn), and return the producer's next id and epoch.

        `bump_epoch`: whether the epoch is incremented (KIP-890). Raises `ApiError`.
        """
        producer = producer_id, epoch
        ended = self._run(
            transactional_id,
            "end",
            lambda shard, now_ms: shard.end(transactional_id, producer, now_ms, commit=commit, bump_epoch=bump_epoch),
        )
        assert ended is not None
        return ended

    def expire(self) -> None:
        """Remove transactional ids that were not used for `transactional.id.expiration.ms`."""
        for coordinator in self.runtime:
            self.runtime.run(coordinator, lambda runtime: runtime.clean_up())

    # ---- `TransactionHost`

    @property
    def record_version(self) -> int:
        """The version of records: 1 if `transaction.version` is at least 1, else 0."""
        return min(self._state.features.get("transaction.version", 0), 1)

    @property
    def max_timeout_ms(self) -> int:
        """The config `transaction.max.timeout.ms`."""
        return self._services.broker_configs.number("transaction.max.timeout.ms")

    @property
    def expiration_ms(self) -> int:
        """The config `transactional.id.expiration.ms`."""
        return self._services.broker_configs.number("transactional.id.expiration.ms")

    @property
    def behaviour(self) -> Behaviour:
        """The coordinator's behaviour in the cluster's release."""
        return self._services.broker_configs.coordinator.behaviour

    def new_producer_id(self) -> int:
        """Allocate a producer id.

        Raises `ApiError` if the allocation cannot be written.
        """
        state = self._state
        first = state.next_producer_id
        if self._next_producer_id < 0 or self._next_producer_id == first:
            block = ProducerIdsRecord(
                broker_id=min(state.brokers, default=0), next_producer_id=first + _PRODUCER_ID_BLOCK_SIZE
            )
            try:
                self._controller.append([block])
            except MetadataWriteError as error:
                raise ApiError(MAPPED_ERRORS[error.code]) from None
            self._next_producer_id = first
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def write_markers(self, transaction: Transaction, coordinator_epoch: int) -> Generator[None, None, None]:
        """Write a transaction's markers. Raises `AppendError`.

        Group coordinators write those in `__consumer_offsets`.
        """
        now_ms = self._services.clock.now_ms()
        for number, (topic, index) in enumerate(transaction.partitions):
            if number and number % _MARKERS_PER_TURN == 0:
                yield
            partition = self._state.partition(topic, index)
            if partition is None:
                continue  # deleted meanwhile
            if topic == CONSUMER_OFFSETS and partition.leader >= 0:
                self._groups.end_transaction(
                    partition,
                    transaction.producer_id,
                    transaction.epoch,
                    commit=transaction.commits,
                    coordinator_epoch=coordinator_epoch,
                )
                continue
            partition.log.append_marker(
                transaction.producer_id,
                transaction.epoch,
                commit=transaction.commits,
                now_ms=now_ms,
                leader_epoch=partition.leader_epoch,
                coordinator_epoch=coordinator_epoch,
            )

    def note(self, text: str) -> None:
        """Report a problem of the cluster."""
        self._services.reports.note(text)
