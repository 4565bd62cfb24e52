"""How transactions end: the decision is written down, then the markers in their partitions, then that it has ended; each when what was before is where it is to be (KIP-98).

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
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.messages.transaction import TransactionLogKey, TransactionLogValue
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import StoredRecord
from quorate.coordinator.results import Pending

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["RETRY_MS", "Coordinator", "Endings"]

RETRY_MS = 100
"""What could not be written is tried again so often."""


@dataclass(slots=True)
class Coordinator:
    """The coordinator of one partition.

    `timers`: of open transactions, and of those whose markers could not be written; `ending`: who waits for the end of one; `told`: of which it was said that
    something could not be written.
    """

    partition: PartitionState
    broker: int
    leader_epoch: int
    by_id: dict[str, Transaction] = field(default_factory=dict)
    timers: dict[str, Handle] = field(default_factory=dict)
    ending: dict[str, list[Pending[bool]]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    @property
    def is_flushing(self) -> bool:
        """Whether what was written last is on its way to the disk."""
        return self.partition.log.held_from is not None

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

    def over(self, transactional_id: str, ended: bool) -> None:
        """Who waits for the end of its transaction need not wait any more."""
        for one in self.ending.pop(transactional_id, ()):
            one.complete(ended)


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
        """Write the markers of a transaction that is about to end, and that it has ended, each when what was written before is where it is to be. If that fails, it is tried again.

        Returns what is known of it when it has ended.
        """
        ended = replace(prepared, status=ENDED[prepared.status], partitions=(), next_producer_id=-1)
        if prepared.next_producer_id >= 0:
            ended = replace(ended, producer_id=prepared.next_producer_id, epoch=0)

        def mark(there: bool) -> None:
            if not self._is_about_to_end(coordinator, prepared):
                return
            if not there:  # what the disk did not take may be lost, though it can be read: once more
                coordinator.over(prepared.transactional_id, False)
                self._try_again(coordinator, prepared, "the disk did not take the decision", decide=True)
                return
            try:
                flushing = self._write_markers(coordinator, prepared)
            except ApiError as error:
                self._try_again(coordinator, prepared, error)
                return
            (self.cluster.flusher.after if flushing else _now)(end)

        def end(there: bool) -> None:
            if not self._is_about_to_end(coordinator, prepared):
                return
            try:
                if not there:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
                self._put(coordinator, ended)
            except ApiError as error:
                self._try_again(coordinator, prepared, error)
                return
            if prepared.transactional_id in coordinator.told:
                coordinator.told.discard(prepared.transactional_id)
                self.cluster.note(f"markers of {prepared.transactional_id} are written")
            coordinator.over(prepared.transactional_id, True)

        (self.cluster.flusher.after if coordinator.is_flushing else _now)(mark)
        found = coordinator.by_id[prepared.transactional_id]
        return ended if found is prepared else found

    def _is_about_to_end(self, coordinator: Coordinator, prepared: Transaction) -> bool:
        """Whether this is still to be done here: meanwhile others may have begun to coordinate."""
        return (
            self._running.get(coordinator.partition.index, coordinator) is coordinator
            and coordinator.by_id.get(prepared.transactional_id) is prepared
        )

    def _try_again(
        self, coordinator: Coordinator, prepared: Transaction, error: object, *, decide: bool = False
    ) -> None:
        """In a moment, until it is done; said once. `decide`: beginning with the decision."""
        transactional_id = prepared.transactional_id

        def again() -> None:
            coordinator.timers.pop(transactional_id, None)
            if not self._is_about_to_end(coordinator, prepared):
                return
            try:
                self.complete(coordinator, self._put(coordinator, prepared) if decide else prepared)
            except ApiError as refusal:
                self._try_again(coordinator, prepared, refusal, decide=True)

        if transactional_id not in coordinator.told:
            coordinator.told.add(transactional_id)
            self.cluster.note(f"markers of {transactional_id} could not be written, and will be: {error}")
        clock = self.cluster.clock
        coordinator.timers[transactional_id] = clock.call_at(clock.now_ms() + RETRY_MS, again)

    def _write_markers(self, coordinator: Coordinator, prepared: Transaction) -> bool:
        """To offsets' partitions by their coordinators. Returns whether they are on their way to the disk."""
        now_ms = self.cluster.clock.now_ms()
        flushing = False
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
            flushing |= partition.log.held_from is not None
        return flushing


def _now(action: Callable[[bool], object]) -> None:
    """What waits for nothing."""
    action(True)
