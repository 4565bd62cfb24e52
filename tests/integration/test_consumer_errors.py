"""What quorate's consumer for kafka-python does after errors, also those of its application."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, UnreleasedInstanceIdError
from kafka.structs import OffsetAndMetadata, TopicPartition

from quorate.cluster import EmbeddedCluster, Error
from quorate.cluster.waiting import wait_for
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import EncodeError
from quorate.consumers.kafka_python import GroupError, KafkaConsumer, SubscriptionPattern
from quorate.consumers.kafka_python_requests import OwnRequest
from quorate.integration import Cluster
from tests.integration.groups import group_state, produce
from tests.integration.limits import LIMIT_MS
from tests.integration.test_consumers import Listener, consumer, poll_until

pytestmark = pytest.mark.scenario("KIP-848 in Python")


class Calling(Listener):
    """Calls the application's function in one of its methods."""

    def __init__(self, kind: str, function: Callable[[], Any]) -> None:
        super().__init__()
        self.kind, self.function = kind, function

    def on_partitions_revoked(self, revoked: Any) -> None:
        super().on_partitions_revoked(revoked)
        if self.kind == "revoked":
            self.function()

    def on_partitions_assigned(self, assigned: Any) -> None:
        super().on_partitions_assigned(assigned)
        if self.kind == "assigned":
            self.function()


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.long_on_brokers
def test_each_poll_raises_a_fatal_error(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with (
        consumer(kafka_cluster, group_id, topic, group_instance_id="i") as first,
        consumer(kafka_cluster, group_id, topic, group_instance_id="i") as second,
    ):
        poll_until("all", lambda: len(first.assignment()) == 6, first)
        for _ in range(2):
            with pytest.raises(UnreleasedInstanceIdError, match="instance id i "):
                poll_until("never", lambda: False, second)
        second.unsubscribe()
        assert second.poll(timeout_ms=0) == {}


@pytest.mark.long_on_brokers
def test_errors_without_an_exception_of_kafka_python_have_kafkas_name(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    with consumer(kafka_cluster, group_id) as one:
        one.subscribe(pattern=SubscriptionPattern("t("))
        with pytest.raises(GroupError, match=r"\[Error 128\].*INVALID_REGULAR_EXPRESSION: .*t\(") as raised:
            poll_until("never", lambda: False, one)
        assert raised.value.code.name == "INVALID_REGULAR_EXPRESSION"


@pytest.mark.long_on_brokers
def test_close_ends_everything_although_the_listener_fails(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    before = set(threading.enumerate())
    with consumer(kafka_cluster, group_id) as one:
        one.subscribe([topic], listener=Calling("revoked", fail))
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        threads = set(threading.enumerate()) - before
        with pytest.raises(KafkaError, match="rebalance callback"):
            one.close()
    assert any("kafka-io" in thread.name for thread in threads)
    assert not any("kafka-io" in thread.name and thread.is_alive() for thread in threads)
    assert not group_state(kafka_cluster, group_id).target


@pytest.mark.long_on_brokers
def test_an_unknown_operation_of_close_is_an_error(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with consumer(kafka_cluster, group_id, topic, group_instance_id="i") as one:
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        with pytest.raises(ValueError, match="'leave' is not a valid LeaveOperation"):
            one.close(operation="leave")
        assert len(one.assignment()) == 6
        one.close(operation="leave-group")
    assert not group_state(kafka_cluster, group_id).target


@pytest.mark.without_containers
def test_failed_constructor_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(KafkaError, match="bootstrap"):
        KafkaConsumer("t", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=100)
    assert set(threading.enumerate()) <= before


@pytest.mark.long_on_brokers
def test_listener_may_close_the_consumer(kafka_cluster: Cluster, topic: str, group_id: str) -> None:
    with consumer(kafka_cluster, group_id) as one:
        listener = Calling("assigned", lambda: one.close())
        one.subscribe([topic], listener=listener)
        while not listener.calls:
            assert one.poll(timeout_ms=1000) == {}
        assert [kind for kind, _ in listener.calls] in (["assigned", "revoked"], ["assigned"])
        assert one.assignment() == set()


@pytest.mark.long_on_brokers
@pytest.mark.parametrize("ends", ["unsubscribe", "close"])
def test_listener_may_unsubscribe(kafka_cluster: Cluster, topic: str, group_id: str, ends: str) -> None:
    with consumer(kafka_cluster, group_id, request_timeout_ms=60_000) as one:
        listener = Calling("revoked", lambda: one.unsubscribe())
        one.subscribe([topic], listener=listener)
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        listener.calls.clear()
        timer = threading.Timer(20, one._coordinator._left.set)  # ends the wait that must not be
        timer.start()
        getattr(one, ends)()
        assert timer.is_alive()
        timer.cancel()
        assert listener.calls == [("revoked", set(range(6)))]
        assert one.subscription() in (None, set())


@pytest.mark.without_containers
def test_values_that_a_request_cannot_contain_are_errors_at_once() -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", rack_id=5)  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="rack_id"):
        OwnRequest(request)


@pytest.mark.long_on_brokers
def test_deleted_topic_does_not_delay_the_rebalance_that_revokes_it(kafka_cluster: Cluster, group_id: str) -> None:
    topics = [f"{group_id}-{name}" for name in ("deleted", "kept")]
    for name in topics:
        kafka_cluster.create_topic(name)
        produce(kafka_cluster, name, 1, 5)
    with consumer(kafka_cluster, group_id, *topics) as one:
        poll_until("all", lambda: len(one.assignment()) == 2 and sum(map(one.position, one.assignment())) == 10, one)
        kafka_cluster.delete_topic(topics[0])
        poll_until("revoked", lambda: one.assignment() == {TopicPartition(topics[1], 0)}, one)


@pytest.mark.long_on_brokers
def test_application_that_stops_waiting_in_a_listener_does_not_stop_the_rebalance(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    def interrupt() -> None:
        listener.kind = "none"
        raise KeyboardInterrupt  # as Ctrl-C does

    listener = Calling("revoked", interrupt)
    with consumer(kafka_cluster, group_id) as one:
        one.subscribe([topic], listener=listener)
        poll_until("all", lambda: len(one.assignment()) == 6, one)
        with consumer(kafka_cluster, group_id, topic) as other:
            with pytest.raises(KeyboardInterrupt):
                poll_until("never", lambda: False, other, one)
            poll_until("both have half", lambda: len(one.assignment()) == len(other.assignment()) == 3, one, other)


@pytest.mark.long_on_brokers
def test_consumer_that_assigns_partitions_commits_in_a_transaction(
    kafka_cluster: Cluster, topic: str, group_id: str
) -> None:
    at = TopicPartition(topic, 0)
    producer = KafkaProducer(**kafka_cluster.client_config, transactional_id=group_id)
    try:
        producer.init_transactions()
        with consumer(kafka_cluster, group_id) as one:
            one.assign([at])
            producer.begin_transaction()
            producer.send_offsets_to_transaction({at: OffsetAndMetadata(7, "", -1)}, one.group_metadata())
            producer.commit_transaction()
            # Brokers complete a transaction, with its marker, after the response to EndTxn.
            wait_for("the committed offset", lambda: one.committed(at) == 7, LIMIT_MS)
    finally:
        producer.close()


@pytest.mark.without_containers
def test_commit_that_is_repeated_before_a_rebalance_has_the_positions_of_its_time() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        produce(cluster, "orders", 2, 5)
        config = {"auto_commit_interval_ms": 600_000, "retry_backoff_ms": 2_000}
        with consumer(cluster, "billing", "orders", **config) as one, consumer(cluster, "billing", "orders") as other:
            poll_until("all", lambda: sum(map(one.position, one.assignment())) == 10, one)
            failing = cluster.faults.add(Error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), api="OffsetCommit", times=1)
            poll_until("the commit failed", lambda: failing.happened == 1, other, one)
            produce(cluster, "orders", 2, 5)
            poll_until("new records", lambda: 10 in map(one.position, one.assignment()), one)
            (kept,) = (at for at in one.assignment() if one.position(at) == 10)
            one.commit()
            poll_until("both have one", lambda: len(one.assignment()) == len(other.assignment()) == 1, one, other)
            assert one.committed(kept) == 10
