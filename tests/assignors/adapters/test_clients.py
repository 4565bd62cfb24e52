"""What holds for both clients, by their own coordinators without a broker."""

import asyncio
import logging
from types import SimpleNamespace

import kafka
import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaConfigurationError
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import GroupAuthorizationFailedError, RebalanceInProgressError
from kafka.future import Future
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from quorate.assignors import Assignment, Assignor, Group, server_assignor
from quorate.assignors.adapters import aiokafka, aiokafka_consumer, kafka_python
from quorate.assignors.adapters.fits import UnfitError
from quorate.assignors.adapters.protocol import assignment_bytes, subscription_bytes
from quorate.assignors.range import RangeAssignor
from quorate.codecs.consumer_protocol import decode_subscription, encode_protocol
from quorate.codecs.messages import ConsumerProtocolSubscription
from tests.assignors.adapters.offline import GROUP, OfflineAio, OfflineKafkaPython

RACKS = {1: "a", 2: "b", 3: "c"}
SIX = {"t": {number: [number % 3 + 1] for number in range(6)}}
"""Six partitions with one replica each, on the brokers 1, 2, 3, 1, 2, 3."""


class Client:
    def __init__(self, consumer, adapters):
        self.consumer, self.adapters = consumer, adapters

    def __getattr__(self, name):
        return getattr(self.adapters, name)


@pytest.fixture(
    params=[Client(OfflineKafkaPython, kafka_python), Client(OfflineAio, aiokafka)], ids=["kafka-python", "aiokafka"]
)
def client(request):
    return request.param


def told(data):
    embedded = decode_subscription(data)
    assert embedded.version == 3
    assert embedded.trailing == b""
    return embedded.message


def member(rack=None, topics=("t",), **more):
    return subscription_bytes(topics, rack=rack, **more)


# ---- what a member says


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_a_member_says_where_it_is(client, name):
    with client.consumer(getattr(client, name)(client_rack="a"), topics=["u", "t"]) as consumer:
        message = told(consumer.subscription())
        assert message.topics == ("t", "u")
        assert message.rack_id == "a"
        assert message.generation_id == -1
        assert message.owned_partitions == ()


def test_an_empty_rack_is_no_rack(client):
    with client.consumer(client.Range(client_rack="")) as consumer:
        assert told(consumer.subscription()).rack_id is None


def test_an_eager_member_says_its_generation_and_owns_nothing(client):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("range", [("t", 1)], 5)
        message = told(consumer.subscription())
        assert (message.generation_id, message.owned_partitions, message.user_data) == (5, (), None)


def test_a_sticky_member_says_in_its_user_data_what_it_had(client, oracle):
    with client.consumer(client.Sticky(), topics=["t", "u"]) as consumer:
        consumer.metadata(RACKS, {**SIX, "u": {0: [1]}})
        assert told(consumer.subscription()).user_data is None
        consumer.complete("sticky", [("t", 4), ("t", 1), ("u", 0)], 5)
        message = told(consumer.subscription())
        assert message.owned_partitions == ()
        java = oracle.call(
            "stickyUserData",
            assignor="sticky",
            generation=5,
            partitions=[{"topic": "t", "partition": 4}, {"topic": "t", "partition": 1}, {"topic": "u", "partition": 0}],
        )
        assert message.user_data.hex() == java["hex"]


def test_a_cooperative_member_says_what_it_keeps(client, oracle):
    with client.consumer(client.CooperativeSticky(client_rack="a")) as consumer:
        consumer.metadata(RACKS, SIX)
        assert told(consumer.subscription()).user_data.hex() == "ffffffff"
        consumer.complete("cooperative-sticky", [("t", 4), ("t", 1)], 5)
        data = consumer.subscription()
        assert told(data).user_data.hex() == "00000005"
        java = oracle.call("subscription", hex=data.hex())
        assert (java["version"], java["remaining"]) == (3, 0)
        assert java["value"]["ownedPartitions"] == [{"topic": "t", "partitions": [1, 4]}]
        assert (java["value"]["generationId"], java["value"]["rackId"]) == (5, "a")


def test_a_member_with_an_assignor_that_java_lacks_says_what_it_had(client):
    with client.consumer(client.LagAware()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("lag-aware", [("t", 4), ("t", 1)], 5)
        [owned] = told(consumer.subscription()).owned_partitions
        assert (owned.topic, owned.partitions) == ("t", (1, 4))


def test_consumers_with_the_same_instance_share_nothing(
    client,
):  # in aiokafka's own sticky assignor they do: its issues #1175, #1176
    shared = client.CooperativeSticky(client_rack="a")
    with client.consumer(shared) as one, client.consumer(shared) as two:
        for consumer in one, two:
            consumer.metadata(RACKS, SIX)
            consumer.subscription()
        one.complete("cooperative-sticky", [("t", 0)], 3)
        two.complete("cooperative-sticky", [("t", 1)], 7)
        first, second = told(one.subscription()), told(two.subscription())
        assert (first.owned_partitions[0].partitions, first.generation_id) == ((0,), 3)
        assert (second.owned_partitions[0].partitions, second.generation_id) == ((1,), 7)


def test_two_racks_for_one_consumer_are_refused(client):
    with (
        pytest.raises(Exception, match="'a' and 'b': a consumer has one, give it once"),
        client.consumer(client.Range(client_rack="a"), client.RoundRobin(client_rack="b")) as consumer,
    ):
        consumer.subscription()


def test_two_assignors_of_one_name_are_refused(client):
    for two in ([client.Range(client_rack="a"), client.Range()], [client.Adapter(RangeAssignor()), client.Range()]):
        with (
            pytest.raises(
                Exception, match="2 assignors called 'range': a group tells them apart by their names, give it once"
            ),
            client.consumer(*two) as consumer,
        ):
            consumer.subscription()


def test_aiokafka_is_told_where_classes_are_given_for_instances():
    with (
        pytest.raises(KafkaConfigurationError, match=r"given as instances, not as classes: \[CooperativeSticky\(\)\]"),
        OfflineAio(aiokafka.CooperativeSticky) as consumer,
    ):
        consumer.subscription()
    with pytest.raises(TypeError, match="given as instances"):
        aiokafka.options(aiokafka.Range, client_rack="a")
    with pytest.raises(ValueError, match="no assignor is given"):
        aiokafka.options(client_rack="a")
    with pytest.raises(ValueError, match="2 assignors called 'range'"):
        aiokafka.options(aiokafka.Range(), aiokafka.Range(), client_rack="a")


def test_a_coordinator_that_asks_no_protocols_is_none_that_the_adapter_knows(monkeypatch):
    monkeypatch.setattr(ConsumerCoordinator, "_validate_rebalance_protocol", lambda self: None)
    with (
        pytest.raises(UnfitError, match="it has not asked for supported_protocols"),
        OfflineKafkaPython(kafka_python.Range()) as consumer,
    ):
        consumer.subscription()


def test_aiokafka_joins_once_with_all_assignors():
    # By itself it sends a JoinGroup for each, the first with one assignor, the second with two: a rebalance each.
    with OfflineAio(aiokafka.CooperativeSticky(), aiokafka.Range(), aiokafka.Sticky()) as consumer:
        consumer.subscription("range")
        assert [[name for name, _ in one] for one in consumer.joined] == [["cooperative-sticky", "range", "sticky"]]


def test_a_java_assignor_cannot_be_made_cooperative(client):
    with pytest.raises(ValueError, match="range is eager in every client"):
        client.Adapter(RangeAssignor(), cooperative=True)
    with pytest.raises(TypeError, match="is not an assignor"):
        client.Adapter(RangeAssignor)
    with pytest.raises(TypeError, match="ServerRangeAssignor is for brokers"):
        client.Adapter(server_assignor("range"))


# ---- what a leader does


def test_the_leader_sees_racks(client):
    with client.consumer(client.Range(client_rack="c")) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("range", {"m1": member("c"), "m2": member("a"), "m3": member("b")})
        assert answer == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 0), ("t", 3)], "m3": [("t", 1), ("t", 4)]}


def test_the_leader_sees_instance_ids(client):
    with client.consumer(client.RoundRobin()) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("roundrobin", {"m1": member(), "m2": ("i", member()), "m3": ("h", member())})
        assert answer == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 1), ("t", 4)], "m3": [("t", 0), ("t", 3)]}


def test_the_leader_sees_what_members_keep(client):
    with client.consumer(client.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        has = [("t", number) for number in range(6)]
        answer = consumer.lead("cooperative-sticky", {"m1": member(owned=has, generation=1), "m2": member()})
        assert len(answer["m1"]) == 3
        assert answer["m2"] == [], "what m1 gives up follows when it is free"


def test_the_leader_reads_all_versions(client):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        message = ConsumerProtocolSubscription(topics=("t",))
        members = {f"m{version}": encode_protocol(message, version) for version in range(4)}
        members["m4"] = b"\x00\x04" + encode_protocol(message, 3)[2:] + b"a field of version 4"
        members["m5"] = encode_protocol(message, 3)
        answer = consumer.lead("range", members)
        assert answer == {f"m{number}": [("t", number)] for number in range(6)}


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x00", b"\xff\xff", b"\x00\x03\x00\x00\x00\x09"],
)
def test_a_member_that_cannot_be_read_gets_nothing_and_is_named(client, damage, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("range", {"m1": member(), "m2": ("i", damage)})
        assert answer == {"m1": [("t", number) for number in range(6)], "m2": []}
    [record] = [
        record for record in caplog.records if record.levelno == logging.ERROR and "cannot be read" in record.message
    ]
    assert f"group {GROUP}: the subscription of member m2 (instance i) cannot be read" in record.message


def test_topics_that_the_metadata_lacks_are_named_and_the_others_assigned(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("range", {"m1": member(topics=["t", "nowhere"]), "m2": member(topics=["nowhere"])})
        assert answer == {"m1": [("t", number) for number in range(6)], "m2": []}
    assert "topic nowhere is not in the leader's metadata" in caplog.text
    assert "m1, m2 subscribed to it" in caplog.text


def test_a_name_that_no_topic_can_have_does_not_fail_the_leader(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("range", {"m1": member(), "m2": member(topics=["t", "not a name", "", "x" * 300])})
        assert answer == {"m1": [("t", 0), ("t", 1), ("t", 2)], "m2": [("t", 3), ("t", 4), ("t", 5)]}
    assert "topic not a name is not in the leader's metadata" in caplog.text


def test_a_topic_name_that_is_not_utf_8_is_not_known(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead("range", {"m1": member(), "m2": b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff"})
        assert answer == {"m1": [("t", number) for number in range(6)], "m2": []}
    assert "topic ? is not in the leader's metadata" in caplog.text
    assert caplog.text.isascii()


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_without_any_metadata_everybody_gets_nothing(client, name):
    with client.consumer(getattr(client, name)(client_rack="a")) as consumer:
        protocol = (
            consumer.coordinator._assignors[0].name
            if client.adapters is aiokafka
            else next(iter(consumer.coordinator._assignors))
        )
        assert consumer.lead(protocol, {"m1": member("a"), "m2": member()}) == {"m1": [], "m2": []}


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_partitions_that_the_metadata_lacks_are_not_given(client, name):
    with client.consumer(getattr(client, name)(client_rack="a")) as consumer:
        protocol = (
            consumer.coordinator._assignors[0].name
            if client.adapters is aiokafka
            else next(iter(consumer.coordinator._assignors))
        )
        consumer.metadata(RACKS, {"t": {0: [1], 3: [2], 7: [9]}})  # 9 is away
        answer = consumer.lead(protocol, {"m1": member("a"), "m2": member()})
        assert sorted(answer["m1"] + answer["m2"]) == [("t", 0), ("t", 3), ("t", 7)]


def test_racks_of_brokers_that_are_away_are_remembered(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        consumer.metadata(RACKS, SIX)
        racks = {"m1": member("c"), "m2": member("a"), "m3": member("b")}
        before = consumer.lead("range", racks)
        consumer.metadata({1: "a", 2: "b"}, SIX)
        assert consumer.lead("range", racks) == before


class Failing(Assignor):
    name = "failing"

    def assign_group(self, group):
        raise RuntimeError("a mistake")


class Doubling(Assignor):
    name = "doubling"

    def assign_group(self, group):
        return Assignment.from_lists(group.topology, group.member_ids, [[0, 1] for _ in group.member_ids])


@pytest.mark.parametrize(
    ("assignor", "why"), [(Failing(), "a mistake"), (Doubling(), "t-0 is given to more than one member")]
)
def test_an_assignor_that_fails_is_named_and_the_group_goes_on(client, assignor, why, caplog):
    with client.consumer(client.Adapter(assignor)) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead(assignor.name, {"m1": member(), "m2": member(topics=["u"]), "m3": member()})
        assert answer == {"m1": [("t", 0), ("t", 2), ("t", 4)], "m2": [], "m3": [("t", 1), ("t", 3), ("t", 5)]}
    assert why in caplog.text
    assert f"group {GROUP}" in caplog.text
    assert "use another assignor and report this one" in caplog.text


class Shuffle(Assignor):
    """Everything to whom comes last."""

    name = "shuffle"

    def assign_group(self, group: Group):
        lists = [[] for _ in group.member_ids]
        lists[-1] = list(range(int(group.topology.first[-1])))
        return Assignment.from_lists(group.topology, group.member_ids, lists)


def test_any_assignor_can_be_cooperative(client):
    with client.consumer(client.Adapter(Shuffle(), cooperative=True)) as consumer:
        consumer.metadata(RACKS, SIX)
        has = [("t", 0), ("t", 1)]
        answer = consumer.lead(
            "cooperative-shuffle", {"m1": member(owned=has, generation=1), "m2": member(generation=1)}
        )
        assert answer == {"m1": [], "m2": [("t", 2), ("t", 3), ("t", 4), ("t", 5)]}
        answer = consumer.lead(
            "cooperative-shuffle", {"m1": member(generation=2), "m2": member(generation=2, owned=answer["m2"])}
        )
        assert answer["m2"] == [("t", number) for number in range(6)]


def test_the_rack_aware_assignor_for_brokers_works_in_clients(client):
    with client.consumer(
        client.Adapter(server_assignor("rack-aware-uniform"), client_rack="c", cooperative=True)
    ) as consumer:
        consumer.metadata(RACKS, SIX)
        answer = consumer.lead(
            "cooperative-rack-aware-uniform", {"m1": member("c"), "m2": member("a"), "m3": member("b")}
        )
        assert answer == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 0), ("t", 3)], "m3": [("t", 1), ("t", 4)]}


def test_a_cooperative_member_keeps_what_it_has_under_any_assignor(client):
    with client.consumer(client.LagAware(cooperative=True)) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-lag-aware", [("t", 4)], 5)
        [owned] = told(consumer.subscription("cooperative-lag-aware")).owned_partitions
        assert owned.partitions == (4,)


# ---- racks that change (KIP-881)


def as_leader(consumer, name="range"):
    consumer.metadata(RACKS, SIX)
    mine = consumer.lead(name, {"m": member("a")})["m"]
    consumer.complete(name, mine, 1)
    assert not consumer.rejoins()


def test_the_leader_rejoins_when_a_partition_moves_to_another_rack(client, caplog):
    caplog.set_level(logging.INFO)
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.metadata(RACKS, SIX)
        assert not consumer.rejoins()
        consumer.metadata(RACKS, {"t": {**SIX["t"], 5: [1]}})
        assert consumer.rejoins()
    assert "t-5 was in the racks c and is now in a" in caplog.text


def test_the_leader_rejoins_when_a_broker_comes_back_in_another_rack(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.metadata({1: "a", 2: "b"}, SIX)
        assert not consumer.rejoins(), "a broker that is away is not in another rack (KAFKA-20778)"
        consumer.metadata(RACKS, SIX)
        assert not consumer.rejoins()
        consumer.metadata({**RACKS, 3: "d"}, SIX)
        assert consumer.rejoins()


def test_a_leader_without_a_rack_does_not_care(client):
    with client.consumer(client.Range()) as consumer:
        as_leader(consumer)
        consumer.metadata({1: "x", 2: "y", 3: "z"}, SIX)
        assert not consumer.rejoins()


def test_a_follower_does_not_care(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.subscription()
        consumer.complete("range", [("t", 0)], 2)
        consumer.metadata({1: "x", 2: "y", 3: "z"}, SIX)
        assert not consumer.rejoins()


def test_a_change_between_assigning_and_the_end_of_the_rebalance_is_not_missed(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        consumer.metadata(RACKS, SIX)
        mine = consumer.lead("range", {"m": member("a")})["m"]
        consumer.metadata({**RACKS, 3: "d"}, SIX)
        consumer.complete("range", mine, 1)
        assert consumer.rejoins()


# ---- keeping partitions (KIP-429)


class Listener(kafka.ConsumerRebalanceListener, ConsumerRebalanceListener):
    """A rebalance listener for both clients."""

    def __init__(self):
        self.told = []

    def on_partitions_assigned(self, assigned):
        self.told.append(("assigned", {at.partition for at in assigned}))

    def on_partitions_revoked(self, revoked):
        self.told.append(("revoked", {at.partition for at in revoked}))

    def on_partitions_lost(self, lost):
        self.told.append(("lost", {at.partition for at in lost}))


def test_only_what_moves_is_revoked_and_a_rebalance_follows(client):
    listener = Listener()
    with client.consumer(client.CooperativeSticky(), listener=listener) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        assert not consumer.rejoins()
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 1), ("t", 2)], 2)
        assert consumer.rejoins()
    told = [(kind, those) for kind, those in listener.told if those]
    assert told == [("assigned", {0, 1}), ("revoked", {0}), ("assigned", {2})]


def test_kept_partitions_keep_their_positions(client):
    with client.consumer(client.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        consumer.seek(("t", 0), 17)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0)], 2)
        assert consumer.position(("t", 0)) == 17


def test_a_member_that_was_put_out_while_joining_owns_nothing_and_says_so(client):
    listener = Listener()
    with client.consumer(client.CooperativeSticky(), listener=listener) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0), ("t", 1)], 1)
        consumer.join()
        consumer.coordinator.reset_generation()  # JoinGroup was answered by UNKNOWN_MEMBER_ID
        consumer.join()
        message = told(consumer.subscription())
        assert (message.owned_partitions, message.generation_id) == ((), -1)
        consumer.complete("cooperative-sticky", [("t", 1)], 5)
        assert not consumer.rejoins()
    lost = [those for kind, those in listener.told if kind in ("lost", "revoked") and those]
    assert lost == [{0, 1}]
    assert listener.told[-1] == ("assigned", {1})


def test_a_consumer_with_an_eager_assignor_among_its_own_is_eager(client):
    with client.consumer(client.CooperativeSticky(), client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("cooperative-sticky", [("t", 0)], 1)
        assert told(consumer.subscription("cooperative-sticky")).owned_partitions == ()


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
        assert consumer.coordinator.need_rejoin(), "until the assignment is there"
        consumer.complete("range", mine, 2)
        assert not consumer.coordinator.need_rejoin()


@pytest.fixture
def joining():
    """A coordinator of kafka-python that has joined, and has not polled since; `_join_task` is the test's to set."""
    with OfflineKafkaPython(kafka_python.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        coordinator = consumer.coordinator
        coordinator.coordinator = lambda: 1
        coordinator._generation = Generation(3, "m", "range")
        coordinator.state = MemberState.REBALANCING

        async def anew():
            raise NotImplementedError("JoinGroup is sent anew")

        coordinator._do_join_and_sync_async = anew
        yield coordinator


def assigned_to(coordinator):
    return sorted(at.partition for at in coordinator._subscription.assigned_partitions())


@pytest.mark.parametrize("timeout_ms", [0, 100, None])
def test_kafka_python_keeps_a_join_that_ended_between_two_polls(joining, timeout_ms):
    # By itself it joins anew, as a leader by another rebalance, and members that work longer than they poll do so for ever.
    joining._join_task = Future().success(assignment_bytes([("t", 1), ("t", 4)]))
    assert joining.ensure_active_group(timeout_ms)
    assert assigned_to(joining) == [1, 4]
    assert joining.stable()
    assert not joining.need_rejoin()


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("g"), ZeroDivisionError()], ids=repr)
def test_kafka_python_hears_once_of_an_error_that_ended_a_join_between_two_polls(joining, error):
    joining._join_task = Future().failure(error)
    with pytest.raises(type(error)):
        joining.ensure_active_group(100)
    with pytest.raises(NotImplementedError):
        joining.ensure_active_group(100)


def test_kafka_python_forgets_a_join_if_it_was_put_out_since(joining):
    joining._join_task = Future().success(assignment_bytes([("t", 1)]))
    joining._generation = Generation(-1, "", None)
    joining.state = MemberState.UNJOINED
    with pytest.raises(NotImplementedError):
        joining.ensure_active_group(100)
    assert assigned_to(joining) == []


def test_kafka_python_joins_anew_if_it_was_put_out_between_joining_and_its_assignment(joining):
    # The answer to an older commit or heartbeat does that. By itself kafka-python fails poll(): the assignor's name is not that of no generation.
    answer = SimpleNamespace(error_code=0, protocol_type="consumer", protocol_name="range", assignment=b"")
    assert joining._process_sync_group_response(answer, 0) == b""
    joining.reset_generation()
    with pytest.raises(RebalanceInProgressError):
        joining._process_sync_group_response(answer, 0)
    assert joining.need_rejoin()


@pytest.mark.parametrize("until", ["poll", "another join", "close"])
def test_kafka_python_sends_heartbeats_from_the_end_of_a_join_to_the_next_poll(joining, until):
    # By itself it does not, and a cooperative consumer that works on records for longer than its session timeout is put out.
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
        told = len(sent)
        await joining._net.sleep(0.03)
        assert len(sent) == told

    joining.config["heartbeat_interval_ms"] = 1
    joining._send_heartbeat_request = heartbeat
    joining._manager._manager = Manager()
    joining._net.run(go)
    assert set(sent) == {MemberState.REBALANCING}


def commits(consumer, monkeypatch):
    """The partitions of every commit that is sent; auto-commit is on."""
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
def test_offsets_of_a_topic_that_was_deleted_hold_up_no_rebalance(client, name, monkeypatch):
    # By itself aiokafka tries to commit them for ever, and kafka-python until its request times out: the group waits for it.
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


def test_aiokafka_gives_up_a_last_commit_that_nobody_answers(monkeypatch, caplog):
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


def test_an_aiokafka_consumer_that_assigns_by_hand_after_a_group_is_left_alone():
    with OfflineAio(aiokafka.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-sticky", [("t", 0)], 1)
        state = consumer.coordinator._subscription

        async def by_hand():
            state.unsubscribe()
            state.assign_from_user([TopicPartition("t", 5)])
            consumer.coordinator.reset_generation()  # as leaving the group ends

        consumer.run(by_hand())
        assert state.assigned_partitions() == {TopicPartition("t", 5)}
