"""Leaders, and rejoins after rack changes (KIP-881), in the clients' own coordinators.

No broker is needed.
"""

import logging

import pytest

from quorate.assignors import Assignment, Assignor, GroupSpec, server_assignor
from quorate.assignors.adapters import aiokafka
from quorate.codecs.consumer_protocol import encode_protocol
from quorate.codecs.messages import ConsumerProtocolSubscription
from tests.assignors.adapters.coordinators import RACKS, SIX, as_leader, decoded, member
from tests.assignors.adapters.offline import GROUP


def test_the_leader_sees_racks(client):
    with client.consumer(client.Range(client_rack="c")) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("range", {"m1": member("c"), "m2": member("a"), "m3": member("b")})
        assert result == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 0), ("t", 3)], "m3": [("t", 1), ("t", 4)]}


def test_the_leader_sees_instance_ids(client):
    with client.consumer(client.RoundRobin()) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("roundrobin", {"m1": member(), "m2": ("i", member()), "m3": ("h", member())})
        assert result == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 1), ("t", 4)], "m3": [("t", 0), ("t", 3)]}


def test_the_leader_sees_owned_partitions(client):
    with client.consumer(client.CooperativeSticky()) as consumer:
        consumer.metadata(RACKS, SIX)
        has = [("t", number) for number in range(6)]
        result = consumer.lead("cooperative-sticky", {"m1": member(owned=has, generation=1), "m2": member()})
        assert len(result["m1"]) == 3
        assert result["m2"] == [], "what m1 gives up follows when it is free"


def test_the_leader_reads_all_subscription_versions(client):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        message = ConsumerProtocolSubscription(topics=("t",))
        members = {f"m{version}": encode_protocol(message, version) for version in range(4)}
        members["m4"] = b"\x00\x04" + encode_protocol(message, 3)[2:] + b"a field of version 4"
        members["m5"] = encode_protocol(message, 3)
        result = consumer.lead("range", members)
        assert result == {f"m{number}": [("t", number)] for number in range(6)}


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x00", b"\xff\xff", b"\x00\x03\x00\x00\x00\x09"],
)
def test_a_member_with_a_damaged_subscription_gets_no_partitions_and_is_logged(client, damage, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("range", {"m1": member(), "m2": ("i", damage)})
        assert result == {"m1": [("t", number) for number in range(6)], "m2": []}
    [record] = [
        record for record in caplog.records if record.levelno == logging.ERROR and "cannot be decoded" in record.message
    ]
    assert f"group {GROUP}: the subscription of member m2 (instance i) cannot be decoded" in record.message


def test_unknown_topics_are_logged_and_the_others_assigned(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("range", {"m1": member(topics=["t", "nowhere"]), "m2": member(topics=["nowhere"])})
        assert result == {"m1": [("t", number) for number in range(6)], "m2": []}
    assert "topic nowhere is not in the leader's metadata" in caplog.text
    assert "m1, m2 subscribed to it" in caplog.text


def test_an_invalid_topic_name_does_not_fail_the_leader(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("range", {"m1": member(), "m2": member(topics=["t", "not a name", "", "x" * 300])})
        assert result == {"m1": [("t", 0), ("t", 1), ("t", 2)], "m2": [("t", 3), ("t", 4), ("t", 5)]}
    assert "topic not a name is not in the leader's metadata" in caplog.text


def test_many_or_hostile_topic_names_are_logged_in_a_few_short_lines(client, caplog):
    """A member of the same group wrote 43 MB into the leader's log (issue 14)."""
    names = ["\x1b[2J\r\n" + "x" * 30_000, *(f"nowhere{number}" for number in range(20_000))]
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.lead("range", {"m1": member(topics=["t", *names])})
    ours = [record.message for record in caplog.records if record.name.startswith("quorate")]
    assert len(ours) == 4
    assert "19,998 other subscribed topics" in ours[-1]
    assert max(map(len, ours)) < 1_000
    assert "\x1b" not in caplog.text


def test_a_topic_name_that_is_not_utf_8_is_unknown(client, caplog):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead("range", {"m1": member(), "m2": b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff"})
        assert result == {"m1": [("t", number) for number in range(6)], "m2": []}
    assert "topic \\udcff is not in the leader's metadata" in caplog.text
    assert caplog.text.isascii()


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_without_metadata_no_partitions_are_assigned(client, name):
    with client.consumer(getattr(client, name)(client_rack="a")) as consumer:
        protocol = (
            consumer.coordinator._assignors[0].name
            if client.adapters is aiokafka
            else next(iter(consumer.coordinator._assignors))
        )
        assert consumer.lead(protocol, {"m1": member("a"), "m2": member()}) == {"m1": [], "m2": []}


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_partitions_missing_in_the_metadata_are_not_assigned(client, name):
    with client.consumer(getattr(client, name)(client_rack="a")) as consumer:
        protocol = (
            consumer.coordinator._assignors[0].name
            if client.adapters is aiokafka
            else next(iter(consumer.coordinator._assignors))
        )
        consumer.metadata(RACKS, {"t": {0: [1], 3: [2], 7: [9]}})  # broker 9 is offline
        result = consumer.lead(protocol, {"m1": member("a"), "m2": member()})
        assert sorted(result["m1"] + result["m2"]) == [("t", 0), ("t", 3), ("t", 7)]


def test_racks_of_offline_brokers_are_remembered(client):
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
    ("assignor", "why"), [(Failing(), "a mistake"), (Doubling(), "t-0 is assigned to more than one member")]
)
def test_a_failing_assignor_is_logged_and_the_group_continues(client, assignor, why, caplog):
    with client.consumer(client.Adapter(assignor)) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead(assignor.name, {"m1": member(), "m2": member(topics=["u"]), "m3": member()})
        assert result == {"m1": [("t", 0), ("t", 2), ("t", 4)], "m2": [], "m3": [("t", 1), ("t", 3), ("t", 5)]}
    assert why in caplog.text
    assert f"group {GROUP}" in caplog.text
    assert "use another assignor and report this one" in caplog.text


class Shuffle(Assignor):
    """Assigns everything to the last member."""

    name = "shuffle"

    def assign_group(self, group: GroupSpec):
        lists = [[] for _ in group.member_ids]
        lists[-1] = list(range(int(group.topology.first[-1])))
        return Assignment.from_lists(group.topology, group.member_ids, lists)


def test_any_assignor_can_be_cooperative(client):
    with client.consumer(client.Adapter(Shuffle(), cooperative=True)) as consumer:
        consumer.metadata(RACKS, SIX)
        has = [("t", 0), ("t", 1)]
        result = consumer.lead(
            "cooperative-shuffle", {"m1": member(owned=has, generation=1), "m2": member(generation=1)}
        )
        assert result == {"m1": [], "m2": [("t", 2), ("t", 3), ("t", 4), ("t", 5)]}
        result = consumer.lead(
            "cooperative-shuffle", {"m1": member(generation=2), "m2": member(generation=2, owned=result["m2"])}
        )
        assert result["m2"] == [("t", number) for number in range(6)]


def test_the_rack_aware_assignor_for_brokers_works_in_clients(client):
    with client.consumer(
        client.Adapter(server_assignor("rack-aware-uniform"), client_rack="c", cooperative=True)
    ) as consumer:
        consumer.metadata(RACKS, SIX)
        result = consumer.lead(
            "cooperative-rack-aware-uniform", {"m1": member("c"), "m2": member("a"), "m3": member("b")}
        )
        assert result == {"m1": [("t", 2), ("t", 5)], "m2": [("t", 0), ("t", 3)], "m3": [("t", 1), ("t", 4)]}


def test_a_cooperative_member_keeps_its_partitions_with_any_assignor(client):
    with client.consumer(client.LagAware(cooperative=True)) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.join()
        consumer.complete("cooperative-lag-aware", [("t", 4)], 5)
        [owned] = decoded(consumer.subscription("cooperative-lag-aware")).owned_partitions
        assert owned.partitions == (4,)


def test_the_leader_rejoins_when_a_partition_moves_to_another_rack(client, caplog):
    caplog.set_level(logging.INFO)
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.metadata(RACKS, SIX)
        assert not consumer.rejoins()
        consumer.metadata(RACKS, {"t": {**SIX["t"], 5: [1]}})
        assert consumer.rejoins()
    assert "t-5 was in the racks c and is now in a" in caplog.text


def test_the_leader_rejoins_when_a_broker_returns_in_another_rack(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.metadata({1: "a", 2: "b"}, SIX)
        assert not consumer.rejoins(), "a broker that is away is not in another rack (KAFKA-20778)"
        consumer.metadata(RACKS, SIX)
        assert not consumer.rejoins()
        consumer.metadata({**RACKS, 3: "d"}, SIX)
        assert consumer.rejoins()


def test_a_leader_without_a_rack_does_not_rejoin(client):
    with client.consumer(client.Range()) as consumer:
        as_leader(consumer)
        consumer.metadata({1: "x", 2: "y", 3: "z"}, SIX)
        assert not consumer.rejoins()


def test_a_follower_does_not_rejoin(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        as_leader(consumer)
        consumer.subscription()
        consumer.complete("range", [("t", 0)], 2)
        consumer.metadata({1: "x", 2: "y", 3: "z"}, SIX)
        assert not consumer.rejoins()


def test_a_rack_change_between_assignment_and_sync_is_noticed(client):
    with client.consumer(client.Range(client_rack="a")) as consumer:
        consumer.metadata(RACKS, SIX)
        mine = consumer.lead("range", {"m": member("a")})["m"]
        consumer.metadata({**RACKS, 3: "d"}, SIX)
        consumer.complete("range", mine, 1)
        assert consumer.rejoins()
