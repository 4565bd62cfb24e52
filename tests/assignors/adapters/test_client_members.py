"""The subscriptions that members send, from both clients' own coordinators without a broker."""

import pytest
from aiokafka.errors import KafkaConfigurationError
from kafka import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator

from quorate.assignors import server_assignor
from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.assignors.adapters.compatibility import UnsupportedClientError
from quorate.assignors.range import RangeAssignor
from tests.assignors.adapters.coordinators import RACKS, SIX, decoded
from tests.assignors.adapters.offline import OfflineAio, OfflineKafkaPython


@pytest.mark.parametrize("name", ["Range", "RoundRobin", "Sticky", "CooperativeSticky", "LagAware"])
def test_a_member_sends_its_rack(client, name):
    with client.consumer(getattr(client, name)(client_rack="a"), topics=["u", "t"]) as consumer:
        message = decoded(consumer.subscription())
        assert message.topics == ("t", "u")
        assert message.rack_id == "a"
        assert message.generation_id == -1
        assert message.owned_partitions == ()


def test_an_empty_rack_is_no_rack(client):
    with client.consumer(client.Range(client_rack="")) as consumer:
        assert decoded(consumer.subscription()).rack_id is None


def test_an_eager_member_sends_its_generation_and_no_owned_partitions(client):
    with client.consumer(client.Range()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("range", [("t", 1)], 5)
        message = decoded(consumer.subscription())
        assert (message.generation_id, message.owned_partitions, message.user_data) == (5, (), None)


def test_a_sticky_member_sends_its_last_assignment_as_user_data(client, oracle):
    with client.consumer(client.Sticky(), topics=["t", "u"]) as consumer:
        consumer.metadata(RACKS, {**SIX, "u": {0: [1]}})
        assert decoded(consumer.subscription()).user_data is None
        consumer.complete("sticky", [("t", 4), ("t", 1), ("u", 0)], 5)
        message = decoded(consumer.subscription())
        assert message.owned_partitions == ()
        java = oracle.call(
            "stickyUserData",
            assignor="sticky",
            generation=5,
            partitions=[{"topic": "t", "partition": 4}, {"topic": "t", "partition": 1}, {"topic": "u", "partition": 0}],
        )
        assert message.user_data.hex() == java["hex"]


def test_a_cooperative_member_sends_its_owned_partitions(client, oracle):
    with client.consumer(client.CooperativeSticky(client_rack="a")) as consumer:
        consumer.metadata(RACKS, SIX)
        assert decoded(consumer.subscription()).user_data.hex() == "ffffffff"
        consumer.complete("cooperative-sticky", [("t", 4), ("t", 1)], 5)
        data = consumer.subscription()
        assert decoded(data).user_data.hex() == "00000005"
        java = oracle.call("subscription", hex=data.hex())
        assert (java["version"], java["remaining"]) == (3, 0)
        assert java["value"]["ownedPartitions"] == [{"topic": "t", "partitions": [1, 4]}]
        assert (java["value"]["generationId"], java["value"]["rackId"]) == (5, "a")


def test_an_eager_member_of_our_assignors_sends_its_last_assignment(client):
    with client.consumer(client.LagAware()) as consumer:
        consumer.metadata(RACKS, SIX)
        consumer.subscription()
        consumer.complete("lag-aware", [("t", 4), ("t", 1)], 5)
        [owned] = decoded(consumer.subscription()).owned_partitions
        assert (owned.topic, owned.partitions) == ("t", (1, 4))


def test_consumers_with_the_same_assignor_instance_share_no_state(
    client,
):  # in aiokafka's own sticky assignor they do: its issues #1175, #1176
    shared = client.CooperativeSticky(client_rack="a")
    with client.consumer(shared) as one, client.consumer(shared) as two:
        for consumer in one, two:
            consumer.metadata(RACKS, SIX)
            consumer.subscription()
        one.complete("cooperative-sticky", [("t", 0)], 3)
        two.complete("cooperative-sticky", [("t", 1)], 7)
        first, second = decoded(one.subscription()), decoded(two.subscription())
        assert (first.owned_partitions[0].partitions, first.generation_id) == ((0,), 3)
        assert (second.owned_partitions[0].partitions, second.generation_id) == ((1,), 7)


def test_two_racks_for_one_consumer_are_rejected(client):
    with (
        pytest.raises(Exception, match="'a' and 'b'; give one rack, once"),
        client.consumer(client.Range(client_rack="a"), client.RoundRobin(client_rack="b")) as consumer,
    ):
        consumer.subscription()


def test_two_assignors_with_one_name_are_rejected(client):
    for two in ([client.Range(client_rack="a"), client.Range()], [client.Adapter(RangeAssignor()), client.Range()]):
        with (
            pytest.raises(Exception, match=r"2 assignors of one consumer are called 'range'.*; give each once"),
            client.consumer(*two) as consumer,
        ):
            consumer.subscription()


def test_aiokafka_rejects_classes_in_place_of_instances():
    with (
        pytest.raises(KafkaConfigurationError, match=r"as instances, not as classes: \[CooperativeSticky\(\)\]"),
        OfflineAio(aiokafka.CooperativeSticky) as consumer,
    ):
        consumer.subscription()
    with pytest.raises(TypeError, match="as instances"):
        aiokafka.options(aiokafka.Range, client_rack="a")
    with pytest.raises(ValueError, match="no assignor given"):
        aiokafka.options(client_rack="a")
    with pytest.raises(ValueError, match="2 assignors of one consumer are called 'range'"):
        aiokafka.options(aiokafka.Range(), aiokafka.Range(), client_rack="a")


def test_an_assignor_of_the_other_client_is_rejected():
    with (
        pytest.raises(TypeError, match=r"adapters\.aiokafka was given to another .*adapters\.kafka_python"),
        OfflineKafkaPython(aiokafka.Range()),
    ):
        pass
    with (
        pytest.raises(TypeError, match=r"adapters\.kafka_python was given to another .*adapters\.aiokafka"),
        OfflineAio(kafka_python.Range()) as consumer,
    ):
        consumer.lead("range", {"m": consumer.subscription()})


def test_an_assignor_without_a_list_is_rejected_with_the_remedy(client):
    with pytest.raises(TypeError, match=r"assignor range was given without a list: .*_strategy=\[\.\.\.\]"):
        list(client.Range())
    with pytest.raises(TypeError, match=r"Range was given without a list: .*_strategy=\[Range\(\)\]"):
        list(client.Range)
    for given in (kafka_python.Range, kafka_python.Range()):
        with pytest.raises(TypeError, match="ange was given without a list"):
            KafkaConsumer(
                bootstrap_servers="127.0.0.1:1", api_version=(3, 0), group_id="g", partition_assignment_strategy=given
            )


def test_a_coordinator_that_does_not_call_supported_protocols_is_rejected(monkeypatch):
    monkeypatch.setattr(ConsumerCoordinator, "_validate_rebalance_protocol", lambda self: None)
    with (
        pytest.raises(UnsupportedClientError, match="it did not call supported_protocols"),
        OfflineKafkaPython(kafka_python.Range()) as consumer,
    ):
        consumer.subscription()


def test_aiokafka_joins_once_with_all_assignors():
    # aiokafka alone sends a JoinGroup for each, the first with one assignor, the second with two.
    # Each is a rebalance.
    with OfflineAio(aiokafka.CooperativeSticky(), aiokafka.Range(), aiokafka.Sticky()) as consumer:
        consumer.subscription("range")
        assert [[name for name, _ in one] for one in consumer.joined] == [["cooperative-sticky", "range", "sticky"]]


def test_a_java_assignor_cannot_be_made_cooperative(client):
    with pytest.raises(ValueError, match="range is eager in every client"):
        client.Adapter(RangeAssignor(), cooperative=True)
    with pytest.raises(TypeError, match="is not an assignor"):
        client.Adapter(RangeAssignor)
    with pytest.raises(TypeError, match="client_rack is 5; use a string"):
        client.Range(client_rack=5)
    with pytest.raises(TypeError, match="ServerRangeAssignor is for brokers"):
        client.Adapter(server_assignor("range"))
