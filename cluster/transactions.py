"""The transaction coordinators: producers by transactional id, their transactions, and the markers that end these (KIP-98, KIP-360, KIP-890).

One for each partition of `__transaction_state`, on the broker that leads it. What it knows is what its log says: a change is a record that is written first. A new
leader reads the log, goes on with transactions that were about to end, and aborts those whose time is over. All markers are written in one turn, so no client
ever sees a transaction half ended.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.cluster.coordinators import PartitionCoordinatorLog
from quorate.cluster.topics import PartitionState
from quorate.cluster.transaction_ends import RETRY_MS, Coordinator, Endings
from quorate.cluster.transaction_records import ENDED, Status, Transaction, record_of, tombstone_of
from quorate.codecs import CoordinatorRecord, LogError
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import MAPPED_ERRORS, AppendError
from quorate.coordinator.partitioning import partition_for

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore

__all__ = ["Transactions"]

_LAST_EPOCH = 0x7FFF - 1
_BLOCK = 1000
"""So many producer ids are given out before it is written down that they are (KIP-730)."""
_KEEPS_START = (4, 0)
"""The last release that goes on telling when the last transaction began once its producer has begun anew."""


class Unreadable:
    """Partitions whose log no coordinator can read. Each is tried again only by its next leader, as in Kafka."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[PartitionState, int]] = {}

    def __contains__(self, partition: PartitionState) -> bool:
        found, leader_epoch = self._found.get(partition.index, (None, -1))
        return found is partition and leader_epoch == partition.leader_epoch

    def add(self, partition: PartitionState) -> None:
        """It is one, as its present leader found out."""
        self._found[partition.index] = (partition, partition.leader_epoch)


class Transactions:
    """The transaction coordinators of a cluster. `next_block`: the first producer id that is surely not in use."""

    def __init__(self, cluster: "ClusterCore") -> None:
        self.cluster = cluster
        self.next_block = 0
        self._next_producer_id = -1
        self._running: dict[int, Coordinator] = {}
        self._ends = Endings(cluster, self._running, self._put)
        self._unreadable = Unreadable()

    # ---- who coordinates

    def partition_for(self, transactional_id: str) -> PartitionState | None:
        """The partition of `__transaction_state` that a transactional id is in; `None` while there is no such topic."""
        topic = self.cluster.topics.get(TRANSACTION_STATE)
        return None if topic is None else topic.partitions[partition_for(transactional_id, len(topic.partitions))]

    def check_coordinator(self, broker: int, transactional_id: str) -> None:
        """Raises `ApiError` if another broker coordinates the id."""
        partition = self.partition_for(transactional_id)
        if partition is None or partition.leader != broker:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def led_by(self, broker: int) -> Iterator[Transaction]:
        """The transactions that a broker coordinates."""
        self.leaders_changed()
        for one in self._running.values():
            if one.broker == broker:
                yield from one.by_id.values()

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of an id, if somebody coordinates it."""
        found = self._of(transactional_id)
        return None if found is None else found.by_id.get(transactional_id)

    @property
    def by_id(self) -> dict[str, Transaction]:
        """All that is coordinated."""
        return {key: one for running in self._running.values() for key, one in running.by_id.items()}

    def _of(self, transactional_id: str) -> Coordinator | None:
        partition = self.partition_for(transactional_id)
        return None if partition is None else self._at(partition)

    def _at(self, partition: PartitionState) -> Coordinator | None:
        """The coordinator of a partition, which loads its log if it is new; `None` if that cannot be read: half of it would pass for all."""
        running = self._running.get(partition.index)
        if running is not None and running.leader_epoch == partition.leader_epoch and running.partition is partition:
            return running
        if running is not None:
            self._unload(partition.index)
        if partition.leader < 0 or partition in self._unreadable:
            return None
        running = Coordinator(partition, partition.leader, partition.leader_epoch)
        try:
            running.load()
        except (LogError, ValueError) as error:
            self._unreadable.add(partition)
            self.cluster.note(f"the transactions of {partition.topic}-{partition.index} have no coordinator: {error}")
            return None
        self._running[partition.index] = running
        for found in list(running.by_id.values()):
            if found.status in ENDED:
                self._ends.complete(running, found)
            elif found.status is Status.ONGOING:
                self._set_timer(running, found)
        return running

    def leaders_changed(self) -> None:
        """Coordinators whose partition is led elsewhere now stop, those elsewhere begin: open transactions end in time, whether anybody asks or not."""
        topic = self.cluster.topics.get(TRANSACTION_STATE)
        for index in list(self._running):
            if topic is None or self._running[index].partition is not topic.partitions[index]:
                self._unload(index)
        for partition in topic.partitions if topic is not None else ():
            # A log in which nothing is needs nobody until somebody asks.
            if partition.log.next_offset or partition.index in self._running:
                self._at(partition)

    def _unload(self, index: int) -> None:
        running = self._running.pop(index)
        for timer in running.timers.values():
            timer.cancel()

    def close(self) -> None:
        """Stop all."""
        for index in list(self._running):
            self._unload(index)

    def new_producer_id(self) -> int:
        """An id that no producer has had. Raises `ApiError` if it has to be on the disk that it is given out, and cannot be."""
        if self._next_producer_id < 0 or self._next_producer_id == self.next_block:
            first = self.next_block
            self.next_block += _BLOCK
            unrecorded = self.cluster.unrecorded
            self.cluster.keep()
            if self.cluster.unrecorded > unrecorded:
                self.next_block = first
                raise ApiError(MAPPED_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR])
            self._next_producer_id = first
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # ---- what producers ask for

    def begin(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """InitProducerId: a producer begins, and those before it are fenced; an open transaction is aborted. Returns its id and epoch. Raises `ApiError`."""
        if timeout_ms <= 0 or timeout_ms > self.cluster.settings.number("transaction.max.timeout.ms"):
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        coordinator = self._need(transactional_id)
        found = coordinator.by_id.get(transactional_id)
        if found is None:
            fresh = self.new_producer_id()
            found = Transaction(
                transactional_id=transactional_id,
                producer_id=fresh,
                epoch=-1,
                timeout_ms=timeout_ms,
            )
        elif producer_id >= 0 and not _may_resume(found, producer_id, epoch):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        elif found.status in ENDED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if found.status is Status.ONGOING:
            found = self._end(coordinator, self._raised(found), commit=False)
            if coordinator.by_id[transactional_id].status in ENDED:
                raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)  # the markers are yet to come; clients ask again
        if producer_id < 0 or producer_id != found.producer_id or epoch != found.last_epoch:
            found = self._raised(found)  # else the same request again: the producer did not get the answer
            if producer_id < 0:  # a new producer, so that the one before it is fenced (KIP-360)
                found = replace(found, last_epoch=-1)
        version = self.cluster.settings.coordinator.kafka_version
        start_ms = found.start_ms if (version.major, version.minor) <= _KEEPS_START else -1
        found = replace(found, timeout_ms=timeout_ms, status=Status.EMPTY, partitions=(), start_ms=start_ms)
        found = self._put(coordinator, found)
        return found.producer_id, found.epoch

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[tuple[str, int]],
        *,
        version: int = 2,
    ) -> None:
        """Partitions that the transaction writes to, which begins with them. Raises `ApiError`. `version`: of transactions, that the client knows."""
        coordinator = self._need(transactional_id)
        found = self._checked(coordinator, transactional_id, producer_id, epoch)
        if found.status in ENDED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        begins = found.status is not Status.ONGOING
        known = () if begins else found.partitions
        already = frozenset(known)
        more = tuple(one for one in dict.fromkeys(partitions) if one not in already)
        if not more and not begins:  # naming none begins a transaction, too
            return
        start_ms = self.cluster.clock.now_ms() if begins else found.start_ms
        found = replace(found, status=Status.ONGOING, partitions=(*known, *more), start_ms=start_ms, version=version)
        self._put(coordinator, found)
        if begins:
            self._set_timer(coordinator, found)

    def check_open(self, transactional_id: str, producer_id: int, epoch: int, where: tuple[str, int]) -> None:
        """Raises `ApiError` unless the producer's open transaction has the partition (KIP-890)."""
        found = self._checked(self._need(transactional_id), transactional_id, producer_id, epoch)
        if found.status is not Status.ONGOING or where not in found.partitions:
            raise ApiError(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, raise_epoch: bool
    ) -> tuple[int, int]:
        """EndTxn: commit or abort; returns the producer's id and epoch from now on. With `raise_epoch` the epoch goes up with each end (KIP-890). Raises `ApiError`."""
        coordinator = self._need(transactional_id)
        found = coordinator.by_id.get(transactional_id)
        if found is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # Whoever repeats a request that raised the epoch has the epoch before it, or the id before it, with its last epoch.
        rotated = producer_id == found.previous_producer_id and epoch == _LAST_EPOCH and found.epoch == 0
        again = raise_epoch and (rotated or epoch == found.epoch - 1)
        if producer_id != found.producer_id and not (again and rotated):
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        ending, has_ended = found.status in ENDED, found.status in ENDED.values()
        # Of an end under way that is repeated the epoch was raised already; another end has to wait for it.
        expected = found.epoch - 1 if ending and raise_epoch else found.epoch
        if epoch != expected and not (has_ended and again):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if ending:
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS if found.commits is commit else ErrorCode.INVALID_TXN_STATE
            )
        if has_ended and (again or not raise_epoch):
            if found.status is not (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT):
                raise ApiError(ErrorCode.INVALID_TXN_STATE)
            return found.producer_id, found.epoch
        if found.status is not Status.ONGOING:
            if raise_epoch and not commit:  # an abort without a transaction (KIP-890)
                now_ms = self.cluster.clock.now_ms()
                found = replace(self._raised(found), partitions=(), start_ms=now_ms, version=2)
                found = self._end(coordinator, found, commit=False)
                return found.producer_id, found.epoch
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        found = replace(self._raised(found), version=2) if raise_epoch else replace(found, version=0)
        found = self._end(coordinator, found, commit=commit)
        return found.producer_id, found.epoch

    def expire(self) -> None:
        """Forget ids that nobody used for `transactional.id.expiration.ms`, unless their transaction is open."""
        before_ms = self.cluster.clock.now_ms() - self.cluster.settings.number("transactional.id.expiration.ms")
        for coordinator in self._running.values():
            for found in list(coordinator.by_id.values()):
                if found.status not in (Status.ONGOING, *ENDED) and found.updated_ms <= before_ms:
                    try:
                        self._append(coordinator, tombstone_of(found.transactional_id))
                    except ApiError:
                        return
                    del coordinator.by_id[found.transactional_id]

    # ---- inside

    def _need(self, transactional_id: str) -> Coordinator:
        found = self._of(transactional_id)
        if found is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return found

    def _checked(self, coordinator: Coordinator, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        found = coordinator.by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != found.epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return found

    def _raised(self, found: Transaction) -> Transaction:
        """With the next epoch, or another producer id when there is none."""
        if found.epoch >= _LAST_EPOCH:
            return replace(found, producer_id=self.new_producer_id(), epoch=0, last_epoch=found.epoch)
        return replace(found, epoch=found.epoch + 1, last_epoch=found.epoch)

    def _end(self, coordinator: Coordinator, found: Transaction, *, commit: bool) -> Transaction:
        """Write down that it ends, then the markers, then that it has ended. From the first on, it does end."""
        was = coordinator.by_id[found.transactional_id]
        prepared = replace(found, status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT)
        if prepared.producer_id != was.producer_id:
            # The old id wrote the records, so the markers have it, with its very last epoch; the new one counts behind them (KIP-890).
            prepared = replace(
                prepared, producer_id=was.producer_id, epoch=_LAST_EPOCH + 1, next_producer_id=prepared.producer_id
            )
        prepared = self._put(coordinator, prepared)
        coordinator.cancel(found.transactional_id)
        return self._ends.complete(coordinator, prepared)

    def _set_timer(self, coordinator: Coordinator, found: Transaction) -> None:
        coordinator.cancel(found.transactional_id)
        coordinator.timers[found.transactional_id] = self.cluster.clock.call_at(
            found.start_ms + found.timeout_ms, lambda: self._timed_out(coordinator, found.transactional_id)
        )

    def _timed_out(self, coordinator: Coordinator, transactional_id: str) -> None:
        """The transaction took longer than its producer said: it is aborted, and the producer fenced."""
        coordinator.timers.pop(transactional_id, None)
        found = coordinator.by_id.get(transactional_id)
        if found is not None and found.status is Status.ONGOING:
            try:
                self._end(coordinator, self._raised(found), commit=False)
            except ApiError as refusal:
                if transactional_id not in coordinator.told:
                    coordinator.told.add(transactional_id)
                    self.cluster.note(f"transaction {transactional_id} could not be aborted, and will be: {refusal}")
                clock = self.cluster.clock
                coordinator.timers[transactional_id] = clock.call_at(
                    clock.now_ms() + RETRY_MS, lambda: self._timed_out(coordinator, transactional_id)
                )

    def _put(self, coordinator: Coordinator, found: Transaction) -> Transaction:
        """Write down what is known of an id from now on, then know it. Raises `ApiError`, and then nothing has changed."""
        was = coordinator.by_id.get(found.transactional_id)
        previous = found.producer_id if was is None else was.producer_id
        found = replace(found, updated_ms=self.cluster.clock.now_ms(), previous_producer_id=previous)
        self._append(coordinator, record_of(found, min(self.cluster.features.get("transaction.version", 0), 1)))
        coordinator.by_id[found.transactional_id] = found
        return found

    def _append(self, coordinator: Coordinator, record: CoordinatorRecord) -> None:
        log = PartitionCoordinatorLog(coordinator.partition, base_sequence=-1)
        try:
            log.append([record], timestamp_ms=self.cluster.clock.now_ms())
        except AppendError as error:
            raise ApiError(MAPPED_ERRORS.get(error.code, error.code)) from None


def _may_resume(found: Transaction, producer_id: int, epoch: int) -> bool:
    """KIP-360: a producer that knows its id and epoch may go on with them."""
    if producer_id == found.producer_id:
        return epoch in (found.epoch, found.last_epoch)
    return producer_id == found.previous_producer_id
