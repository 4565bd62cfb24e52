"""The transaction coordinator: producers by transactional id, their transactions, and the markers that end these (KIP-98, KIP-360, KIP-890).

Its records are Kafka's, in `__transaction_state`. Markers are written in the same turn as the end of the transaction, so no client ever sees one half ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from quorate.cluster.clock import Handle
from quorate.cluster.errors import Refusal
from quorate.cluster.groups import PartitionCoordinatorLog
from quorate.cluster.topics import PartitionState
from quorate.codecs import CONSUMER_OFFSETS, CoordinatorRecord
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.codecs.messages.transaction import PartitionsSchema, TransactionLogKey, TransactionLogValue
from quorate.coordinator.partitioning import partition_of

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["Status", "Transaction", "Transactions"]

_LAST_EPOCH = 0x7FFF - 1


class Status(IntEnum):
    """States of a transaction, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


STATUS_NAMES = {
    Status.EMPTY: "Empty",
    Status.ONGOING: "Ongoing",
    Status.PREPARE_COMMIT: "PrepareCommit",
    Status.PREPARE_ABORT: "PrepareAbort",
    Status.COMPLETE_COMMIT: "CompleteCommit",
    Status.COMPLETE_ABORT: "CompleteAbort",
    Status.DEAD: "Dead",
    Status.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}


@dataclass(slots=True)
class Transaction:
    """What is known of a transactional id. `partitions`: (topic, partition) of the open transaction, in the order in which they were added."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: dict[tuple[str, int], None] = field(default_factory=dict)
    start_ms: int = -1
    updated_ms: int = -1
    previous_producer_id: int = -1
    last_epoch: int = -1
    timer: Handle | None = None


class Transactions:
    """The transaction coordinators of a cluster."""

    def __init__(self, cluster: "ClusterCore") -> None:
        self.cluster = cluster
        self.by_id: dict[str, Transaction] = {}
        self._next_producer_id = 0

    # ---- who coordinates

    def partition_for(self, transactional_id: str) -> PartitionState | None:
        """The partition of `__transaction_state` that a transactional id is in; `None` while there is no such topic."""
        topic = self.cluster.topics.get(TRANSACTION_STATE)
        return None if topic is None else topic.partitions[partition_of(transactional_id, len(topic.partitions))]

    def check_coordinator(self, broker: int, transactional_id: str) -> None:
        """Raises `Refusal` if another broker coordinates the id."""
        partition = self.partition_for(transactional_id)
        if partition is None or partition.leader != broker:
            raise Refusal(ErrorCode.NOT_COORDINATOR)

    def led_by(self, broker: int) -> Iterable[Transaction]:
        """The transactions that a broker coordinates."""
        for transaction in self.by_id.values():
            partition = self.partition_for(transaction.transactional_id)
            if partition is not None and partition.leader == broker:
                yield transaction

    def new_producer_id(self) -> int:
        """An id that no producer has had."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # ---- what producers ask for

    def begin(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """InitProducerId: a producer begins, and those before it are fenced; an open transaction is aborted. Returns its id and epoch. Raises `Refusal`."""
        if timeout_ms <= 0 or timeout_ms > self.cluster.settings.number("transaction.max.timeout.ms"):
            raise Refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found = self.by_id.get(transactional_id)
        if found is None:
            found = self.by_id[transactional_id] = Transaction(transactional_id, self.new_producer_id(), -1, timeout_ms)
        elif producer_id >= 0 and not self._may_resume(found, producer_id, epoch):
            raise Refusal(ErrorCode.PRODUCER_FENCED)
        if found.status is Status.ONGOING:
            self._raise_epoch(found)
            self._end(found, commit=False)
        if producer_id >= 0 and producer_id == found.producer_id and epoch == found.last_epoch:
            pass  # the same request again: the producer did not get the answer
        else:
            self._raise_epoch(found)
        found.timeout_ms = timeout_ms
        found.status = Status.EMPTY
        found.start_ms = -1
        self._write(found)
        return found.producer_id, found.epoch

    def add(self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[tuple[str, int]]) -> None:
        """Partitions that the transaction writes to, which begins with them. Raises `Refusal`."""
        found = self._checked(transactional_id, producer_id, epoch)
        if found.status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT):
            raise Refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
        more = [one for one in partitions if found.status is not Status.ONGOING or one not in found.partitions]
        if not more:
            return
        if found.status is not Status.ONGOING:
            found.status = Status.ONGOING
            found.partitions.clear()
            found.start_ms = self.cluster.clock.now_ms()
            self._set_timer(found)
        found.partitions |= dict.fromkeys(more)
        self._write(found)

    def check_open(self, transactional_id: str, producer_id: int, epoch: int, where: tuple[str, int]) -> None:
        """Raises `Refusal` unless the producer's open transaction has the partition (KIP-890)."""
        found = self._checked(transactional_id, producer_id, epoch)
        if found.status is not Status.ONGOING or where not in found.partitions:
            raise Refusal(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, raise_epoch: bool
    ) -> tuple[int, int]:
        """EndTxn: commit or abort; returns the producer's id and epoch from now on. With `raise_epoch` the epoch goes up with each end (KIP-890). Raises `Refusal`."""
        found = self.by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        ended = Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT
        if raise_epoch and epoch == found.epoch - 1 and found.status is ended:
            return found.producer_id, found.epoch  # the same request again
        if epoch != found.epoch:
            raise Refusal(ErrorCode.PRODUCER_FENCED)
        if found.status is ended and not raise_epoch:
            return found.producer_id, found.epoch
        if found.status is not Status.ONGOING:
            if (
                raise_epoch
                and not commit
                and found.status
                in (
                    Status.EMPTY,
                    Status.COMPLETE_COMMIT,
                    Status.COMPLETE_ABORT,
                )
            ):
                self._raise_epoch(found)  # an abort without a transaction (KIP-890)
                self._write(found)
                return found.producer_id, found.epoch
            raise Refusal(ErrorCode.INVALID_TXN_STATE)
        if raise_epoch:
            self._raise_epoch(found)
        self._end(found, commit=commit)
        return found.producer_id, found.epoch

    # ---- inside

    def _checked(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        found = self.by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != found.epoch:
            raise Refusal(ErrorCode.PRODUCER_FENCED)
        return found

    def _may_resume(self, found: Transaction, producer_id: int, epoch: int) -> bool:
        """KIP-360: a producer that knows its id and epoch may go on with them."""
        if producer_id == found.producer_id:
            return epoch in (found.epoch, found.last_epoch)
        return producer_id == found.previous_producer_id

    def _raise_epoch(self, found: Transaction) -> None:
        found.last_epoch = found.epoch
        if found.epoch >= _LAST_EPOCH:
            found.previous_producer_id, found.producer_id = found.producer_id, self.new_producer_id()
            found.epoch = 0
        else:
            found.epoch += 1

    def _end(self, found: Transaction, *, commit: bool) -> None:
        """Write the markers, to offsets' partitions by their coordinators."""
        if found.timer is not None:
            found.timer.cancel()
            found.timer = None
        found.status = Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT
        self._write(found)
        now_ms = self.cluster.clock.now_ms()
        for topic, index in found.partitions:
            state = self.cluster.topics.get(topic)
            if state is None or index >= len(state.partitions):
                continue  # deleted since
            partition = state.partitions[index]
            if topic == CONSUMER_OFFSETS and partition.leader >= 0:
                self.cluster.groups.end_transaction(partition, found.producer_id, found.epoch, commit=commit)
            else:
                partition.log.append_marker(
                    found.producer_id,
                    found.epoch,
                    commit=commit,
                    now_ms=now_ms,
                    leader_epoch=partition.leader_epoch,
                )
        found.status = Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT
        found.partitions.clear()
        self._write(found)

    def _set_timer(self, found: Transaction) -> None:
        at_ms = found.start_ms + found.timeout_ms
        found.timer = self.cluster.clock.call_at(at_ms, lambda: self._timed_out(found))

    def _timed_out(self, found: Transaction) -> None:
        """The transaction took longer than its producer said: it is aborted, and the producer fenced."""
        found.timer = None
        if found.status is Status.ONGOING:
            self._raise_epoch(found)
            self._end(found, commit=False)

    def _write(self, found: Transaction) -> None:
        found.updated_ms = self.cluster.clock.now_ms()
        partition = self.partition_for(found.transactional_id)
        if partition is None:
            return
        topics: dict[str, list[int]] = {}
        for topic, index in found.partitions:
            topics.setdefault(topic, []).append(index)
        value = TransactionLogValue(
            producer_id=found.producer_id,
            previous_producer_id=found.previous_producer_id,
            producer_epoch=found.epoch,
            transaction_timeout_ms=found.timeout_ms,
            transaction_status=int(found.status),
            transaction_partitions=None
            if found.status is Status.EMPTY
            else tuple(PartitionsSchema(topic=name, partition_ids=tuple(ids)) for name, ids in topics.items()),
            transaction_last_update_timestamp_ms=found.updated_ms,
            transaction_start_timestamp_ms=found.start_ms,
            client_transaction_version=2,
        )
        record = CoordinatorRecord(
            key=TransactionLogKey(transactional_id=found.transactional_id),
            value=value,
            version=1,
            topic=TRANSACTION_STATE,
        )
        PartitionCoordinatorLog(partition).append([record], timestamp_ms=found.updated_ms)
