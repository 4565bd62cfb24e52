"""Our transaction coordinators write the same records as real brokers, in captured histories."""

from dataclasses import replace
from random import Random

import pytest

from quorate.assignors.java_order import JavaHashSet
from quorate.cluster import ManualClock
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.codecs import CoordinatorRecord, encode_record, read_log
from quorate.codecs.message import TRANSACTION_STATE
from quorate.codecs.messages.transaction import TransactionLogKey, TransactionLogValue
from quorate.coordinator.transactions.records import Status, Transaction, record_of, transaction_of
from tests.cluster.storage.test_restart import quiet_core
from tests.codecs.helpers.captures import PARTITIONS, CapturedPartition

CAPTURED = [partition for partition in PARTITIONS if partition.topic == TRANSACTION_STATE]


def written(captured: CapturedPartition) -> list[tuple[CoordinatorRecord, bytes | None, bytes | None]]:
    found = []
    for entry in read_log(captured.folder):
        assert isinstance(entry.record, CoordinatorRecord)
        found.append((entry.record, entry.key_bytes, entry.value_bytes))
    return found


def states(captured: CapturedPartition) -> list[Transaction]:
    found = []
    for record, _, _ in written(captured):
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        found.append(transaction_of(record.key, record.value))
    return found


@pytest.mark.parametrize("captured", CAPTURED, ids=str)
def test_records_of_brokers_are_encoded_again_byte_for_byte_in_any_order_of_partitions(
    captured: CapturedPartition,
) -> None:
    random = Random(1)
    for (record, key, value), state in zip(written(captured), states(captured), strict=True):
        shuffled = list(state.partitions)
        random.shuffle(shuffled)
        assert record.version is not None
        again = record_of(replace(state, partitions=tuple(shuffled)), record.version)
        assert encode_record(again) == (key, value)


@pytest.mark.parametrize("captured", CAPTURED, ids=str)
def test_the_requests_of_captured_histories_result_in_the_same_records(captured: CapturedPartition) -> None:
    """Producer ids are the brokers'; times are not compared."""
    newer = not captured.folder.parent.name.startswith("classic")
    clock = ManualClock()
    core = quiet_core(None, clock)
    core.change_features({**core.features, "transaction.version": 2 if newer else 0})
    topic = core.internal_topic(TRANSACTION_STATE)
    theirs = states(captured)
    known: dict[str, Transaction] = {}
    for place, state in enumerate(theirs):
        name = state.transactional_id
        was = known.get(name)
        known[name] = state
        match state.status:
            case Status.EMPTY:
                core.transactions.new_producer_id = lambda fresh=state.producer_id: fresh  # type: ignore[method-assign,misc]
                core.transactions.init_producer_id(name, state.timeout_ms, -1, -1)
            case Status.ONGOING:
                added = [one for one in state.partitions if was is None or one not in was.partitions]
                core.transactions.add_partitions(name, state.producer_id, state.epoch, added, version=state.version)
            case Status.PREPARE_COMMIT | Status.PREPARE_ABORT:
                assert was is not None
                timed_out = state.updated_ms - state.start_ms > state.timeout_ms
                later = [one for one in theirs[place + 1 :] if one.transactional_id == name][1:2]
                fenced = bool(later) and later[0].status is Status.EMPTY
                if timed_out:
                    clock.advance(state.timeout_ms)
                elif not fenced:  # else done by `begin`
                    commit = state.status is Status.PREPARE_COMMIT
                    raised = state.version >= 2
                    core.transactions.end(name, was.producer_id, was.epoch, commit=commit, bump_epoch=raised)

    def bare(found: list[Transaction]) -> dict[str, list[Transaction]]:
        """Return transactions by id, without fields that may differ, as in records."""
        by_id: dict[str, list[Transaction]] = {}
        for one in found:
            kept = replace(one, start_ms=0, updated_ms=0, last_epoch=0, partitions=tuple(sorted(one.partitions)))
            kept = kept if newer else replace(kept, previous_producer_id=-1)
            by_id.setdefault(one.transactional_id, []).append(kept)
        return by_id

    ours = [
        transaction_of(stored.record.key, stored.record.value)  # type: ignore[union-attr,arg-type]
        for partition in topic.partitions
        for stored in PartitionCoordinatorLog(partition).read()
    ]
    assert bare(ours) == bare(theirs)
    assert len(ours) == len(theirs) > 4


@pytest.mark.parametrize("kind", range(3))
def test_many_partitions_are_in_the_order_of_a_hash_set_whatever_their_topics(kind: int) -> None:
    """Topics with short numbers and with equal hashes crowd buckets, which then become trees."""
    random = Random(kind)
    for _ in range(40):
        count, topics = int(10 ** random.uniform(1.5, 3)), int(10 ** random.uniform(0, 2))
        partitions: dict[tuple[str, int], None] = {}
        for _ in range(count):
            equal = "".join(random.choice(("Aa", "BB")) for _ in range(4))
            name = (f"t{random.randrange(topics)}", f"topic-{random.random()}", equal)[kind]
            partitions[name, random.randrange(count // 3)] = None
        keys: JavaHashSet[tuple[str, int]] = JavaHashSet()
        names: JavaHashSet[str] = JavaHashSet()
        for partition in partitions:
            keys.add(partition)
        by_topic: dict[str, list[int]] = {}
        for name, index in keys:
            names.add(name)
            by_topic.setdefault(name, []).append(index)
        state = Transaction(
            transactional_id="x",
            producer_id=1,
            epoch=0,
            timeout_ms=1,
            status=Status.ONGOING,
            partitions=tuple(partitions),
        )
        value = record_of(state, 1).value
        assert isinstance(value, TransactionLogValue)
        found = [(partition.topic, list(partition.partition_ids)) for partition in value.transaction_partitions or ()]
        assert found == [(name, by_topic[name]) for name in names]
