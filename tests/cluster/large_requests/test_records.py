"""Large batches: they are validated and compacted in a thread (issue 14)."""

import threading
import tracemalloc
from struct import pack
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cluster import EmbeddedCluster, record_checks
from quorate.cluster import turns as turns_module
from quorate.cluster.apis import produce
from quorate.cluster.log import PartitionLog
from quorate.cluster.request_handler import _has_few_partitions
from quorate.codecs import LogError
from quorate.codecs.api import encode_api
from quorate.codecs.api.broker import ProduceRequest
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.compression import compress
from quorate.codecs.columnar import record_facts
from quorate.codecs.log import compaction
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_limits import eventually


def test_a_batch_of_many_records_is_validated_in_a_thread(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """725 bytes with a million records took 7.4 s in the loop and 328 MB (issue 14)."""
    threads: list[int] = []
    checked = record_facts.record_facts

    def checking(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return checked(*arguments)

    monkeypatch.setattr(record_facts, "record_facts", checking)
    config = {"compression.type": "gzip", "max.message.bytes": "100000"}
    cluster.call(lambda: cluster.core.create_topic("t", partitions=1, config=config))
    batch = identical_records(200_000)
    assert len(batch) < 1_000
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=batch),))
    with Wire(cluster.core.brokers[1].port, timeout_s=60) as wire:
        response = wire.request(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
    # With distinct offsets, as brokers write them, the compressed records are larger.
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert threads
    assert cluster.call(threading.get_ident) not in threads


def test_a_batch_that_takes_long_to_decompress_is_validated_in_a_thread(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of empty gzip members took 5 s in the loop (issue 14)."""
    threads: list[int] = []
    original = produce.validated

    def checking(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return original(*arguments)

    monkeypatch.setattr(produce, "validated", checking)
    cluster.call(lambda: cluster.core.create_topic("t", partitions=1))
    batch = encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=None, value=b"x")], compression="gzip")
    after_crc = batch[21:] + compress("gzip", b"") * 5_000
    batch = pack(">qiibI", 0, 9 + len(after_crc), -1, 2, google_crc32c.value(after_crc)) + after_crc
    data = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=batch),))
    with Wire(cluster.core.brokers[1].port) as wire:
        response = wire.request(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert threads
    assert cluster.call(threading.get_ident) not in threads


@pytest.mark.parametrize(("partitions", "calls"), [(1, 0), (19, 0), (20, 1)])
def test_a_large_request_of_few_partitions_is_decoded_in_the_loop(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, partitions: int, calls: int
) -> None:
    """Each call of the thread takes 0.2 ms."""
    monkeypatch.setattr(turns_module, "_TURN_S", 10)  # else the request takes several turns
    called: list[Any] = []
    turns = cluster.core.turns
    original = turns.in_thread

    def counting(function: Any, *callbacks: Any) -> None:
        called.append(function)
        original(function, *callbacks)

    monkeypatch.setattr(turns, "in_thread", counting)
    cluster.call(lambda: cluster.core.create_topic("t", partitions=partitions))
    batch = encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=None, value=bytes((300 << 10) // partitions))])
    every = tuple(PartitionProduceData(index=index, records=batch) for index in range(partitions))
    data = TopicProduceData(name="t", partition_data=every)
    with Wire(cluster.core.brokers[1].port) as wire:
        response = wire.request(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=(data,)), 9)
    assert [one.error_code for one in response.responses[0].partition_responses] == [0] * partitions
    assert len(called) == calls


_TOPIC = st.builds(
    TopicProduceData,
    name=st.text(max_size=3),
    partition_data=st.lists(
        st.builds(
            PartitionProduceData,
            index=st.integers(0, 9),
            records=st.sampled_from([None, b"", b"x", bytes(127), bytes(200)]),
        ),
        max_size=12,
    ).map(tuple),
)


@given(
    topics=st.lists(_TOPIC, max_size=12).map(tuple),
    transactional_id=st.none() | st.text(max_size=200),
    version=st.sampled_from([one for one in ProduceRequest.spec.versions if one >= 9]),
    data=st.data(),
)
def test_few_partitions_are_counted_as_they_are_decoded(
    topics: tuple[TopicProduceData, ...], transactional_id: str | None, version: int, data: st.DataObject
) -> None:
    request = ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1, topic_data=topics)
    frame = b"header" + encode_api(request, version)
    count = len(topics) + sum(len(one.partition_data) for one in topics)
    assert _has_few_partitions(version, frame, 6) == (count <= 20)
    cut = frame[: data.draw(st.integers(6, len(frame)))]
    assert not _has_few_partitions(version, cut, 6) or len(frame) - len(cut) <= 1  # the last byte is for tagged fields


def test_recompressing_a_small_batch_takes_memory_only_for_the_result() -> None:
    """A list of its records took 328 MB for 725 bytes (issue 14)."""
    policy = record_checks.TopicPolicy(
        name="t-0", compression="gzip", compacted=False, append_time=False, before_max_ms=1 << 62, after_max_ms=1 << 62
    )
    count = 50_000
    tracemalloc.start()
    try:
        record_checks.validated(identical_records(count), policy, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * count


def identical_records(count: int) -> bytes:
    """Return a batch of identical records, with the same offset delta."""
    record = b"\x0c\0\0\0\x01\x01\0"
    body = compress("zstd", record * count)
    after_crc = pack(">hiqqqhii", 4, count - 1, 0, 0, -1, -1, -1, count) + body
    return pack(">qiibI", 0, 9 + len(after_crc), -1, 2, google_crc32c.value(after_crc)) + after_crc


def test_a_large_batch_is_compacted_in_a_thread_and_its_damage_is_reported(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """181,665 records took 1.0 s in the loop (issue 14)."""
    core = cluster.core
    threads: list[tuple[int, int]] = []
    original = compaction._records

    def reading(segment: Any, batch: Any) -> Any:
        threads.append((batch.header.count, threading.get_ident()))
        return original(segment, batch)

    monkeypatch.setattr(compaction, "_records", reading)
    loop = cluster.call(threading.get_ident)
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}

    def compact(*batches: bytes) -> PartitionLog:
        core.create_topic(f"t{len(core.topics)}", partitions=1, config=config)
        log = core.topics[f"t{len(core.topics) - 1}"].partitions[0].log
        for batch in batches:
            log.append(batch, leader_epoch=0, now_ms=core.clock.now_ms())
        log.roll(core.clock.now_ms())
        core.maintenance.compact()
        return log

    def same(count: int, compression: str = "none") -> bytes:
        now_ms = core.clock.now_ms()
        records = [BatchRecord(offset=at, timestamp_ms=now_ms, key=b"k", value=b"v") for at in range(count)]
        return encode_batch(records, compression=compression)

    log = cluster.call(lambda: compact(same(2), same(5_000), same(3, "gzip")))
    eventually(lambda: core.maintenance._cleaning is None)
    offsets = [record.offset for stored in log for record in next(read_batches(stored.data)).records()]  # type: ignore[union-attr]
    assert offsets == [5_004]
    assert {(count, thread == loop) for count, thread in threads} == {(2, True), (5_000, False), (3, False)}

    def damaged(segment: Any, batch: Any) -> Any:
        raise LogError("no record")

    monkeypatch.setattr(compaction, "_records", damaged)
    cluster.call(lambda: compact(same(5_000)))
    eventually(lambda: core.maintenance._cleaning is None)
    assert any(note.endswith("could not be compacted: no record") for note in core.notes)
    assert not core.failures


def test_a_stopping_cluster_does_not_wait_for_a_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    original = compaction._records

    def reading(segment: Any, batch: Any) -> Any:
        begun.set()
        may_end.wait(10)
        return original(segment, batch)

    monkeypatch.setattr(compaction, "_records", reading)
    cluster = EmbeddedCluster(properties=QUICK)
    core = cluster.core
    with cluster:

        def compact() -> None:
            config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
            log = core.create_topic("t", partitions=1, config=config).partitions[0].log
            for _ in range(2):
                records = [BatchRecord(offset=at, timestamp_ms=1, key=b"k", value=b"v") for at in range(5_000)]
                log.append(encode_batch(records), leader_epoch=0, now_ms=core.clock.now_ms())
            log.roll(core.clock.now_ms())
            core.maintenance.compact()

        cluster.call(compact)
        assert begun.wait(10)
        core.maintenance.stop()
        may_end.set()
    assert core.maintenance._cleaning is None
    assert not core.failures
