"""Producer ids and transactions: InitProducerId to EndTxn, and their descriptions."""

from typing import Any

from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.checks.fetch import offsets_at, read
from quorate.integration.verify.checks.offsets import fetch, offsets_of
from quorate.integration.verify.session import CheckSession


def producer(s: CheckSession, name: str, *, compared: bool = False, **more: Any) -> dict[str, Any]:
    """Get a producer id for a transactional id; returns the fields of a producer."""
    fields = {"transactional_id": name, "transaction_timeout_ms": 60_000, **more}
    response = s.ask("InitProducerId", 4, compared=compared, **fields)
    return {"producer_id": response.producer_id, "producer_epoch": response.producer_epoch}


def add_partitions(name: str, own: dict[str, Any], topic: str, *partitions: int) -> dict[str, Any]:
    """Return the fields of AddPartitionsToTxn v3."""
    return {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": own["producer_id"],
        "v3_and_below_producer_epoch": own["producer_epoch"],
        "v3_and_below_topics": [{"name": topic, "partitions": list(partitions or (0,))}],
    }


def begin(s: CheckSession, *values: bytes, topic: str = "") -> tuple[str, str, dict[str, Any]]:
    """Write records in a new transaction; returns topic, transactional id and producer."""
    topic, name = topic or s.topic(), s.name("x")
    own = producer(s, name)
    s.ask("AddPartitionsToTxn", 3, **add_partitions(name, own, topic))
    s.produce(topic, *values, transactional_id=name, transactional=True, base_sequence=0, **own)
    return topic, name, own


def commit(s: CheckSession, name: str, own: dict[str, Any], group: str, topic: str, **more: Any) -> None:
    """Commit offset 7 in the transaction."""
    topics = [{"name": topic, "partitions": offsets_of(7)}]
    s.ask("TxnOffsetCommit", 3, transactional_id=name, group_id=group, topics=topics, **own, **more)


def end(s: CheckSession, name: str, own: dict[str, Any], *, committed: bool = True, compared: bool = True) -> None:
    """Send EndTxn."""
    s.ask("EndTxn", 3, compared=compared, transactional_id=name, committed=committed, **own)


@check("KIP-98", "InitProducerId without a transactional id returns a new producer id at epoch 0.")
def producer_without_transactions(s: CheckSession) -> None:
    s.ask("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1)


@check("KIP-98", "InitProducerId with an empty transactional id is an INVALID_REQUEST.")
def transactional_id_must_not_be_empty(s: CheckSession) -> None:
    s.ask("InitProducerId", 4, transactional_id="", transaction_timeout_ms=1)


@check("KIP-98", "A transaction timeout of 0, or above transaction.max.timeout.ms, is an INVALID_TRANSACTION_TIMEOUT.")
def transaction_timeout_has_a_limit(s: CheckSession) -> None:
    for timeout_ms in (0, 2_000_000_000):
        s.ask("InitProducerId", 4, transactional_id=s.name("x"), transaction_timeout_ms=timeout_ms)


@check("KIP-98", "InitProducerId of a known transactional id returns the same producer id and the next epoch.")
def next_producer_has_the_next_epoch(s: CheckSession) -> None:
    name = s.name("x")
    for _ in range(3):
        producer(s, name, compared=True)


@check("KIP-360", "InitProducerId with the current id and epoch increments the epoch; with an older one it is fenced.")
def producer_can_increment_its_epoch(s: CheckSession) -> None:
    name = s.name("x")
    first = producer(s, name)
    producer(s, name, compared=True, **first)
    producer(s, name)
    producer(s, name, compared=True, **first)
    producer(s, name, compared=True, producer_id=first["producer_id"] + 1, producer_epoch=0)


@check(
    "KIP-98",
    "AddPartitionsToTxn of another producer id is INVALID_PRODUCER_ID_MAPPING, of an older epoch PRODUCER_FENCED.",
)
def partitions_need_the_current_producer(s: CheckSession) -> None:
    topic, name = s.topic(), s.name("x")
    own = producer(s, name)
    s.ask("AddPartitionsToTxn", 3, **add_partitions(s.name("none"), own, topic))
    other = {**own, "producer_id": own["producer_id"] + 1}
    s.ask("AddPartitionsToTxn", 3, **add_partitions(name, other, topic))
    producer(s, name)
    s.ask("AddPartitionsToTxn", 3, **add_partitions(name, own, topic))


@check("KIP-98", "AddPartitionsToTxn with an unknown partition adds none: OPERATION_NOT_ATTEMPTED for the others.")
def partitions_of_a_transaction_have_to_exist(s: CheckSession) -> None:
    topic, name = s.topic(), s.name("x")
    s.ask("AddPartitionsToTxn", 3, **add_partitions(name, producer(s, name), topic, 0, 9))


@check("KIP-98", "read_committed sees the records of a transaction after it is committed.")
def committed_records_are_visible(s: CheckSession) -> None:
    topic, name, own = begin(s, b"a", b"b")
    read(s, topic, isolation_level=1, max_wait_ms=0)
    end(s, name, own)
    read(s, topic, isolation_level=1, records=3)


@check("KIP-98", "A fetch with read_committed lists the aborted transactions of the records that it returns.")
def aborted_records_are_listed(s: CheckSession) -> None:
    topic, name, own = begin(s, b"a")
    end(s, name, own, committed=False)
    read(s, topic, isolation_level=1, records=2)
    read(s, topic, isolation_level=0, records=2)


@check("KIP-98", "ListOffsets with read_committed returns the first offset of the oldest open transaction.")
def last_stable_offset_ends_before_open_transactions(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"before")
    begin(s, b"a", topic=topic)
    for level in (0, 1):
        s.ask("ListOffsets", 7, isolation_level=level, **offsets_at(topic, -1))


@check("KIP-98", "EndTxn before version 5 without partitions is an INVALID_TXN_STATE.")
def transaction_without_partitions_cannot_end(s: CheckSession) -> None:
    name = s.name("x")
    own = producer(s, name)
    end(s, name, own)
    end(s, s.name("none"), own)


@check("KIP-98", "EndTxn that repeats the result succeeds; with the opposite result it is an INVALID_TXN_STATE.")
def transaction_can_be_ended_again(s: CheckSession) -> None:
    _, name, own = begin(s, b"a")
    for committed in (True, True, False):
        end(s, name, own, committed=committed)


@check("KIP-98", "EndTxn of a producer with an older epoch is PRODUCER_FENCED, and its transaction was aborted.")
def older_producer_cannot_end(s: CheckSession) -> None:
    topic, name, own = begin(s, b"a")
    producer(s, name, compared=True)
    end(s, name, own)
    read(s, topic, isolation_level=1, records=2)


@check("KIP-98", "A batch of a producer with an older epoch is an INVALID_PRODUCER_EPOCH.")
def older_producer_cannot_write(s: CheckSession) -> None:
    topic, name, own = begin(s, b"a")
    end(s, name, own, compared=False)
    newer = producer(s, name)
    s.ask("AddPartitionsToTxn", 3, compared=False, **add_partitions(name, newer, topic))
    s.produce(topic, b"b", transactional_id=name, transactional=True, base_sequence=0, **newer)
    s.produce(topic, b"c", transactional_id=name, transactional=True, base_sequence=1, **own)


@check("KIP-890", "A transactional batch for a partition that was not added is an INVALID_TXN_STATE.")
def writes_are_verified(s: CheckSession) -> None:
    topic, name = s.topic(), s.name("x")
    own = producer(s, name)
    s.produce(topic, b"a", transactional_id=name, transactional=True, base_sequence=0, **own)


@check("KIP-98", "Offsets of an open transaction are not fetched; with require_stable they are UNSTABLE_OFFSET_COMMIT.")
def offsets_of_a_transaction_are_pending(s: CheckSession) -> None:
    group, topic, name = s.name(), s.topic(), s.name("x")
    own = producer(s, name)
    s.ask("AddOffsetsToTxn", 3, transactional_id=name, group_id=group, **own)
    commit(s, name, own, group, topic)
    fetch(s, group, topic, 0)
    fetch(s, group, topic, 0, require_stable=True)
    end(s, name, own)
    fetch(s, group, topic, 0, until=lambda response: response.groups[0].topics[0].partitions[0].committed_offset == 7)


@check("KIP-447", "TxnOffsetCommit with a member that the group does not have is rejected.")
def offsets_of_a_transaction_need_the_generation(s: CheckSession) -> None:
    group, topic, name = s.name(), s.topic(), s.name("x")
    own = producer(s, name)
    s.ask("AddOffsetsToTxn", 3, compared=False, transactional_id=name, group_id=group, **own)
    for member_id, generation in (("nobody", 3), ("", 3), ("nobody", -1)):
        commit(s, name, own, group, topic, member_id=member_id, generation_id_or_member_epoch=generation)
    commit(s, name, own, "", topic)


@check(
    "KIP-664",
    "DescribeTransactions returns state, producer and partitions; a missing id is TRANSACTIONAL_ID_NOT_FOUND.",
)
def transactions_are_described(s: CheckSession) -> None:
    topic, name = s.topic(), s.name("x")
    own = producer(s, name)
    s.ask("DescribeTransactions", 0, transactional_ids=[name])
    s.ask("AddPartitionsToTxn", 3, compared=False, **add_partitions(name, own, topic))
    s.ask("DescribeTransactions", 0, transactional_ids=[name])
    s.ask("DescribeTransactions", 0, transactional_ids=[s.name("none")])
    s.ask("DescribeTransactions", 0, transactional_ids=[""])


CHECKS = checks_in(globals())
