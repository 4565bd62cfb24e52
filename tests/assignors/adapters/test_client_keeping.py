"""Cooperative rebalances (KIP-429) and joins between polls, in the clients' own coordinators.

No broker is needed.
"""

import asyncio
from types import SimpleNamespace

import kafka
import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition
from kafka.coordinator.base import Generation
from kafka.errors import GroupAuthorizationFailedError, RebalanceInProgressError
from kafka.future import Future
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from quorate.assignors.adapters import aiokafka, aiokafka_consumer, kafka_python
from quorate.assignors.adapters.protocol import assignment_bytes
from tests.assignors.adapters.coordinators import RACKS, SIX, as_leader, decoded, member
from tests.assignors.adapters.offline import GROUP, OfflineAio, OfflineKafkaPython


class Listener(kafka.ConsumerRebalanceListener, ConsumerRebalanceListener):
    """A rebalance listener for both clients."""

    def __init__(self):
        self.decoded = []

    def on_partitions_assigned(self, assigned):
        self.decoded.append(("assigned", {at.partition for at in assigned}))

    def on_partitions_revoked(self, revoked):
        self.decoded.append(("revoked", {at.partition for at in revoked}))

    def on_partitions_lost(self, lost):
        self.decoded.append(("lost", {at.partition for at in lost}))


def test_only_moving_partitions_are_revoked_and_a_rebalance_follows(client):
    listener = Listener()
    with client.consumer(client.CooperativeSticky(), listener=listener) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        assert not consumer.rejoins()
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 1), ("t", 2)], 2)
        assert consumer.rejoins()
    decoded = [(kind, those) for kind, those in listener.decoded if those]
    assert decoded == [("assigned", {0, 1}), ("revoked", {0}), ("assigned", {2})]


def test_listener_that_waits_for_a_cancelled_task_does_not_end_the_rebalance():
    class Waiting(Listener):
        async def on_partitions_revoked(self, revoked):
            super().on_partitions_revoked(revoked)
            if not revoked:
                return  # of the first join, which is aiokafka's own
            waiting = asyncio.ensure_future(asyncio.sleep(3600))
            waiting.cancel()
            await waiting

    listener = Waiting()
    with OfflineAio(aiokafka.CooperativeSticky(), listener=listener) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 1), ("t", 2)], 2)
        assert consumer.rejoins()
    assert listener.decoded[-2:] == [("revoked", {0}), ("assigned", {2})]


def test_kept_partitions_keep_their_positions(client):
    with client.consumer(client.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        consumer.seek(("t", 0), 17)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0)], 2)
        assert consumer.position(("t", 0)) == 17


def test_a_member_removed_while_joining_loses_its_partitions(client):
    listener = Listener()
    with client.consumer(client.CooperativeSticky(), listener=listener) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        consumer.join()
        consumer.coordinator.reset_generation()  # as after an UNKNOWN_MEMBER_ID response to JoinGroup
        consumer.join()
        message = decoded(consumer.subscription())
        assert (message.owned_partitions, message.generation_id) == ((), -1)
        consumer.complete("cooperative-sticky", [("t", 1)], 5)
        assert not consumer.rejoins()
    lost = [those for kind, those in listener.decoded if kind in ("lost", "revoked") and those]
    assert lost == [{0, 1}]
    assert listener.decoded[-1] == ("assigned", {1})


def test_a_consumer_with_an_eager_assignor_among_its_own_is_eager(client):
    with client.consumer(client.CooperativeSticky(), client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("cooperative-sticky", [("t", 0)], 1)
        assert decoded(consumer.subscription("cooperative-sticky")).owned_partitions == ()


def test_kafka_python_does_not_forget_that_it_is_joining():
    with OfflineKafkaPython(kafka_python.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        as_leader(consumer)
        assert not consumer.coordinator.need_rejoin()
        consumer.metadata(RACKS, {"t": {0: [1]}})
        assert consumer.coordinator.need_rejoin()
        consumer.join()
        mine = consumer.lead("range", {"m": member("a")})["m"]
        assert consumer.coordinator.need_rejoin(), "until the assignment arrives"
        consumer.complete("range", mine, 2)
        assert not consumer.coordinator.need_rejoin()


@pytest.fixture
def joining():
    """Return a coordinator of kafka-python that joined and has not polled since.

    Tests set `_join_task`.
    """
    with OfflineKafkaPython(kafka_python.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        coordinator = consumer.coordinator
        coordinator.coordinator = lambda: 1
        coordinator._generation = Generation(3, "m", "range")
        coordinator.state = MemberState.REBALANCING

        async def rejoin():
            raise NotImplementedError("JoinGroup is sent again")

        coordinator._do_join_and_sync_async = rejoin
        yield coordinator


def assigned_to(coordinator):
    return sorted(at.partition for at in coordinator._subscription.assigned_partitions())


@pytest.mark.parametrize("timeout_ms", [0, 100, None])
def test_kafka_python_keeps_a_join_that_finished_between_two_polls(joining, timeout_ms):
    # kafka-python alone repeats the join, as a leader by another rebalance. Members that process
    # longer than they poll repeat it for ever.
    joining._join_task = Future().success(assignment_bytes([("t", 1), ("t", 4)]))
    assert joining.ensure_active_group(timeout_ms)
    assert assigned_to(joining) == [1, 4]
    assert joining.stable()
    assert not joining.need_rejoin()


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("g"), ZeroDivisionError()], ids=repr)
def test_kafka_python_raises_an_error_of_a_finished_join_once(joining, error):
    joining._join_task = Future().failure(error)
    with pytest.raises(type(error)):
        joining.ensure_active_group(100)
    with pytest.raises(NotImplementedError):
        joining.ensure_active_group(100)


def test_kafka_python_discards_a_finished_join_if_it_was_removed_since(joining):
    joining._join_task = Future().success(assignment_bytes([("t", 1)]))
    joining._generation = Generation(-1, "", None)
    joining.state = MemberState.UNJOINED
    with pytest.raises(NotImplementedError):
        joining.ensure_active_group(100)
    assert assigned_to(joining) == []


def test_kafka_python_rejoins_if_it_was_removed_between_join_and_sync(joining):
    # The response to an older commit or heartbeat causes that. kafka-python alone fails poll(): the
    # assignor's name differs from that of no generation.
    result = SimpleNamespace(error_code=0, protocol_type="consumer", protocol_name="range", assignment=b"")
    assert joining._process_sync_group_response(result, 0) == b""
    joining.reset_generation()
    with pytest.raises(RebalanceInProgressError):
        joining._process_sync_group_response(result, 0)
    assert joining.need_rejoin()


@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_kafka_python_waits_for_records_while_the_response_to_a_heartbeat_is_overdue(assignor):
    # kafka-python alone repeats its loop without waiting, which takes a whole core.
    with OfflineKafkaPython(getattr(kafka_python, assignor)()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete(consumer.coordinator.config["assignors"][0].name, [("t", 0)], 1)
        coordinator = consumer.coordinator
        coordinator.state = MemberState.STABLE
        coordinator.heartbeat.last_send = coordinator.heartbeat.last_reset = 0
        assert coordinator.time_to_next_heartbeat() == 0
        assert coordinator.time_to_next_poll() == 0.02


@pytest.mark.parametrize("until", ["poll", "another join", "close"])
def test_kafka_python_sends_heartbeats_from_the_end_of_a_join_to_the_next_poll(joining, until):
    # kafka-python alone does not, and a cooperative consumer that processes records for longer than
    # its session timeout is removed.
    sent = []

    async def heartbeat():
        sent.append(joining.state)
        raise RebalanceInProgressError

    class Manager:
        call_soon = joining._manager.call_soon

        def send(self, request, **options):
            return Future().success(SimpleNamespace(error_code=0 if isinstance(request, SyncGroupRequest) else 27))

    async def go():
        await joining._manager.send(SyncGroupRequest(), node_id=1)
        while len(sent) < 3:
            await joining._net.sleep(0.001)
        match until:
            case "poll":
                joining.state = MemberState.STABLE
            case "another join":  # which the old generation's heartbeats would undo
                await joining._manager.send(JoinGroupRequest(), node_id=1)
            case "close":
                joining._heartbeat_closed = True
        decoded = len(sent)
        await joining._net.sleep(0.03)
        assert len(sent) == decoded

    joining.config["heartbeat_interval_ms"] = 1
    joining._send_heartbeat_request = heartbeat
    joining._manager._manager = Manager()
    joining._net.run(go)
    assert set(sent) == {MemberState.REBALANCING}


def commits(consumer, monkeypatch):
    """Record the partitions of every commit that is sent; auto-commit is on."""
    sent = []
    coordinator = consumer.coordinator
    if isinstance(consumer, OfflineAio):
        coordinator._enable_auto_commit = True

        async def commit(assignment, offsets):
            sent.append({(at.topic, at.partition) for at in offsets})

        monkeypatch.setattr(coordinator, "commit_offsets", commit)
    else:
        coordinator.config["enable_auto_commit"] = True

        async def send(offsets):
            sent.append({(at.topic, at.partition) for at in offsets})

        async def ready(timeout_ms=None):
            return True

        monkeypatch.setattr(coordinator, "_send_offset_commit_request", send)
        monkeypatch.setattr(coordinator, "ensure_coordinator_ready_async", ready)
    return sent


@pytest.mark.parametrize("name", ["Range", "CooperativeSticky"])
def test_offsets_of_a_deleted_topic_do_not_delay_a_rebalance(client, name, monkeypatch):
    # aiokafka alone retries these commits for ever, and kafka-python until its request timeout,
    # while the group waits.
    with client.consumer(getattr(client, name)(), topics=["t", "u"]) as consumer:
        consumer.metadata(RACKS, {**SIX, "u": {0: [1]}})
        consumer.join()
        protocol = "range" if name == "Range" else "cooperative-sticky"
        consumer.complete(protocol, [("t", 1), ("u", 0)], 1)
        consumer.seek(("t", 1), 7)
        consumer.seek(("u", 0), 7)
        sent = commits(consumer, monkeypatch)
        consumer.metadata(RACKS, SIX)
        consumer.join()
        assert sent == [{("t", 1)}]


def test_aiokafka_gives_up_a_last_commit_without_a_response(monkeypatch, caplog):
    async def never(assignment, offsets):
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(aiokafka_consumer, "LAST_COMMIT_MS", 20)
    with OfflineAio(aiokafka.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("range", [("t", 1)], 1)
        consumer.seek(("t", 1), 7)
        consumer.coordinator._enable_auto_commit = True
        consumer.coordinator.commit_offsets = never
        consumer.join()
    assert f"group {GROUP}: offsets of t-1 could not be committed within 20 ms" in caplog.text


def test_a_manual_assignment_after_leaving_a_group_is_kept_in_aiokafka():
    with OfflineAio(aiokafka.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0)], 1)
        state = consumer.coordinator._subscription

        async def by_hand():
            state.unsubscribe()
            state.assign_from_user([TopicPartition("t", 5)])
            consumer.coordinator.reset_generation()  # as at the end of leaving the group

        consumer.run(by_hand())
        assert state.assigned_partitions() == {TopicPartition("t", 5)}
