"""Conversion of transactions to records of `__transaction_state` and back.

Partitions are in Kafka's order (a HashSet, grouped in a HashMap).
"""

from collections.abc import Iterable
from enum import IntEnum

from quorate.assignors.java_order import JavaHashSet
from quorate.codecs import CoordinatorRecord
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import TRANSACTION_STATE
from quorate.codecs.messages.transaction import PartitionsSchema, TransactionLogKey, TransactionLogValue

_MIN_ARRAY_SIZE = 50
"""Fewer partitions are inserted one by one, which is faster than arrays."""


class Status(IntEnum):
    """Transaction states, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


COMPLETION_OF = {Status.PREPARE_COMMIT: Status.COMPLETE_COMMIT, Status.PREPARE_ABORT: Status.COMPLETE_ABORT}
"""PREPARE state → state after all markers are written."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """The state of a transactional id.

    `partitions`: (topic, partition) of the open transaction, in the order in which they were added.
    `previous_producer_id`: the producer id before the last change. `next_producer_id`: the producer
    id after the transaction, -1 for the same. `last_epoch`: the previous epoch, not in the log.
    `version`: the client's transaction version (2: KIP-890).
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: tuple[tuple[str, int], ...] = ()
    start_ms: int = -1
    updated_ms: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    last_epoch: int = -1
    version: int = 0

    @property
    def commits(self) -> bool:
        """Whether the transaction is being committed, or was."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)


def record_of(transaction: Transaction, version: int) -> CoordinatorRecord:
    """Return the record of a transactional id.

    `version`: 1 if the feature `transaction.version` is at least 1, else 0.
    """
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id if version else -1,
        next_producer_id=transaction.next_producer_id if version else -1,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.status),
        transaction_partitions=None if transaction.status is Status.EMPTY else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version if version else 0,
    )
    return CoordinatorRecord(
        key=_key(transaction.transactional_id), value=value, version=version, topic=TRANSACTION_STATE
    )


def _by_topic(partitions: tuple[tuple[str, int], ...]) -> tuple[PartitionsSchema, ...]:
    """Return the partitions of each topic, in the order of a HashSet of partitions."""
    topics: dict[str, list[int]] = {}
    for topic, index in _set_order(partitions):
        topics.setdefault(topic, []).append(index)
    names: JavaHashSet[str] = JavaHashSet()
    for name in topics:
        names.add(name)
    return tuple(PartitionsSchema(topic=name, partition_ids=tuple(topics[name])) for name in names)


def _set_order(partitions: tuple[tuple[str, int], ...]) -> Iterable[tuple[str, int]]:
    """Return partitions in the order of a HashSet to which they were added one by one.

    Many partitions are ordered by arrays, as a transaction may have tens of thousands.
    """
    if len(partitions) < _MIN_ARRAY_SIZE:
        ordered: JavaHashSet[tuple[str, int]] = JavaHashSet()
        for partition in partitions:
            ordered.add(partition)
        return ordered
    import numpy as np

    from quorate.assignors.java_order import hash_map_order, partition_hashes, string_hashes

    keys = list(dict.fromkeys(partitions))
    topics, indexes = zip(*keys, strict=True)
    names = list(dict.fromkeys(topics))
    hash_of = dict(zip(names, string_hashes(names).tolist(), strict=True))
    topic_hashes = np.fromiter(map(hash_of.__getitem__, topics), np.int64, len(keys))
    hashes = partition_hashes(topic_hashes, np.array(indexes, np.int64))
    return map(keys.__getitem__, hash_map_order(hashes, keys=keys).tolist())


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    """Return the tombstone of a transactional id."""
    return CoordinatorRecord(key=_key(transactional_id), value=None, version=None, topic=TRANSACTION_STATE)


def _key(transactional_id: str) -> TransactionLogKey:
    return TransactionLogKey(transactional_id=transactional_id)


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """Return the transaction of a record. Raises `ValueError` for an unknown state."""
    status = Status(value.transaction_status)
    listed = () if status is Status.EMPTY else value.transaction_partitions or ()
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        status=status,
        partitions=tuple((topic.topic, index) for topic in listed for index in topic.partition_ids),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        version=value.client_transaction_version,
    )
