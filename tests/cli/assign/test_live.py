"""`quorate assign -b`: groups of both protocols on a real broker, and unreachable brokers."""

import json
import time
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer

from quorate.cluster import EmbeddedCluster
from tests.broker.broker import free_ports
from tests.cli.conftest import RACK
from tests.integration.test_watch import assigned
from tests.pipeline.helpers.in_threads import in_threads

PATIENCE_S = 300


@contextmanager
def classic_member(broker, group):
    """A kafka-python consumer with assigned partitions.

    It has committed an offset in partition 0, which is returned: all records before the last 6.
    """
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

    at = TopicPartition("orders", 0)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        for _ in range(10):
            producer.send(at.topic, b"x", partition=at.partition)
        producer.flush()
    consumer = KafkaConsumer(
        "orders", "stock", bootstrap_servers=broker.bootstrap_servers, group_id=group, enable_auto_commit=False
    )
    with closing(consumer):
        until = time.monotonic() + PATIENCE_S
        # A kafka-python leader without metadata of the topics assigns nothing, and does not retry.
        for topic in ("orders", "stock"):
            while not consumer.partitions_for_topic(topic):
                assert time.monotonic() < until, f"the broker returns no metadata of {topic}"
        while len(consumer.assignment()) < 6:
            assert time.monotonic() < until, "the consumer got no partitions"
            consumer.poll(timeout_ms=200)
        committed = consumer.end_offsets([at])[at] - 6
        consumer.commit({at: OffsetAndMetadata(committed, "", -1)})
        yield committed


def consumer_members(broker, group, count):
    """Run members of a KIP-848 group in threads: of librdkafka, as kafka-python lacks them."""

    def member(done):
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "group.protocol": "consumer",
                "client.rack": RACK,
            }
        )
        consumer.subscribe(["orders"])
        while not done.is_set():
            consumer.poll(0.2)
        consumer.close()

    return in_threads(*[member] * count)


@pytest.mark.oracle
def test_a_classic_group_with_its_lag_and_the_racks_of_replicas(quorate, racked):
    with classic_member(racked, "web"):
        ended = quorate("assign", "-b", racked.bootstrap_servers, "--group", "web", "--rack", "kafka*=rack-a", "--json")
        shown = quorate("assign", "-b", racked.bootstrap_servers, "--group", "web")
    assert (ended.status, ended.err) == (0, "")
    result = json.loads(ended.out)
    assert (result["input"]["protocol"], result["input"]["assignor"]) == ("classic", "range")
    assert result["input"]["topics"]["orders"]["racks"] == [[RACK]] * 4
    assert len(result["input"]["topics"]["orders"]["id"]) == 22
    now, *others = result["outcomes"]
    assert (now["partitions"], now["lag"], now["lag_unknown"]) == (6, 6, 5)
    assert [one["name"] for one in others] == ["range", "cooperative-sticky", "lag-aware"]
    assert all((one["moved"], one["local_share"]) == (0, 1.0) for one in others)
    # kafka-python's own subscription contains no rack, even with client_rack.
    assert any(line.startswith("no member has a rack") for line in shown.lines)


@pytest.mark.oracle
def test_saved_json_can_be_used_without_the_cluster(quorate, racked, tmp_path):
    with classic_member(racked, "saved"):
        result = json.loads(quorate("assign", "-b", racked.bootstrap_servers, "--group", "saved", "--json").out)
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(result["input"]))
    ended = quorate("assign", path, "--add", "spare", "--json")
    outcomes = json.loads(ended.out)["outcomes"]
    assert outcomes[0]["members"] == result["outcomes"][0]["members"]
    assert outcomes[1]["members"]["spare"]["partitions"] == 3


@pytest.mark.oracle
def test_a_consumer_group_is_read_from_its_records(quorate, racked):
    with consumer_members(racked, "reports", 2):
        until = time.monotonic() + PATIENCE_S
        while True:
            options = ("--assignor", "range", "--side", "client", "--json")
            ended = quorate("assign", "-b", racked.bootstrap_servers, "--group", "reports", *options)
            result = json.loads(ended.out) if ended.status == 0 else None
            if result and len(result["input"]["members"]) == 2 and result["outcomes"][0]["balance"]["min"] == 2:
                break
            assert time.monotonic() < until, ended
            time.sleep(0.5)
    assert (result["input"]["protocol"], result["input"]["assignor"]) == ("consumer", "uniform")
    now = result["outcomes"][0]
    assert (now["partitions"], now["local"], now["unassigned"]) == (4, 4, 0)
    assert {member["rack"] for member in now["members"].values()} == {RACK}
    assert list(result["input"]["topics"]) == ["orders"]


@pytest.mark.oracle
def test_missing_and_empty_groups_are_errors(quorate, racked):
    with classic_member(racked, "left"):
        pass
    for group, complaint in (("lefd", "did you mean left?"), ("left", "left has no members (Empty)")):
        ended = quorate("assign", "-b", racked.bootstrap_servers, "--group", group)
        assert (ended.status, ended.out) == (1, "")
        assert complaint in ended.err
        assert sum(line.startswith("error: ") for line in ended.err.splitlines()) == 1


def test_topics_that_are_not_visible_are_named(quorate):
    from kafka import KafkaConsumer

    with EmbeddedCluster(seed=1, properties={"auto.create.topics.enable": "false"}) as cluster:
        cluster.create_topic("orders", partitions=2)
        with KafkaConsumer(
            "missing", "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="partly"
        ) as consumer:
            assigned(consumer, "orders")
            ended = quorate("assign", "-b", cluster.bootstrap_servers, "--group", "partly")
            unknown = quorate("groups", "list", "-b", cluster.bootstrap_servers, "--group", "other")
    assert ended.status == 0, ended.err
    assert ended.err == (
        "note: topics left out, as they do not exist, or this client is not allowed to describe them: missing\n"
    )
    assert unknown.err == "error: no group matches other\n       existing groups: partly\n"


def test_an_unreachable_broker_is_an_error_of_one_line(quorate):
    server = f"127.0.0.1:{free_ports(1)[0]}"
    ended = quorate("assign", "-b", server, "--group", "g", "--connect-timeout-ms", 1000)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {server}")
    assert "within 1,000 ms" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-b", "nowhere"), "has no port"),
        (("-b", "x:1", "--ssl-cafile", "ca.pem"), "--ssl-cafile has no effect with --security-protocol PLAINTEXT"),
        (
            ("-b", "x:1", "--security-protocol", "SSL", "--ssl-ciphers", "ALL"),
            "--ssl-ciphers: kafka-python's admin client",
        ),
    ],
)
def test_connection_options_are_checked_before_connecting(quorate, options, complaint):
    ended = quorate("assign", "--group", "g", *options)
    assert (ended.status, ended.out) == (1, "")
    assert complaint in ended.err
