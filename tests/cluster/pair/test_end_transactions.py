"""EndTxn in each state of a transaction: the embedded broker compared with a real one (issue 14).

Lasting states are played to both. Those that do not last are in `test_while_markers_are_written…`,
as in the bytecode of Kafka's `TransactionCoordinator`.
"""

import time
from itertools import count
from typing import Any

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.waiting import wait_for
from quorate.codecs.api.broker import (
    AddPartitionsToTxnRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.pair_play import Duel
from tests.cluster.test_transactions import begin, with_topics
from tests.extent import is_full

TOPIC = "ended"
_NUMBERS = count()


@pytest.fixture(scope="module")
def both(both: Duel) -> Duel:
    """Return both brokers, with a topic."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    both.pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    both.pair.settle()
    return both


class Producer:
    """A transactional producer on both brokers, with embedded ids."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.name = f"ends-{next(_NUMBERS)}"
        self.producer_id, self.epoch = -1, -1
        self.init()

    def init(self, *, resumes: bool = False, timeout_ms: int = 60_000) -> None:
        """InitProducerId; `resumes`: with its producer id and epoch."""
        known = {"producer_id": self.producer_id, "producer_epoch": self.epoch} if resumes else {}
        requested = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **known)
        reported = self.same(requested, 4)
        assert reported.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = reported.producer_id, reported.producer_epoch

    def add_by_broker(self) -> None:
        """Add partitions as a broker does for a producer (KIP-890)."""
        one = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
        )
        reported = self.same(AddPartitionsToTxnRequest(transactions=(one,)), 4).results_by_transaction[0]
        assert reported.topic_results[0].results_by_partition[0].partition_error_code == ErrorCode.NONE

    def add(self) -> None:
        requested = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,)),),
        )
        reported = self.same(requested, 3)
        assert reported.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.NONE

    def end(self, version: int, *, commit: bool, epoch_off: int = 0, other_id: int = 0) -> Any:
        """EndTxn; return the response, after the transaction has completed."""
        requested = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id + other_id,
            producer_epoch=self.epoch + epoch_off,
            committed=commit,
        )
        reported = self.same(requested, version)
        self.completed()
        if reported.error_code == ErrorCode.NONE and version >= 5:
            self.producer_id, self.epoch = reported.producer_id, reported.producer_epoch
        return reported

    def completed(self) -> Any:
        """Return the transaction's description, which is the same on both."""
        return self.same(DescribeTransactionsRequest(transactional_ids=(self.name,)), 0).transaction_states[0]

    def has_timed_out(self) -> bool:
        """Return whether both brokers have aborted the transaction, each by its own clock."""
        *both, _ = self.pair.request(DescribeTransactionsRequest(transactional_ids=(self.name,)), 0)
        return all(one.transaction_states[0].transaction_state == "CompleteAbort" for one in both)

    def same(self, request: Any, version: int) -> Any:
        ours, theirs, differences = self.pair.request(request, version)
        assert not differences, f"{differences[0]}\n{request}\n{theirs}"
        return ours


def _empty(producer: Producer) -> None:
    """The state after InitProducerId."""


def _begun_again(producer: Producer) -> None:
    producer.init()


def _ongoing(producer: Producer) -> None:
    producer.add()


def _ended(version: int, commit: bool) -> Any:
    def play(producer: Producer) -> None:
        producer.add()
        assert producer.end(version, commit=commit).error_code == ErrorCode.NONE

    return play


def _aborted_without_any(producer: Producer) -> None:
    assert producer.end(5, commit=False).error_code == ErrorCode.NONE


def _ended_and_begun_again(producer: Producer) -> None:
    _ended(5, True)(producer)
    producer.init()


def _ended_and_resumed(producer: Producer) -> None:
    _ended(5, True)(producer)
    producer.init(resumes=True)


def _ended_and_ongoing(producer: Producer) -> None:
    _ended(5, False)(producer)
    producer.add()


def _timed_out(by_broker: bool) -> Any:
    def play(producer: Producer) -> None:
        producer.init(timeout_ms=1)
        (producer.add_by_broker if by_broker else producer.add)()
        wait_for("both have aborted", producer.has_timed_out, 300_000)
        producer.completed()

    return play


def _ongoing_by_broker(producer: Producer) -> None:
    producer.add_by_broker()


STATES = {
    "empty": _empty,
    "begun again": _begun_again,
    "ongoing": _ongoing,
    "committed with v3": _ended(3, True),
    "aborted with v3": _ended(3, False),
    "committed with v5": _ended(5, True),
    "aborted with v5": _ended(5, False),
    "aborted without a transaction": _aborted_without_any,
    "ended, and begun again": _ended_and_begun_again,
    "ended, and resumed": _ended_and_resumed,
    "ended, and ongoing again": _ended_and_ongoing,
    "ongoing, added by a broker": _ongoing_by_broker,
    "timed out": _timed_out(by_broker=False),
    "timed out, added by a broker": _timed_out(by_broker=True),
}


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("state", STATES)
def test_end_txn_has_the_result_of_a_real_broker(both: Duel, state: str, commit: bool) -> None:
    """Commit and abort, with epochs near the producer's, before and since v5; and retries.

    Of the versions before v5, make test has one in each state: each of them in several states.
    """
    older = (1, 2, 4)
    place = (list(STATES).index(state) + commit) % len(older)
    for version in (*(older if is_full() else older[place : place + 1]), 5):
        for epoch_off in (-2, -1, 0, 1):
            producer = Producer(both.pair)
            STATES[state](producer)
            before = producer.epoch
            producer.end(version, commit=commit, epoch_off=epoch_off)
            again = before + epoch_off - producer.epoch
            producer.end(version, commit=commit, epoch_off=again)
            producer.end(version, commit=not commit, epoch_off=before + epoch_off - producer.epoch)
    producer = Producer(both.pair)
    STATES[state](producer)
    producer.end(5, commit=commit, other_id=100_000)


def test_the_last_stable_offset_is_the_base_offset_of_a_batch_as_of_a_real_broker(both: Duel) -> None:
    """Of an open transaction whose first records were deleted, even before the log start offset."""
    producer = Producer(both.pair)
    producer.add()
    records = [BatchRecord(offset=at, timestamp_ms=int(time.time() * 1000), key=b"k", value=b"v") for at in range(3)]
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "transactional": True}

    def latest(isolation_level: int) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = (ListOffsetsTopic(name=TOPIC, partitions=(partition,)),)
        listed = producer.same(ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics), 8)
        return int(listed.topics[0].partitions[0].offset)

    start = latest(0)
    for sequence in (0, 3):
        part = PartitionProduceData(index=0, records=encode_batch(records, base_sequence=sequence, **ids))
        topics = (TopicProduceData(name=TOPIC, partition_data=(part,)),)
        producer.same(ProduceRequest(transactional_id=producer.name, acks=-1, timeout_ms=5000, topic_data=topics), 9)
    found = []
    for deleted in range(1, 7):
        partition = DeleteRecordsPartition(partition_index=0, offset=start + deleted)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=(partition,))
        producer.same(DeleteRecordsRequest(topics=(topic,), timeout_ms=5000), 2)
        found.append(latest(1) - start)
    assert found == [0, 0, 3, 3, 3, 6]
    producer.end(5, commit=True)


_CONCURRENT, _STATE, _FENCED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
)


@pytest.mark.parametrize(
    ("raised", "bump_epoch", "epoch_off", "same", "other"),
    [
        (True, True, -1, _CONCURRENT, _STATE),
        (True, True, 0, _FENCED, _FENCED),
        (True, True, 1, _FENCED, _FENCED),
        (True, False, -1, _FENCED, _FENCED),
        (True, False, 0, _CONCURRENT, _STATE),
        (False, True, 0, _FENCED, _FENCED),
        (False, False, 0, _CONCURRENT, _STATE),
    ],
)
@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_written_a_retry_is_concurrent_and_another_end_is_invalid(
    raised: bool, bump_epoch: bool, epoch_off: int, same: ErrorCode, other: ErrorCode, commit: bool
) -> None:
    """`raised`: the pending end bumped the epoch; `epoch_off`: relative to it."""
    core = with_topics(None, ManualClock())
    producer_id, epoch = begin(core)
    core.topics["orders"].partitions[0].log.append_marker = _fails  # type: ignore[method-assign]
    core.transactions.end("t", producer_id, epoch, commit=commit, bump_epoch=raised)
    for direction, code in ((commit, same), (not commit, other)):
        with pytest.raises(ApiError) as refused:
            core.transactions.end("t", producer_id, epoch + raised + epoch_off, commit=direction, bump_epoch=bump_epoch)
        assert refused.value.code is code


def _fails(*_: Any, **__: Any) -> int:
    raise AppendError(ErrorCode.KAFKA_STORAGE_ERROR)
