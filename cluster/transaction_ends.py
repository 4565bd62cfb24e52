"""How transactions end: the decision is written down, then the markers in their partitions, then that it has ended (KIP-98).

`Coordinator` is what is known of the transactions of one partition of `__transaction_state`; what producers ask of it is in `transactions`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from quorate.cluster.clock import Handle
from quorate.cluster.coordinators import PartitionCoordinatorLog
from quorate.cluster.topics import PartitionState
from quorate.cluster.transaction_records import ENDED, Transaction, transaction_of
from quorate.codecs import CONSUMER_OFFSETS, as_kafka_reads
from quorate.codecs.messages.transaction import TransactionLogKey, TransactionLogValue
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import StoredRecord

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["RETRY_MS", "Coordinator", "Endings"]

RETRY_MS = 100
"""What could not be written is tried again so often."""


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one partition.

    `timers`: of open transactions, and of those whose markers could not be written; `told`: of which it was said that something could not be written.
    """

    partition: PartitionState
    broker: int
    leader_epoch: int
    by_id: dict[str, Transaction] = field(default_factory=dict)
    timers: dict[str, Handle] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def load(self) -> None:
        """Know what the log says. Raises `LogError` for damage, `ValueError` for a status that there is not."""
        for stored in PartitionCoordinatorLog(self.partition).read():
            record = as_kafka_reads(stored.record) if isinstance(stored, StoredRecord) else None
            if record is None:
                continue  # Kafka skips what it does not know here, too
            key, value = record.key, record.value
            if isinstance(key, TransactionLogKey) and isinstance(value, TransactionLogValue):
                self.by_id[key.transactional_id] = transaction_of(key, value)
            elif isinstance(key, TransactionLogKey):
                self.by_id.pop(key.transactional_id, None)

    def cancel(self, transactional_id: str) -> None:
        """Its timer is not needed any more."""
        timer = self.timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()


class Endings:
    """Transactions that are about to end. `running`: who coordinates each partition now; `put`: writes down what is known of a transaction, and raises `ApiError`."""

    def __init__(
        self,
        cluster: "ClusterCore",
        running: dict[int, Coordinator],
        put: Callable[[Coordinator, Transaction], Transaction],
    ) -> None:
        self.cluster = cluster
        self._running = running
        self._put = put

    def complete(self, coordinator: Coordinator, prepared: Transaction) -> Transaction:
        """Write the markers of a transaction that is about to end, then that it has ended. If that fails, it is tried again.

        Returns what is known of it when it has ended.
        """
        ended = replace(prepared, status=ENDED[prepared.status], partitions=(), next_producer_id=-1)
        if prepared.next_producer_id >= 0:
            ended = replace(ended, producer_id=prepared.next_producer_id, epoch=0)
        try:
            self._write_markers(coordinator, prepared)
            ended = self._put(coordinator, ended)
        except ApiError as error:
            self._try_again(coordinator, prepared, error)
            return ended
        if prepared.transactional_id in coordinator.told:
            coordinator.told.discard(prepared.transactional_id)
            self.cluster.note(f"markers of {prepared.transactional_id} are written")
        return ended

    def _try_again(self, coordinator: Coordinator, prepared: Transaction, error: Exception) -> None:
        """In a moment, until it is done; said once."""
        transactional_id = prepared.transactional_id

        def again() -> None:
            coordinator.timers.pop(transactional_id, None)
            # Meanwhile others may have begun to coordinate.
            if (
                self._running.get(coordinator.partition.index, coordinator) is coordinator
                and coordinator.by_id.get(transactional_id) is prepared
            ):
                self.complete(coordinator, prepared)

        if transactional_id not in coordinator.told:
            coordinator.told.add(transactional_id)
            self.cluster.note(f"markers of {transactional_id} could not be written, and will be: {error}")
        clock = self.cluster.clock
        coordinator.timers[transactional_id] = clock.call_at(clock.now_ms() + RETRY_MS, again)

    def _write_markers(self, coordinator: Coordinator, prepared: Transaction) -> None:
        """To offsets' partitions by their coordinators."""
        now_ms = self.cluster.clock.now_ms()
        for topic, index in prepared.partitions:
            partition = self.cluster.partition(topic, index)
            if partition is None:
                continue  # deleted since
            if topic == CONSUMER_OFFSETS and partition.leader >= 0:
                self.cluster.groups.end_transaction(
                    partition,
                    prepared.producer_id,
                    prepared.epoch,
                    commit=prepared.commits,
                    coordinator_epoch=coordinator.leader_epoch,
                )
            else:
                partition.log.append_marker(
                    prepared.producer_id,
                    prepared.epoch,
                    commit=prepared.commits,
                    now_ms=now_ms,
                    leader_epoch=partition.leader_epoch,
                    coordinator_epoch=coordinator.leader_epoch,
                )
