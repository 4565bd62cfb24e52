"""KafkaCluster does to real brokers what the Cluster interface says."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from quorate.cluster.admin import metadata_from
from quorate.cluster.waiting import wait_for
from quorate.codecs import read_log
from quorate.integration import Cluster, ClusterError, KafkaCluster
from quorate.integration.containers.engine import LABEL, engine
from quorate.integration.containers.plan import DATA
from tests.integration.groups import registered_racks
from tests.integration.limits import LIMIT_MS

META = f"{DATA}/meta.properties"


def send(cluster: Cluster, topic: str, count: int) -> None:
    producer = KafkaProducer(**cluster.client_config, acks="all")
    for number in range(count):
        producer.send(topic, str(number).encode())
    producer.close()


def test_brokers_are_in_the_requested_racks(kafka_cluster: Cluster) -> None:
    assert registered_racks(kafka_cluster) == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize("kafka_runtime", ["docker"], indirect=True)
def test_log_directories_are_formatted_with_the_clusters_id_and_their_own(kafka_cluster: KafkaCluster) -> None:
    found = [
        dict(line.split("=") for line in kafka_cluster.run(broker, "cat", META).splitlines() if line[0] != "#")
        for broker in (1, 2, 3)
    ]
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert {one["cluster.id"] for one in found} == {kafka_cluster.plan.cluster_id}
    assert len({one["directory.id"] for one in found}) == 3


def test_topology_has_the_racks_of_replicas_leader_first(kafka_cluster: Cluster, group_id: str) -> None:
    kafka_cluster.create_topic(group_id, assignment=[[2, 1], [3, 2], [1, 3]])
    (topic,) = kafka_cluster.topology(group_id).topics
    assert topic.racks == (("b", "a"), ("c", "b"), ("a", "c"))
    kafka_cluster.delete_topic(group_id)


# On real brokers: a killed one comes back in its rack (test_faults.py), one in another rack
# (test_metadata_hash.py), and a restarted one with its data (test_lab.py).
@pytest.mark.long_on_brokers
@pytest.mark.kafka_topic(assignment=[[2]])
def test_a_killed_broker_comes_back_in_its_rack_with_its_data(kafka_cluster: Cluster, topic: str) -> None:
    send(kafka_cluster, topic, 100)
    kafka_cluster.kill_broker(2)
    assert kafka_cluster.brokers[1].state == "stopped"
    kafka_cluster.start_broker(2)
    assert registered_racks(kafka_cluster) == {1: "a", 2: "b", 3: "c"}
    consumer = KafkaConsumer(
        topic, **kafka_cluster.client_config, auto_offset_reset="earliest", consumer_timeout_ms=300_000
    )
    assert sum(1 for _, _ in zip(range(100), consumer, strict=False)) == 100
    consumer.close()
    assert re.search(r"broker-2|id=2|rack b", kafka_cluster.logs(2))


def test_partitions_are_added_and_replicas_moved(kafka_cluster: Cluster, topic: str) -> None:
    kafka_cluster.add_partitions(topic, 8)
    assert kafka_cluster.topology(topic).topics[0].partitions == 8
    kafka_cluster.reassign(topic, {0: [3, 1], 7: [2]})
    (found,) = kafka_cluster.topology(topic).topics
    assert found.racks[0] == ("c", "a")
    assert found.racks[7] == ("b",)


def test_a_groups_coordinator_moves(kafka_cluster: Cluster, group_id: str) -> None:
    kafka_cluster.create_topic(group_id)
    for broker in (1, 2, 3):
        kafka_cluster.move_coordinator(group_id, broker)
        # Only the coordinator takes a commit, and clients ask brokers who that is.
        kafka_cluster.admin.alter_group_offsets(
            group_id, {TopicPartition(group_id, 0): OffsetAndMetadata(broker, "", -1)}
        )
        assert kafka_cluster.coordinator_of(group_id) == broker
    kafka_cluster.delete_topic(group_id)


def test_a_paused_broker_does_not_respond_until_resumed(kafka_cluster: Cluster, topic: str) -> None:
    kafka_cluster.reassign(topic, {0: [3]})
    with kafka_cluster.paused(3):
        assert kafka_cluster.brokers[2].state == "paused"
        other = kafka_cluster.brokers[0].address
        consumer = KafkaConsumer(**{**kafka_cluster.client_config, "bootstrap_servers": other}, request_timeout_ms=2000)
        with pytest.raises(KafkaError):
            consumer.end_offsets([TopicPartition(topic, 0)], timeout_ms=2000)
        consumer.close()
    kafka_cluster.wait_ready()
    consumer = KafkaConsumer(**kafka_cluster.client_config)
    assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
    consumer.close()


def test_a_broker_that_is_cut_off_from_the_others_is_fenced_until_healed(
    kafka_cluster: Cluster, kafka_runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Metadata of broker 1: a client might choose the broker that is cut off, which does not learn
    # that it is fenced.
    def known_to_1() -> set[int]:
        return {broker["node_id"] for broker in metadata_from(kafka_cluster.admin, 1)["brokers"]}

    with kafka_cluster.network_cut(3, 1, 2):
        wait_for("broker 3 is fenced", lambda: known_to_1() == {1, 2}, LIMIT_MS, also=(KafkaError,))
        why = r"it contains \{1: 'a', 2: 'b'\}" if kafka_runtime == "docker" else r"fenced: \[3\]"
        with monkeypatch.context() as patched:
            patched.setattr(kafka_cluster, "timeout_ms", 0)
            with pytest.raises(ClusterError, match=why):
                kafka_cluster.wait_ready()
    kafka_cluster.wait_ready()
    assert registered_racks(kafka_cluster).keys() == {1, 2, 3}


def test_clients_do_not_reach_a_broker_that_is_cut_off_from_them(kafka_cluster: Cluster, topic: str) -> None:
    kafka_cluster.reassign(topic, {0: [2]})
    other = kafka_cluster.brokers[0].address
    before = kafka_cluster.admin
    with kafka_cluster.network_cut(2):
        consumer = KafkaConsumer(**{**kafka_cluster.client_config, "bootstrap_servers": other}, request_timeout_ms=2000)
        with pytest.raises(KafkaError):
            consumer.end_offsets([TopicPartition(topic, 0)], timeout_ms=2000)
        consumer.close()
        # The other brokers still do. (Metadata of one of them: a client might choose the broker
        # that does not respond.)
        known = metadata_from(kafka_cluster.admin, 1)["brokers"]
        assert {broker["node_id"] for broker in known} == {1, 2, 3}
    # Over connections from before, a request would wait until TCP tries again, about as long as the
    # cut was.
    assert kafka_cluster.admin is not before


def test_segments_are_copied_and_read(kafka_cluster: Cluster, group_id: str, topic: str, tmp_path: Path) -> None:
    send(kafka_cluster, topic, 1)
    kafka_cluster.admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    live = [
        entry.record
        for entry in kafka_cluster.read_offsets_topic()
        if getattr(entry.record.key, "group", "") == group_id
    ]
    kafka_cluster.copy_segments(tmp_path)
    copied = [entry.record for entry in read_log(tmp_path) if getattr(getattr(entry, "record", None), "key", None)]
    assert live
    assert [record for record in copied if getattr(record.key, "group", "") == group_id] == live


def test_configurations_are_set_and_taken_back(kafka_cluster: Cluster, topic: str) -> None:
    def retention() -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, None)
        return str(kafka_cluster.admin.describe_configs([resource]))

    kafka_cluster.set_config(f"topic:{topic}", {"retention.ms": "12345"})
    assert "12345" in retention()
    kafka_cluster.set_config(f"topic:{topic}", {"retention.ms": None})
    assert "12345" not in retention()


def test_configs_of_one_broker_and_of_all_brokers_are_separate(kafka_cluster: Cluster) -> None:
    def retention(broker: int) -> str | None:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), None)
        found = kafka_cluster.admin.describe_configs([resource], config_filter="all")["broker"][str(broker)]
        value: str | None = found["log.retention.ms"]["value"]
        return value

    kafka_cluster.set_config("broker:", {"log.retention.ms": "7200000"})
    kafka_cluster.set_config("broker:2", {"log.retention.ms": "3600000"})
    assert [retention(broker) for broker in (1, 2, 3)] == ["7200000", "3600000", "7200000"]
    kafka_cluster.set_config("broker:2", {"log.retention.ms": None})
    assert retention(2) == "7200000"
    kafka_cluster.set_config("broker:", {"log.retention.ms": None})
    assert retention(2) is None


@pytest.mark.parametrize("config", [{"retention.ms": "soon"}, {"retention.years": "1"}])
def test_a_configuration_that_the_cluster_refuses_is_an_error(
    kafka_cluster: Cluster, topic: str, config: dict[str, str]
) -> None:
    refused = f"the configuration of topic:{topic} was not changed: InvalidConfigurationError: .*{next(iter(config))}"
    with pytest.raises(ClusterError, match=refused):
        kafka_cluster.set_config(f"topic:{topic}", config)


def test_an_unknown_broker_is_named_in_the_error(kafka_cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="broker 9 does not exist; brokers: 1, 2, 3"):
        kafka_cluster.stop_broker(9)


# test_lab.py: a lab that does not come up
@pytest.mark.long
def test_a_broker_that_cannot_start_is_shown_with_what_it_logged() -> None:
    with pytest.raises(ClusterError, match=r"(?s)broker-1 exited with status.*ConfigException"):
        KafkaCluster(racks=["a"], properties={"log.retention.hours": "soon"}, timeout_ms=30_000)


def test_a_missing_image_is_named_with_the_remedy() -> None:
    with pytest.raises(ClusterError, match=r"apache/kafka:0\.0\.1 cannot be pulled.*docker/image"):
        KafkaCluster(racks=["a"], version="0.0.1")


def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text(
        "import os, signal\n"
        "from quorate.integration import KafkaCluster\n"
        "cluster = KafkaCluster(racks=['a'])\n"
        "print(cluster._session.name, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", str(script)], stdout=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert done.returncode == -9
    chosen = {"label": f"{LABEL}={done.stdout.strip()}"}

    def gone() -> bool:
        client = engine()
        return not (
            client.containers.list(all=True, filters=chosen, ignore_removed=True)
            or client.networks.list(filters=chosen)
            or client.volumes.list(filters=chosen)
        )

    wait_for("the watcher has removed all of it", gone, LIMIT_MS)


def test_a_secure_listener_wants_tls_and_the_password(secure_cluster: Cluster, group_id: str) -> None:
    secure_cluster.create_topic(group_id, replicas=3)
    config = secure_cluster.client_config
    assert config["security_protocol"] == "SASL_SSL"
    with closing(KafkaConsumer(**config)) as consumer:
        assert group_id in consumer.topics()
    with pytest.raises(KafkaError):
        KafkaConsumer(**{**config, "sasl_plain_password": "wrong", "bootstrap_timeout_ms": 3000}).topics()
    secure_cluster.delete_topic(group_id)


# So has the secure cluster of other tests.
@pytest.mark.long
def test_controllers_may_be_nodes_of_their_own() -> None:
    with KafkaCluster(racks=["a", None], controllers=1) as cluster:
        assert registered_racks(cluster) == {1: "a", 2: None}
        assert {voter["replica_id"] for voter in _voters(cluster)} == {101}


def _voters(cluster: Cluster) -> list[dict[str, int]]:
    quorum = cluster.admin.describe_metadata_quorum()
    found: list[dict[str, int]] = quorum["topics"][0]["partitions"][0]["current_voters"]
    return found
