"""Regressions found by random requests (`bench/cluster_differential.py`): fetches and sessions.

The expected responses are those of a broker of 4.3.1.
"""

from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.codecs import Uuid
from quorate.codecs.api.broker import (
    FetchRequest,
    MetadataRequest,
)
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.wire import Wire
from tests.cluster.responses.requests import fetch_of
from tests.cluster.test_log import batch


def test_a_session_keeps_the_name_of_a_deleted_topic(cluster: EmbeddedCluster, wire: Wire, topic: Any) -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    by_id = (FetchTopic(topic_id=topic.id, partitions=(part,)),)
    session = wire.request(FetchRequest(max_wait_ms=0, session_epoch=0, topics=by_id), 13).session_id

    def code(epoch: int) -> int:
        requested = FetchRequest(max_wait_ms=0, session_id=session, session_epoch=epoch)
        found: int = wire.request(requested, 13).responses[0].partitions[0].error_code
        return found

    cluster.call(lambda: cluster.core.delete_topic(topic.name))
    assert code(1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.call(lambda: cluster.core.create_topic(topic.name, partitions=1, replicas=1))
    assert code(2) == ErrorCode.INCONSISTENT_TOPIC_ID
    alone = wire.request(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=by_id), 13)
    assert alone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_aborted_transactions_are_not_returned_if_no_batch_fits(wire: Wire, topic: Any) -> None:
    for log in (partition.log for partition in topic.partitions):
        log.append(batch(1), leader_epoch=0, now_ms=1)
    parts = tuple(FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1) for at in (0, 1))
    topics = (FetchTopic(topic=topic.name, partitions=parts),)
    reply = wire.request(FetchRequest(max_wait_ms=0, session_epoch=-1, isolation_level=1, topics=topics), 12)
    first, second = reply.responses[0].partitions
    assert (bool(first.records), first.aborted_transactions) == (True, ())
    assert (second.records, second.aborted_transactions) == (b"", None)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_fetch_fails_if_other_topics_follow_one_without_an_id(wire: Wire, topic: Any, epoch: int) -> None:
    part, another = (FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1 << 20) for at in (0, 1))
    nameless, strange = Uuid.ZERO, Uuid(b"\1" * 16)

    def code(*topics: tuple[Uuid, tuple[FetchPartition, ...]]) -> tuple[int, int]:
        requested = tuple(FetchTopic(topic_id=one, partitions=parts) for one, parts in topics)
        reply = wire.request(FetchRequest(max_wait_ms=0, session_epoch=epoch, topics=requested), 13)
        return reply.error_code, len(reply.responses)

    assert code((nameless, (part,)), (topic.id, (part,))) == (ErrorCode.NONE, 2)  # existing topics first
    assert code((strange, (part,)), (nameless, (part,))) == (ErrorCode.NONE, 2)
    assert code((nameless, (part,)), (strange, (part,))) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert code((nameless, (part, another))) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)


def test_a_negative_max_bytes_is_an_error_if_there_are_records(wire: Wire, topic: Any) -> None:
    for log in (partition.log for partition in topic.partitions):
        log.append(batch(1), leader_epoch=0, now_ms=1)
    reply = wire.request(fetch_of(topic, 0, 1, session_epoch=-1, max_bytes=-1), 12)
    parts = {part.partition_index: part for part in reply.responses[0].partitions}
    assert parts[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert parts[1].error_code == ErrorCode.NONE
    assert parts[1].records  # the first batch is returned although 0 bytes are left


def _indexes(response: Any) -> list[int]:
    return [part.partition_index for one in response.responses for part in one.partitions]


def test_a_session_without_partitions_ends(wire: Wire, topic: Any) -> None:
    session = wire.request(fetch_of(topic, 0, session_epoch=0), 12).session_id
    last = wire.request(fetch_of(topic, forgotten=(0,), session_id=session, session_epoch=1), 12)
    assert (last.error_code, last.session_id, last.responses) == (ErrorCode.NONE, 0, ())
    after = wire.request(fetch_of(topic, 0, session_id=session, session_epoch=2), 12)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_waiting_fetch_fails_if_its_session_was_used_meanwhile(
    cluster: EmbeddedCluster, clock: ManualClock, wire: Wire, topic: Any
) -> None:
    """Another connection forgets the partition that this one waits for."""
    session = wire.request(fetch_of(topic, 0, 1, session_epoch=0), 12).session_id
    wire.send(fetch_of(topic, session_id=session, session_epoch=1, max_wait_ms=1000), 12)
    with Wire(cluster.core.brokers[1].port) as other:
        gone_on = other.request(fetch_of(topic, forgotten=(0,), session_id=session, session_epoch=2), 12)
    assert gone_on.error_code == ErrorCode.NONE
    cluster.call(lambda: clock.advance(1000))
    waited = wire.receive(FetchRequest, 12)
    assert (waited.error_code, waited.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session)
    assert not cluster.core.failures


def test_a_session_begins_with_its_first_response(
    cluster: EmbeddedCluster, clock: ManualClock, wire: Wire, topic: Any
) -> None:
    sessions = cluster.core.brokers[1].fetch_sessions
    before = len(sessions)
    wire.send(fetch_of(topic, 0, session_epoch=0, max_wait_ms=1000), 12)
    with Wire(cluster.core.brokers[1].port) as other:
        other.request(MetadataRequest(topics=()), 9)  # after it
    assert len(sessions) == before
    cluster.call(lambda: clock.advance(1000))
    assert wire.receive(FetchRequest, 12).session_id > 0
    assert len(sessions) == before + 1


def test_the_first_response_does_not_reorder_the_partitions_of_a_new_session(
    cluster: EmbeddedCluster, wire: Wire, topic: Any
) -> None:
    for partition in topic.partitions:
        cluster.call(lambda log=partition.log: log.append(batch(1), leader_epoch=0, now_ms=1))
    session = wire.request(fetch_of(topic, 0, 1, session_epoch=0, max_bytes=1), 12).session_id
    for epoch, index in enumerate((0, 1, 0), start=1):
        reported = wire.request(fetch_of(topic, session_id=session, session_epoch=epoch, max_bytes=1), 12)
        assert _indexes(reported) == [index]


def test_only_stale_sessions_or_old_and_smaller_ones_are_evicted() -> None:
    clock = ManualClock()
    with EmbeddedCluster(properties={"max.incremental.fetch.session.cache.slots": 1}, clock=clock) as one:
        made = one.call(lambda: one.core.create_topic("t", partitions=2, replicas=1))
        with Wire(one.core.brokers[1].port) as wire:
            first = wire.request(fetch_of(made, 0, session_epoch=0), 12).session_id
            assert wire.request(fetch_of(made, 0, 1, session_epoch=0), 12).session_id == 0
            one.call(lambda: clock.advance(120_001))
            assert wire.request(fetch_of(made, session_id=first, session_epoch=1), 12).session_id == first
            assert wire.request(fetch_of(made, 0, session_epoch=0), 12).session_id == 0  # not larger
            larger = wire.request(fetch_of(made, 0, 1, session_epoch=0), 12).session_id
            assert larger > 0
            one.call(lambda: clock.advance(120_001))
            assert wire.request(fetch_of(made, 0, session_epoch=0), 12).session_id > larger
