"""quorate's consumer in the consumer protocol, alone and with others in one group."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import (
    CommitFailedError,
    KafkaConfigurationError,
    RebalanceInProgressError,
    UnsupportedAssignorError,
)
from kafka.structs import OffsetAndMetadata

from quorate.cluster.waiting import wait_for
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.consumers.kafka_python import KafkaConsumer, SubscriptionPattern
from quorate.consumers.states import ConsumerState
from quorate.consumers.transitions import LeaveOperation
from quorate.integration import Cluster
from tests.cluster.helpers.wire import Wire
from tests.integration.clients import Crowd, check, check_overlaps
from tests.integration.groups import Load, all_of, group_state, produce
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-848 in Python")

both = pytest.mark.parametrize(("client", "classic"), [("quorate", "kafka-python"), ("quorate-aiokafka", "aiokafka")])
"""Both of quorate's consumers, each with the consumer that it extends, in the classic protocol."""


class Listener(ConsumerRebalanceListener):
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[int]]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", {at.partition for at in revoked}))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls.append(("assigned", {at.partition for at in assigned}))

    def on_partitions_lost(self, lost: Any) -> None:
        self.calls.append(("lost", {at.partition for at in lost}))


@contextmanager
def consumer(cluster: Cluster, group: str, *topics: str, **config: Any) -> Iterator[KafkaConsumer]:
    defaults = {"auto_offset_reset": "earliest", "group_protocol": "consumer", "metadata_max_age_ms": 1000}
    with closing(KafkaConsumer(*topics, group_id=group, **{**cluster.client_config, **defaults, **config})) as one:
        yield one


def assigned(*consumers: KafkaConsumer) -> list[list[int]]:
    """Poll all consumers once, and return their partitions."""
    for one in consumers:
        one.poll(timeout_ms=50)
    return [sorted(at.partition for at in one.assignment()) for one in consumers]


def poll_until(what: str, reached: Any, *consumers: KafkaConsumer) -> None:
    def polled() -> bool:
        assigned(*consumers)
        return bool(reached())

    wait_for(what, polled, LIMIT_MS)


def evict(cluster: Cluster, group: str, member_id: str) -> None:
    """Remove a member that does not know of it, with a heartbeat from another connection."""
    coordinator = cluster.coordinator_of(group)
    address = next(broker.address for broker in cluster.brokers if broker.id == coordinator)
    host, _, port = address.rpartition(":")
    with Wire(int(port), host=host) as wire:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1)
        assert wire.request(request, 0).error_code == 0


def fails_to_commit(one: KafkaConsumer, at: TopicPartition) -> None:
    """Expect CommitFailedError, or another error if a heartbeat was fenced before the commit."""
    with pytest.raises((CommitFailedError, RebalanceInProgressError)) as failed:
        one.commit({at: OffsetAndMetadata(1, "", -1)})
    if failed.type is RebalanceInProgressError:
        assert one._coordinator._membership.state in (ConsumerState.FENCED, ConsumerState.JOINING)


def change_epoch(one: KafkaConsumer) -> None:
    """Give a consumer an epoch that its coordinator rejects.

    Not while a heartbeat is in flight, whose response has the epoch again.
    """
    coordinator = one._coordinator
    membership = coordinator._membership

    def changed() -> bool:
        with coordinator._lock:
            if not membership._schedule.in_flight:
                membership.member_epoch += 7
                return True
            return False

    wait_for("no heartbeat is in flight", changed, LIMIT_MS)


@both
def test_members_come_and_go_under_load(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, classic: str
) -> None:
    everything = all_of(topic, 6)
    with Crowd(client, kafka_cluster, group_id, [topic]) as crowd, Load(kafka_cluster, topic, 6) as load:
        for name in ("a", "b", "c"):
            crowd.start(name)
            crowd.settle(everything)
        crowd.stop("b")
        crowd.settle(everything)
        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        check(crowd, dict.fromkeys(everything, sent))
        check_overlaps(crowd)
        assert crowd.deliveries.lost == []


@both
def test_static_member_returns_to_its_partitions(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, classic: str
) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=45_000) as crowd:
        for name in ("i0", "i1"):
            crowd.start(name, instance=name)
            crowd.settle(all_of(topic, 6))
        before, generation = crowd.assigned(), history(kafka_cluster, group_id).generation
        crowd.stop("i1")
        member = crowd.start("i1", instance="i1")
        wait_for("i1 has its partitions again", lambda: member.assigned == before["i1"], LIMIT_MS)
        assert crowd.assigned() == before
        assert history(kafka_cluster, group_id).generation == generation


@both
def test_quorate_and_librdkafka_share_a_group(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, classic: str
) -> None:
    everything = all_of(topic, 6)
    with Crowd(client, kafka_cluster, group_id, [topic]) as crowd, Load(kafka_cluster, topic, 6) as load:
        crowd.start("ours")
        crowd.settle(everything)
        crowd.start("theirs", client="confluent-kafka")
        crowd.settle(everything)
        crowd.stop("ours")
        crowd.settle(everything)
        crowd.start("ours-again")
        crowd.settle(everything)
        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        assert history(kafka_cluster, group_id).owned_twice == []


@both
def test_running_group_migrates_from_classic_and_back(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str, classic: str
) -> None:
    everything = all_of(topic, 6)
    # The last member joins again after its session timeout if it is of aiokafka.
    with (
        Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=10_000) as crowd,
        Load(kafka_cluster, topic, 6) as load,
    ):
        for name in ("old-0", "old-1"):
            crowd.start(name, client=classic)
            crowd.settle(everything)
        for number in (0, 1):
            crowd.stop(f"old-{number}")
            crowd.start(f"new-{number}")
            crowd.settle(everything)
        crowd.start("back", client=classic)
        crowd.settle(everything)
        crowd.stop("new-0")
        crowd.stop("new-1")
        crowd.settle(everything)
        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        check(crowd, dict.fromkeys(everything, sent))


@both
def test_coordinator_moves(kafka_cluster: Cluster, topic: str, group_id: str, client: str, classic: str) -> None:
    everything = all_of(topic, 6)
    with Crowd(client, kafka_cluster, group_id, [topic]) as crowd, Load(kafka_cluster, topic, 6) as load:
        for name in ("a", "b"):
            crowd.start(name)
            crowd.settle(everything)
        before = crowd.assigned()
        others = [one.id for one in kafka_cluster.brokers if one.id != kafka_cluster.coordinator_of(group_id)]
        kafka_cluster.move_coordinator(group_id, others[0])
        crowd.start("c")
        crowd.settle(everything)
        assert all(crowd.assigned()[name] <= before[name] for name in before)
        sent = load.stop()
        crowd.wait_until_consumed(everything, sent)
        check(crowd, dict.fromkeys(everything, sent))


def test_new_partitions_are_assigned(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with consumer(kafka_cluster, group_id, topic) as one:
        poll_until("6 partitions", lambda: len(one.assignment()) == 6, one)
        kafka_cluster.add_partitions(topic, 8)
        poll_until("8 partitions", lambda: len(one.assignment()) == 8, one)


@pytest.mark.parametrize("by", ["brokers", "consumer"])
def test_regex_finds_new_topics(kafka_cluster: Cluster, group_id: str, by: str) -> None:
    def names() -> set[str]:
        return {at.topic for at in one.assignment()}

    prefix = group_id.replace(".", "-")
    kafka_cluster.create_topic(f"{prefix}-old", partitions=1)
    pattern = SubscriptionPattern(f"{prefix}-.*") if by == "brokers" else f"{prefix}-"
    with consumer(kafka_cluster, group_id) as one:
        one.subscribe(pattern=pattern)
        poll_until("the first topic", lambda: names() == {f"{prefix}-old"}, one)
        kafka_cluster.create_topic(f"{prefix}-new", partitions=1)
        poll_until("the new topic", lambda: names() == {f"{prefix}-old", f"{prefix}-new"}, one)


def test_application_that_does_not_poll_loses_its_partitions_and_returns(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    listener = Listener()
    with (
        consumer(kafka_cluster, group_id, max_poll_interval_ms=2_000) as slow,
        consumer(kafka_cluster, group_id, topic) as other,
    ):
        slow.subscribe([topic], listener=listener)
        poll_until("shared", lambda: [len(some) for some in assigned(slow, other)] == [3, 3], slow, other)
        held = set(assigned(slow)[0])
        poll_until("the other one has all", lambda: len(other.assignment()) == 6, other)
        assert slow.poll(timeout_ms=0) == {}
        assert listener.calls[-1] == ("lost", held)
        poll_until("shared again", lambda: [len(some) for some in assigned(slow, other)] == [3, 3], slow, other)


def test_listener_slower_than_the_rebalance_timeout_is_fenced_and_returns(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    class Slow(Listener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            super().on_partitions_revoked(revoked)
            if len(self.calls) < 4:
                time.sleep(6)

    listener = Slow()
    with consumer(kafka_cluster, group_id, max_poll_interval_ms=3_000) as slow:
        slow.subscribe([topic], listener=listener)
        poll_until("all", lambda: len(slow.assignment()) == 6, slow)
        with Crowd("quorate", kafka_cluster, group_id, [topic]) as crowd:
            crowd.start("other")
            poll_until("revoked", lambda: any(kind == "revoked" for kind, _ in listener.calls), slow)
            poll_until("lost", lambda: any(kind == "lost" for kind, _ in listener.calls), slow)
            poll_until("shared", lambda: len(slow.assignment()) == 3, slow)


def test_fenced_member_fails_to_commit_and_returns(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    produce(kafka_cluster, topic, 6, 1)
    listener = Listener()
    with consumer(kafka_cluster, group_id, enable_auto_commit=False) as one:
        one.subscribe([topic], listener=listener)
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        evict(kafka_cluster, group_id, one.group_metadata().member_id)
        fails_to_commit(one, TopicPartition(topic, 0))
        poll_until("lost", lambda: listener.calls.count(("lost", set(range(6)))) == 1, one)  # a poll may also rejoin
        poll_until("all again", lambda: len(one.assignment()) == 6, one)
        change_epoch(one)
        fails_to_commit(one, TopicPartition(topic, 0))
        poll_until("lost again", lambda: listener.calls.count(("lost", set(range(6)))) == 2, one)
        poll_until("all again", lambda: len(one.assignment()) == 6, one)
        one.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
        assert one.committed(TopicPartition(topic, 0)) == 1


def test_committed_offsets_are_read_again_after_the_epoch_changed(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    with consumer(kafka_cluster, group_id, topic, enable_auto_commit=False) as one:
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        one.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "", -1)})
        change_epoch(one)
        assert one.committed(TopicPartition(topic, 0), timeout_ms=60_000) == 4


def test_commits_in_the_listener(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    produce(kafka_cluster, topic, 6, 10)

    class Committing(Listener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            super().on_partitions_revoked(revoked)
            one.commit()

    listener = Committing()
    with consumer(kafka_cluster, group_id, enable_auto_commit=False) as one:
        one.subscribe([topic], listener=listener)
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        poll_until("consumed", lambda: all(one.position(at) == 10 for at in one.assignment()), one)
        one.unsubscribe()
        assert listener.calls[-1] == ("revoked", set(range(6)))
        assert one.assignment() == set()
        assert [one.committed(TopicPartition(topic, number)) for number in range(6)] == [10] * 6


@pytest.mark.long_on_brokers
def test_first_metadata_of_topics_does_not_wait_for_the_backoff(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    with consumer(kafka_cluster, group_id) as one:
        one._cluster.config["retry_backoff_ms"] = 2 * LIMIT_MS
        one.subscribe([topic])
        poll_until("all", lambda: len(one.assignment()) == 6, one)


@pytest.mark.long_on_brokers
def test_seek_and_pause(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    produce(kafka_cluster, topic, 6, 10)
    with consumer(kafka_cluster, group_id, topic) as one:
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        poll_until("consumed", lambda: all(one.position(at) == 10 for at in one.assignment()), one)
        at = TopicPartition(topic, 0)
        one.pause(at)
        one.seek(at, 3)
        assert one.poll(timeout_ms=300) == {}
        one.resume(at)
        records: list[int] = []
        poll_until(
            "again",
            lambda: records.extend(record.offset for record in one.poll(timeout_ms=100).get(at, [])) or records,
        )
        assert records[0] == 3


@pytest.mark.parametrize(
    ("instance", "operation", "remains"),
    [
        (None, LeaveOperation.DEFAULT, False),
        (None, LeaveOperation.REMAIN_IN_GROUP, True),
        ("i", LeaveOperation.DEFAULT, True),
        ("i", LeaveOperation.LEAVE_GROUP, False),
    ],
)
@pytest.mark.long_on_brokers
def test_closing_leaves_the_group_or_not(
    kafka_cluster: Cluster, topic: str, group_id: str, instance: str | None, operation: LeaveOperation, remains: bool
) -> None:
    with consumer(kafka_cluster, group_id, topic, group_instance_id=instance) as one:
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        one.close(operation=operation)
    assert bool(group_state(kafka_cluster, group_id).target) == remains


@pytest.mark.long_on_brokers
def test_unknown_assignor_is_raised_by_poll(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    unknown = consumer(kafka_cluster, group_id, topic, group_remote_assignor="nonesuch")
    with unknown as one, pytest.raises(UnsupportedAssignorError):
        poll_until("never", lambda: False, one)


@pytest.mark.long_on_brokers
def test_configs_of_the_classic_protocol_are_rejected(kafka_cluster: Cluster) -> None:
    with pytest.raises(KafkaConfigurationError, match="session_timeout_ms"):
        KafkaConsumer(group_id="g", group_protocol="consumer", session_timeout_ms=1, **kafka_cluster.client_config)


def test_tls_and_login_are_those_of_kafka_python(secure_cluster: Cluster, group_id: str) -> None:
    secure_cluster.create_topic(group_id, partitions=2, replicas=3)
    produce(secure_cluster, group_id, 2, 5)
    received: list[int] = []

    def poll() -> bool:
        received.extend(record.offset for some in one.poll(timeout_ms=50).values() for record in some)
        return len(received) == 10

    with consumer(secure_cluster, group_id, group_id) as one:
        wait_for("all messages", poll, LIMIT_MS)
    secure_cluster.delete_topic(group_id)


@pytest.mark.long_on_brokers
def test_commits_without_waiting_and_metrics(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    done: list[Any] = []
    with consumer(kafka_cluster, group_id, topic, enable_auto_commit=False) as one:
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        at = TopicPartition(topic, 0)
        one.commit_async({at: OffsetAndMetadata(3, "note", -1)}, callback=lambda *result: done.append(result))
        poll_until("committed", lambda: done, one)
        assert not isinstance(done[0][1], Exception)
        assert one.committed(at, metadata=True).metadata == "note"
        group = one.metrics()["consumer-coordinator-metrics"]
        assert group["assigned-partitions"] == 6
        assert group["heartbeat-rate"] > 0


def test_classic_protocol_is_kafka_pythons_own(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with consumer(kafka_cluster, group_id, topic, group_protocol="classic", session_timeout_ms=10_000) as one:

        def has_all() -> bool:
            # kafka-python (3.0.12) loses the assignment of a join that ends between two polls.
            one.poll(timeout_ms=5_000)
            return len(one.assignment()) == 6

        wait_for("all", has_all, LIMIT_MS)
        described = kafka_cluster.admin.describe_groups([group_id])[group_id]
        assert described["protocol_data"] == "range"
