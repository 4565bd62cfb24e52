"""Transactions: record type 0 of `__transaction_state`."""

from quorate.codecs.message import TRANSACTION_STATE, Message, field, key, struct, tagged, value
from quorate.codecs.wire import Array, Int8, Int16, Int32, Int64, String


@key(0, since="0.11", topic=TRANSACTION_STATE)
class TransactionLogKey(Message):
    """The transactional id."""

    transactional_id: String


@struct
class PartitionsSchema(Message):
    """Partitions of one topic that take part in the transaction."""

    topic: String
    partition_ids: Array[Int32]


@value(TransactionLogKey, versions=range(0, 2), flexible_since=1)
class TransactionLogValue(Message):
    """State of a transaction.

    Kafka writes version 1 if the feature `transaction.version` is at least 1 (KIP-890), else 0.

    `transaction_status`: 0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit,
    5 complete abort, 6 dead, 7 prepare epoch fence.
    """

    producer_id: Int64
    previous_producer_id: Int64 = tagged(0, since=1, default=-1, release="4.0")
    next_producer_id: Int64 = tagged(1, since=1, default=-1, release="4.0")
    producer_epoch: Int16
    next_producer_epoch: Int16 = tagged(3, since=1, default=-1, release="4.1")
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Array[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64 = field(default=0)
    client_transaction_version: Int16 = tagged(2, since=1, default=0, release="4.0")
