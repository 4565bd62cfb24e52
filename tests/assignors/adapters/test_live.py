"""kafka-python and aiokafka with our assignors, also together with Java's, on a real broker."""

import logging
from contextlib import ExitStack, closing
from itertools import product

import pytest
from aiokafka.errors import KafkaConfigurationError as AioConfigurationError
from kafka import KafkaConsumer
from kafka.errors import KafkaConfigurationError

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.cluster import EmbeddedCluster
from tests.assignors.adapters.live import (
    Aio,
    Java,
    KafkaPython,
    add_partitions,
    create_topic,
    produced,
    spread,
    wait_for,
)
from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker
from tests.extent import is_full
from tests.reruns import own_name

pytestmark = pytest.mark.oracle


class Client:
    """One of the two clients, and its adapters."""

    def __init__(self, member, adapters):
        self.kind, self.adapters = member, adapters

    def member(self, broker, topic, assignor, *, rack=None, **config):
        """Create a consumer of the group with the topic's name. `assignor`: an adapter's name."""
        if self.adapters is aiokafka and rack:
            config |= aiokafka.options(getattr(aiokafka, assignor)(), client_rack=rack)
            return Aio(broker, topic, [topic], **config)
        if rack:
            config["client_rack"] = rack
        return self.kind(broker, topic, [topic], getattr(self.adapters, assignor)(), **config)


CLIENTS = {"kafka-python": Client(KafkaPython, kafka_python), "aiokafka": Client(Aio, aiokafka)}


@pytest.fixture(params=CLIENTS)
def client(request):
    return CLIENTS[request.param]


def with_assignors(*assignors):
    """Run a test with each client and each assignor: with all pairs of them in a full run."""
    pairs = product(CLIENTS, assignors) if is_full() else zip(CLIENTS, assignors, strict=True)
    return pytest.mark.parametrize(("client", "assignor"), list(pairs), indirect=["client"])


@pytest.fixture
def topic(broker, request):
    """Create a topic of six partitions, named after the test."""
    name = own_name(request)
    create_topic(broker, name, 6)
    return name


def all_of(topic):
    return [(topic, number) for number in range(6)]


@with_assignors("Range", "Sticky")
def test_members_share_a_topic(broker, topic, client, assignor):
    with client.member(broker, topic, assignor, rack="a") as one:
        wait_for(lambda: len(one.assigned) == 6, one)
        with client.member(broker, topic, assignor, rack="b") as two:
            wait_for(lambda: len(one.assigned) == len(two.assigned) == 3, one, two)
            assert spread(one, two) == all_of(topic)
        wait_for(lambda: len(one.assigned) == 6, one)


def test_cooperative_members_keep_reading_and_revoke_only_what_moves(broker, topic, client):
    with client.member(broker, topic, "CooperativeSticky") as one, produced(broker, topic, 6):
        wait_for(lambda: len({at for at, _, _ in one.records}) == 6, one)
        with client.member(broker, topic, "CooperativeSticky") as two:
            wait_for(lambda: len(one.assigned) == len(two.assigned) == 3, one, two)
            assert spread(one, two) == all_of(topic)
            assert one.revoked() == two.assigned
            wait_for(lambda: {at for at, _, _ in two.records} == two.assigned, one, two)
            kept = one.assigned
        for at in kept:
            offsets = one.offsets_of(at)
            assert offsets == list(range(len(offsets))), "read on without a gap, a repeat or a reset"


def test_a_cooperative_member_keeps_reading_while_others_join_slowly(broker, topic, client):
    with (
        client.member(broker, topic, "CooperativeSticky") as one,
        CLIENTS["kafka-python"].member(broker, topic, "CooperativeSticky") as slow,
        produced(broker, topic, 6),
    ):
        wait_for(lambda: len(one.assigned) == len(slow.assigned) == 3, one, slow)
        slow.polls.clear()
        with client.member(broker, topic, "CooperativeSticky") as new:
            # The group waits for the slow one to join; meanwhile `one` has joined.
            wait_for(lambda: joining(one), one)
            before = len(one.records)
            wait_for(lambda: {at for at, _, _ in one.records[before:]} == one.assigned, one, new)
            wait_for(lambda: len(one.records) > before + 100, one, new)
            assert joining(one)
            assert not new.assigned
            slow.polls.set()
            wait_for(lambda: len(one.assigned) == len(slow.assigned) == len(new.assigned) == 2, one, slow, new)
            assert spread(one, slow, new) == all_of(topic)


def joining(member):
    """Return whether JoinGroup was sent without a response yet."""
    if isinstance(member, Aio):
        return member.consumer._coordinator._performed_join_prepare
    return member.consumer._coordinator.rebalance_in_progress()


@with_assignors("Range", "CooperativeSticky")
def test_members_that_process_longer_than_they_poll_become_stable(broker, topic, client, assignor):
    members = [client.member(broker, topic, assignor, heartbeat_interval_ms=300) for _ in range(3)]
    with ExitStack() as stack:
        for number, member in enumerate(members):
            member.works_s = 0.4 + number / 10
            stack.enter_context(member)
        wait_for(lambda: all(len(member.assigned) == 2 for member in members), *members)
        wait_for(lambda: len(set(map(generation, members))) == 1, *members)
        before, polled = generation(members[0]), [member.polled for member in members]
        wait_for(lambda: all(member.polled > once + 5 for member, once in zip(members, polled, strict=True)), *members)
        assert [generation(member) for member in members] == [before] * 3


def test_a_subscription_by_pattern_follows_new_topics(broker, topic, client):
    with (
        client.member(broker, topic, "CooperativeSticky", pattern=f"^{topic}") as one,
        client.member(broker, topic, "CooperativeSticky", pattern=f"^{topic}") as two,
    ):
        wait_for(lambda: len(one.assigned) == len(two.assigned) == 3, one, two)
        create_topic(broker, f"{topic}-new", 2)
        wait_for(lambda: len(one.assigned) == len(two.assigned) == 4, one, two)
        assert spread(one, two) == [*all_of(topic), (f"{topic}-new", 0), (f"{topic}-new", 1)]


def test_a_group_moves_from_an_eager_to_a_cooperative_assignor_by_restarts(broker, topic, client):
    old, new = client.adapters.Range(), client.adapters.CooperativeSticky()

    def start(stack, *assignors):
        return stack.enter_context(client.kind(broker, topic, [topic], *assignors))

    with ExitStack() as first, ExitStack() as second, ExitStack() as third:
        members = [start(first, old), start(first, old)]
        wait_for(lambda: spread(*members) == all_of(topic), *members)
        members += [start(second, old, new), start(second, new, old)]
        wait_for(lambda: spread(*members) == all_of(topic) and all(member.assigned for member in members), *members)
        first.close()
        members = members[2:]
        wait_for(lambda: spread(*members) == all_of(topic), *members)
        members += [start(third, new), start(third, new)]
        wait_for(lambda: spread(*members) == all_of(topic) and all(member.assigned for member in members), *members)
        second.close()
        members = members[2:]
        wait_for(lambda: spread(*members) == all_of(topic), *members)


@with_assignors("Sticky", "CooperativeSticky")
def test_a_java_leader_reads_our_subscription(broker, topic, client, assignor):
    with Java(broker, topic, [topic], assignor, rack="a") as java:
        wait_for(lambda: len(java.assigned) == 6, java)
        with client.member(broker, topic, assignor, rack="b", group_instance_id="i") as ours:
            wait_for(lambda: len(java.assigned) == len(ours.assigned) == 3, java, ours)
            assert spread(java, ours) == all_of(topic)
            [seen] = [one for one in java.seen.values() if one["rack"] == "b"]
            assert seen["topics"] == [topic]
            assert seen["instance"] == "i"


@with_assignors("Range", "CooperativeSticky")
def test_a_java_follower_gets_our_leaders_assignment(broker, topic, client, assignor):
    with client.member(broker, topic, assignor, rack="b") as ours:
        wait_for(lambda: len(ours.assigned) == 6, ours)
        with Java(broker, topic, [topic], assignor, rack="a") as java:
            wait_for(lambda: len(java.assigned) == len(ours.assigned) == 3, java, ours)
            assert spread(java, ours) == all_of(topic)
            assert java.led == 0


def test_all_three_clients_are_one_group(broker, topic):
    kafka, aio = CLIENTS.values()
    with kafka.member(broker, topic, "CooperativeSticky", rack="a") as one:
        wait_for(lambda: len(one.assigned) == 6, one)
        with (
            aio.member(broker, topic, "CooperativeSticky", rack="b") as two,
            Java(broker, topic, [topic], "CooperativeSticky", rack="c") as three,
        ):
            members = one, two, three
            wait_for(lambda: all(len(member.assigned) == 2 for member in members), *members)
            assert spread(*members) == all_of(topic)


def test_a_bounced_static_member_keeps_its_partitions_without_a_rebalance(broker, topic, client):
    with client.member(broker, topic, "Range", group_instance_id="two") as other:
        wait_for(lambda: len(other.assigned) == 6, other)
        first = client.member(broker, topic, "Range", group_instance_id="one").__enter__()
        wait_for(lambda: len(other.assigned) == len(first.assigned) == 3, other, first)
        had, events = first.assigned, len(other.events)
        first.close()
        with client.member(broker, topic, "Range", group_instance_id="one") as again:
            wait_for(lambda: again.assigned == had, other, again)
            assert len(other.events) == events


def test_a_restarted_static_leader_watches_the_topics_of_the_group(broker, topic, client):
    """KIP-814: with an older JoinGroup the client believes it is a follower.

    New partitions then have no owner until another member joins or leaves.
    """
    others = f"{topic}-others"
    create_topic(broker, others, 2)
    static = {"assignor": "Range", "session_timeout_ms": 30000}
    first = client.member(broker, topic, group_instance_id="one", **static).__enter__()
    wait_for(lambda: len(first.assigned) == 6, first)
    with client.kind(broker, topic, [topic, others], client.adapters.Range(), group_instance_id="two") as other:
        wait_for(lambda: len(first.assigned) == 3 and len(other.assigned) == 5, first, other)
        events = len(other.events)
        first.close()
        with client.member(broker, topic, group_instance_id="one", **static) as again:
            wait_for(lambda: len(again.assigned) == 3, again, other)
            assert len(other.events) == events, "no rebalance followed"
            add_partitions(broker, topic, 8)
            wait_for(lambda: len(again.assigned) == 4 and len(other.assigned) == 6, again, other)
            add_partitions(broker, others, 3)  # only the other member subscribes to it
            wait_for(lambda: len(other.assigned) == 7, again, other)


def test_a_new_member_gets_its_own_topics_in_its_first_rebalance(broker, topic, client, caplog):
    own = f"{topic}-own"
    create_topic(broker, own, 2)
    with client.member(broker, topic, "Range") as leader:
        wait_for(lambda: len(leader.assigned) == 6, leader)
        with client.kind(broker, topic, [topic, own], client.adapters.Range()) as new:
            wait_for(lambda: new.assigned, leader, new)
            assert len(new.assigned) == 5
    assert "is not in the leader's metadata" not in caplog.text


def test_a_member_with_several_assignors_joins_once(broker, topic, client):
    names = "Range", "Sticky", "RoundRobin"
    assignors = [getattr(client.adapters, name)() for name in names]
    with client.kind(broker, topic, [topic], *assignors, group_instance_id="i") as member:
        wait_for(lambda: len(member.assigned) == 6, member)
        assert generation(member) == 1


def generation(member):
    coordinator = member.consumer._coordinator
    return coordinator.generation if isinstance(member, Aio) else coordinator._generation.generation_id


def test_a_duplicate_instance_id_fences_the_first_member(broker, topic, client):
    with client.member(broker, topic, "Range", group_instance_id="i") as first:
        wait_for(lambda: len(first.assigned) == 6, first)
        with client.member(broker, topic, "Range", group_instance_id="i") as second:
            wait_for(lambda: first.error, second)
            assert f"another consumer joined group {topic} with group_instance_id 'i'" in str(first.error)
            wait_for(lambda: len(second.assigned) == 6, second)


def test_a_commit_reports_fencing_like_a_heartbeat(broker, topic, client):
    # Heartbeats are rare: the first consumer is fenced in a commit response, and must not rejoin.
    quiet = {"group_instance_id": "i", "heartbeat_interval_ms": 5000, "session_timeout_ms": 30000}
    commits = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    with client.member(broker, topic, "Range", **quiet, **commits) as first, produced(broker, topic, 6):
        wait_for(lambda: len(first.records) > 20, first)
        with client.member(broker, topic, "Range", **quiet, **commits) as second:
            wait_for(lambda: first.error, second)
            assert f"another consumer joined group {topic} with group_instance_id 'i'" in str(first.error)
            wait_for(lambda: len(second.assigned) == 6, second)
            before = len(second.records)
            wait_for(lambda: len(second.records) > before + 20, second)


def test_aiokafka_raises_an_error_that_arrives_together_with_records(broker, topic):
    # The error may also arrive between two calls of getmany, when nothing waits for a fetch.
    assert any(was_fenced_while_it_waited(broker, topic) for _ in range(6))


def was_fenced_while_it_waited(broker, topic):
    client = CLIENTS["aiokafka"]
    static = {"group_instance_id": "i", "enable_auto_commit": True, "auto_commit_interval_ms": 100}
    with client.member(broker, topic, "Range", **static) as first:
        wait_for(lambda: len(first.assigned) == 6, first)
        state, woken = first.consumer._subscription, []

        def abort_waiters(error):
            # As if a fetch response had just ended the wait.
            for waiter in [] if woken else [one for one in state._fetch_waiters if not one.done()]:
                waiter.set_result(None)
                woken.append(waiter)
            type(state).abort_waiters(state, error)

        state.abort_waiters = abort_waiters
        with client.member(broker, topic, "Range", **static) as second:
            wait_for(lambda: first.error, second)
            assert "is fenced" in str(first.error)
    return bool(woken)


@pytest.mark.parametrize(
    ("to_consumer", "to_assignor"),
    [({"client_rack": "a"}, {}), ({}, {"client_rack": "a"}), ({"client_rack": "a"}, {"client_rack": "a"})],
)
def test_kafka_python_is_given_the_rack_once(broker, to_consumer, to_assignor):
    assignor = kafka_python.Range(**to_assignor)
    with closing(
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            partition_assignment_strategy=[assignor],
            **to_consumer,
        )
    ) as consumer:
        consumer.subscribe(["t"])
        [(name, subscription)] = consumer._coordinator.group_protocols()
        assert (name, subscription.rack_id) == ("range", "a")
        assert consumer.config["client_rack"] == "a"
        assert consumer._fetcher.config["client_rack"] == "a", "it reads from replicas in its rack, too"


def test_kafka_python_rejects_two_racks_for_one_consumer(broker):
    with pytest.raises(KafkaConfigurationError, match="has the racks 'b' and 'a'; give one rack"):
        KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            client_rack="b",
            partition_assignment_strategy=[kafka_python.Range(client_rack="a")],
        )


@pytest.mark.parametrize(
    ("to_consumer", "to_assignor"),
    [({"client_rack": "a"}, {}), ({}, {"client_rack": "a"}), ({"client_rack": "a"}, {"client_rack": "a"})],
)
def test_aiokafka_is_given_the_rack_once(broker, topic, to_consumer, to_assignor):
    one = Aio(broker, topic, [topic], aiokafka.Range(**to_assignor), **to_consumer)
    other = Aio(broker, topic, [topic], aiokafka.Range(client_rack="b"))
    with one, other:
        wait_for(lambda: one.assigned and other.assigned, one, other)
        assert [racks_of(member) for member in (one, other)] == [("a", "a"), ("b", "b")]


def racks_of(member):
    """Return an aiokafka consumer's racks: in its subscription, and in its fetches (KIP-392)."""
    consumer = member.consumer
    return consumer._coordinator._assignors[0].membership.rack, consumer._fetcher._client_rack


def test_aiokafka_rejects_two_racks_for_one_consumer(broker, topic):
    with Aio(broker, topic, [topic], aiokafka.Range(client_rack="a"), client_rack="b") as member:
        wait_for(lambda: member.error)
    assert isinstance(member.error, AioConfigurationError)
    assert "has the racks 'b' and 'a'; give one rack, once" in str(member.error)


# In make test, tests/integration/test_racks.py has leaders that rejoin on a real broker.
@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.long)])
def moved(request):
    """Yield a broker in rack a, and a function that restarts it in rack b."""
    if request.param == "embedded":
        with EmbeddedCluster(racks=["a"]) as cluster:
            yield cluster, lambda: cluster.restart_broker(1, rack="b")
        return
    need_broker()
    with Broker({"broker.rack": "a"}) as own:

        def move():
            own.stop()
            own.change(broker_rack="b")
            own.start()

        yield own, move


def test_leaders_rebalance_when_a_broker_moves_to_another_rack(moved, caplog):
    caplog.set_level(logging.INFO, logger="quorate")
    broker, move = moved
    for name in CLIENTS:
        create_topic(broker, name, 2)
    with ExitStack() as stack:
        members = [stack.enter_context(one.member(broker, name, "Range", rack="a")) for name, one in CLIENTS.items()]
        wait_for(lambda: all(len(member.assigned) == 2 for member in members), *members)
        move()
        for name in CLIENTS:
            text = (
                f"group {name}: the leader rejoins because the racks of partitions changed (KIP-881): "
                f"{name}-0 was in the racks a and is now in b"
            )
            wait_for(lambda text=text: text in caplog.text, *members, limit_s=60)
