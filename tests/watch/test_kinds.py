"""Kinds of events, each from the records, clients or limits that lead to it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.interface import TEST_PROPERTIES
from quorate.codecs import Uuid, encode_record
from quorate.codecs.log.raw import RawBlock
from quorate.codecs.message import Message
from quorate.codecs.messages import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from quorate.codecs.record_model import CoordinatorRecord
from quorate.watch import (
    EventKind,
    NewTopicId,
    Observer,
    ResetByAdmin,
    ResetByClient,
    WatchEvent,
    WatchLimits,
    event,
    rebalance,
)
from quorate.watch.partition import FollowedPartition
from quorate.watch.topics import KnownTopics
from tests.integration.test_watch import LIMIT_S, commit, consumer, produce, wait_for_commit
from tests.watch.helpers.members import member

HOUR_MS = 3_600_000
T0 = 1_790_000_000_000

VERSIONS = {
    OffsetCommitKey: 4,
    ConsumerGroupMemberMetadataKey: 0,
    ConsumerGroupMetadataKey: 0,
    ConsumerGroupTargetAssignmentMetadataKey: 0,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedCluster]:
    quick = {f"group.consumer.{name}heartbeat.interval.ms": 100 for name in ("", "min.")}
    with EmbeddedCluster(racks=["a"], properties={**TEST_PROPERTIES, **quick}) as cluster:
        cluster.create_topic("orders", partitions=2, replicas=1)
        yield cluster


@contextmanager
def observed(kafka: EmbeddedCluster, **limits: int) -> Iterator[Observer]:
    """An observer that samples lags on request only."""
    with Observer(kafka.bootstrap_servers, interval_s=600, limits=WatchLimits(**limits)) as observer:
        observer.wait_until_caught_up()
        yield observer


def of_kind(observer: Observer, kind: EventKind, group_id: str) -> WatchEvent:
    return observer.wait_for(event(kind, group=group_id), LIMIT_S)


def test_a_lag_over_the_limit_is_reported_once_and_then_its_end(kafka):
    produce(kafka, "orders", {0: [T0, T0 + HOUR_MS]})
    with observed(kafka, lag_ms=HOUR_MS - 1) as observer, consumer(kafka, "orders", "late") as one:
        commit(one, "orders", {0: 0})
        wait_for_commit(observer, "late", "orders", {0: 0})
        observer.sample()
        observer.sample()
        over = of_kind(observer, EventKind.LAG_OVER, "late")
        assert (over.sentence, over.facts) == ("the lag is 3,600.0 s, over 3600 s", ("lag in records: 2",))
        commit(one, "orders", {0: 2})
        wait_for_commit(observer, "late", "orders", {0: 2})
        observer.sample()
        under = of_kind(observer, EventKind.LAG_UNDER, "late")
        assert under.sentence == "the lag is 0.0 s, not over 3600 s"
        kinds = [EventKind.LAG_OVER, EventKind.LAG_UNDER]
        assert [one.id for one in observer.events(group_id="late", kinds=kinds)] == [under.id, over.id]


def test_a_client_that_comes_back_often_is_flapping(kafka):
    with observed(kafka, flapping_joins=3) as observer:
        for _ in range(2):
            with consumer(kafka, "orders", "restless", client_id="shaky"):
                pass
        assert not observer.events(group_id="restless", kinds=[EventKind.FLAPPING])
        with consumer(kafka, "orders", "restless", client_id="shaky"):
            found = of_kind(observer, EventKind.FLAPPING, "restless")
        with consumer(kafka, "orders", "restless", client_id="shaky"):
            pass
        assert found.sentence.startswith("shaky on ")
        assert found.sentence.endswith("joined 3 times within 5 min")
        assert len(found.facts) == 3
        observer.wait_for(rebalance(group="restless", epoch=8), LIMIT_S)
        assert len(observer.events(group_id="restless", kinds=[EventKind.FLAPPING])) == 1


def test_a_member_that_does_not_revoke_is_stuck(kafka):
    held = threading.Event()
    with ExitStack() as stack:
        observer = stack.enter_context(observed(kafka, stuck_ms=200))
        stack.enter_context(member(kafka, "orders", "slow", "consumer", on_revoke=lambda *_: held.wait(LIMIT_S)))
        first = observer.wait_for(rebalance(group="slow"), LIMIT_S)
        stack.enter_context(member(kafka, "orders", "slow", "consumer"))
        stack.callback(held.set)
        found = of_kind(observer, EventKind.STUCK, "slow")
        assert found.epoch == first.epoch + 1
        assert found.sentence == f"the rebalance of epoch {found.epoch} has not ended within 200 ms"
        assert len(found.facts) == 2
        held.set()
        ended = observer.wait_for(rebalance(group="slow", epoch=found.epoch), LIMIT_S)
        assert ended.duration_ms > 200


class Followed:
    """Follows records of `__consumer_offsets` that a test writes, without a broker."""

    def __init__(self, limits: WatchLimits) -> None:
        self.partition = FollowedPartition(0, KnownTopics(), limits)
        self._offset = 0

    def take(self, at_ms: int, *records: tuple[Message, Message | None]) -> Sequence[WatchEvent]:
        """Take records of one batch: keys with values, or without one. Returns the events."""
        encoded = [
            encode_record(
                CoordinatorRecord(key=key, value=value, version=None if value is None else VERSIONS[type(key)])
            )
            for key, value in records
        ]
        self.partition.load(
            RawBlock.of(
                pa.array([key for key, _ in encoded], pa.binary()),
                pa.array([value for _, value in encoded], pa.binary()),
                offset=[self._offset + number for number in range(len(encoded))],
                timestamp_ms=[at_ms] * len(encoded),
            )
        )
        self._offset += len(encoded)
        return self.partition.finish().events


def committed(offset: int, at_ms: int, topic_id: Uuid = Uuid.ZERO) -> tuple[OffsetCommitKey, OffsetCommitValue]:
    return (
        OffsetCommitKey(group="billing", topic="orders", partition=0),
        OffsetCommitValue(
            offset=offset, leader_epoch=0, metadata="", commit_timestamp=at_ms, expire_timestamp=-1, topic_id=topic_id
        ),
    )


@pytest.mark.parametrize(("idle_ms", "kind"), [(HOUR_MS, EventKind.GROUP_EXPIRED), (1, EventKind.GROUP_DELETED)])
def test_a_group_that_is_removed_after_the_retention_has_expired(idle_ms, kind):
    log = Followed(WatchLimits(retention_ms=HOUR_MS))
    group, target = (
        kind(group_id="billing") for kind in (ConsumerGroupMetadataKey, ConsumerGroupTargetAssignmentMetadataKey)
    )
    offset, value = committed(9, T0)
    (created, *_) = log.take(
        T0,
        (group, ConsumerGroupMetadataValue(epoch=0, metadata_hash=0)),
        (target, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=0, assignment_timestamp=T0)),
        (offset, value),
    )
    assert created.kind is EventKind.GROUP_CREATED
    (removed,) = log.take(T0 + idle_ms, (offset, None), (target, None), (group, None))
    assert removed.kind is kind


def test_an_offset_went_back_because_the_topic_was_created_again():
    log = Followed(WatchLimits())
    first, second = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ"), Uuid.parse("AAAAAAAAAAAAAAAAAAAAAg")
    assert not [one for one in log.take(T0, committed(9, T0, first)) if one.kind is EventKind.OFFSET_WENT_BACK]
    (back,) = log.take(T0 + 1, committed(4, T0 + 1, second))
    assert back.kind is EventKind.OFFSET_WENT_BACK
    assert back.cause == NewTopicId(topics=("orders",))
    assert back.facts == ("orders 0: 9 → 4",)


def test_an_offset_went_back_by_who_was_a_member_at_that_commit():
    """A poll of a live log returns commits, a join, and commits of the new member together."""
    log = Followed(WatchLimits())
    key = ConsumerGroupMemberMetadataKey(group_id="billing", member_id="a")
    joined = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=60_000,
        server_assignor=None,
        classic_member_metadata=None,
    )
    group = ConsumerGroupMetadataKey(group_id="billing"), ConsumerGroupMetadataValue(epoch=1, metadata_hash=0)
    log.take(T0, group, committed(9, T0))
    found = log.take(T0 + 1, committed(4, T0 + 1), (key, joined), committed(1, T0 + 1))
    causes = [one.cause for one in found if one.kind is EventKind.OFFSET_WENT_BACK]
    assert causes == [ResetByAdmin(), ResetByClient()]
