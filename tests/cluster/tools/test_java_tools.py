"""Kafka's administration tools on an embedded cluster, one after another in one JVM.

Their output was compared with that on a real broker by hand; differences are listed in
docs/how-to/embedded-cluster.md.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.authorizer import CLASS_NAME
from quorate.codecs.api import ShareGroupHeartbeatRequest
from quorate.codecs.api.broker import FindCoordinatorRequest
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.java_tools import CONFIG, Run
from tests.cluster.helpers.wire import Wire


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    data = tmp_path_factory.mktemp("data")
    with EmbeddedCluster(brokers=2, racks=["a", "b"], properties=QUICK, seed=1, data=data) as made:
        made.call(lambda: made.core.create_topic("t", partitions=2, replicas=1, assignment=[[1], [2]]))
        yield made


def test_credentials_quotas_and_configs_are_altered_and_described(ok: Run) -> None:
    bob = ("--entity-type", "users", "--entity-name", "bob")
    ok(CONFIG, "--alter", *bob, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    ok(CONFIG, "--alter", *bob, "--add-config", "producer_byte_rate=1000000")
    reported = ok(CONFIG, "--describe", "--entity-type", "users")
    assert "Quota configs for user-principal 'bob' are producer_byte_rate=1000000.0" in reported
    assert "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=8192" in reported
    ok(CONFIG, "--alter", *bob, "--delete-config", "SCRAM-SHA-256")
    ok(CONFIG, "--alter", *bob, "--delete-config", "producer_byte_rate")
    assert ok(CONFIG, "--describe", *bob).strip() == ""
    ok(
        CONFIG,
        "--alter",
        "--entity-type",
        "groups",
        "--entity-name",
        "g",
        "--add-config",
        "share.session.timeout.ms=50000",
    )
    assert "share.session.timeout.ms=50000" in ok(CONFIG, "--describe", "--entity-type", "groups")
    assert "min.insync.replicas=1 sensitive=false" in ok(CONFIG, "--describe", "--entity-type", "brokers")


def test_client_metrics_are_altered_described_listed_and_removed(ok: Run) -> None:
    assert ok("ClientMetricsCommand", "--list").strip() == ""
    push = ("--name", "push", "--metrics", "org.apache.a,b", "--interval", "1000", "--match", "client_id=app.*")
    ok("ClientMetricsCommand", "--alter", *push)
    assert ok("ClientMetricsCommand", "--list").strip() == "push"
    reported = ok("ClientMetricsCommand", "--describe", "--name", "push")
    assert "Client metrics configs for push are:" in reported
    assert [line.strip() for line in reported.splitlines()[1:]] == [
        "interval.ms=1000",
        "match=client_id=app.*",
        "metrics=org.apache.a,b",
    ]
    ok("ClientMetricsCommand", "--delete", "--name", "push")
    assert ok("ClientMetricsCommand", "--list").strip() == ""


def test_replicas_are_reassigned_with_a_throttle_that_is_removed(
    ok: Run, tmp_path: Path, running: EmbeddedCluster
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 1]}]}')
    move = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan)
    assert "Successfully started partition reassignment for t-0" in ok(*move, "--execute", "--throttle", "1000000")
    assert running.core.broker_configs.changed[1]["leader.replication.throttled.rate"] == "1000000"
    brokers = ok(CONFIG, "--describe", "--entity-type", "brokers")
    assert brokers.count("leader.replication.throttled.rate=1000000 sensitive=false") == 2
    verified = ok(*move, "--verify")
    assert "Reassignment of partition t-0 is completed." in verified
    assert "Clearing topic-level throttles on topic t" in verified
    assert not running.core.broker_configs.changed
    assert "Replicas: 2,1" in ok("TopicCommand", "--describe", "--topic", "t")
    assert "No partition reassignments found." in ok("reassign.ReassignPartitionsCommand", "--list")
    ok("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert "Leader: 2\tReplicas: 2,1" in ok("TopicCommand", "--describe", "--topic", "t")


def test_share_groups_are_listed_and_described(tools: Callable[..., dict[str, Any]], running: EmbeddedCluster) -> None:
    """As in the table of docs/how-to/embedded-cluster.md.

    Kafka's tool for share groups prints errors, and exits with 0.
    """

    def reported(tool: str, *arguments: object) -> str:
        out: str = tools(tool, "--bootstrap-server", running.bootstrap_servers, *arguments)["out"]
        return out

    share, streams = "consumer.group.ShareGroupCommand", "streams.StreamsGroupCommand"
    assert reported(share, "--list") == reported(streams, "--list") == ""
    with Wire(running.core.brokers[1].port) as wire:
        wire.request(FindCoordinatorRequest(coordinator_keys=("shares",)), 4)
    coordinator = running.call(lambda: running.core.groups.partition_for("shares").leader)
    with Wire(running.core.brokers[coordinator].port) as wire:
        joins = ShareGroupHeartbeatRequest(group_id="shares", member_id="m", subscribed_topic_names=("t",))
        assert wire.request(joins, 1).error_code == 0
    assert reported(share, "--list") == "shares\n"
    assert re.search("\nshares +m +/127.0.0.1 ", reported(share, "--describe", "--group", "shares", "--members"))
    assert re.search("\nshares +", reported(share, "--describe", "--group", "shares", "--state"))


def test_tools_describe_the_cluster(ok: Run, tools: Callable[..., dict[str, Any]], running: EmbeddedCluster) -> None:
    assert re.search(r"LeaderId: +1\n", ok("MetadataQuorumCommand", "describe", "--status"))
    assert ok("MetadataQuorumCommand", "describe", "--replication").count("\n") == 3
    assert "Feature: group.version" in ok("FeatureCommand", "describe")
    rules = tools("AclCommand", "--bootstrap-server", running.bootstrap_servers, "--list")
    assert "No Authorizer is configured on the broker" in rules["out"]
    assert ok("TransactionsCommand", "list").split()[0] == "TransactionalId"
    ok("TransactionsCommand", "find-hanging", "--broker-id", "1")
    assert ok("GetOffsetShell", "--topic", "t") == "t:0:0\nt:1:0\n"
    assert '"partition":"t-1"' in ok("LogDirsCommand", "--describe", "--topic-list", "t")
    cluster_id = tools("ClusterTool", "cluster-id", "--bootstrap-server", running.bootstrap_servers)
    assert cluster_id["out"] == f"Cluster ID: {running.core.cluster_id}\n"
    reported = tools("BrokerApiVersionsCommand", "--bootstrap-server", running.bootstrap_servers)
    assert "AlterUserScramCredentials(51): 0 [usable: 0]" in reported["out"]


def test_a_broker_is_unregistered(tools: Callable[..., dict[str, Any]]) -> None:
    with EmbeddedCluster(brokers=2, properties=QUICK, seed=1) as made:
        unregister = ("ClusterTool", "unregister", "--bootstrap-server", made.bootstrap_servers, "--id")
        assert tools(*unregister, 2)["out"] == "Broker 2 is no longer registered.\n"
        assert made.call(lambda: sorted(made.core.alive)) == [1]
        assert tools(*unregister, 3)["status"] == 1


def test_offsets_of_groups_are_reset_and_deleted(ok: Run) -> None:
    groups = "consumer.group.ConsumerGroupCommand"
    reset = (groups, "--reset-offsets", "--group", "g", "--topic", "t:0", "--to-offset", "0", "--execute")
    assert ok(*reset).split()[-4:] == ["g", "t", "0", "0"]
    assert ok(groups, "--list") == "g\n"
    assert "Empty" in ok(groups, "--describe", "--group", "g", "--state")
    assert "Request succeeded" in ok(groups, "--delete-offsets", "--group", "g", "--topic", "t:0")
    assert "was successful" in ok(groups, "--delete", "--group", "g")
    assert ok(groups, "--list").strip() == ""


def test_kafkas_tool_reads_the_metadata_log(
    tools: Callable[..., dict[str, Any]], running: EmbeddedCluster, ok: Run
) -> None:
    carol = ("--entity-type", "users", "--entity-name", "carol")
    ok(CONFIG, "--alter", *carol, "--add-config", "SCRAM-SHA-512=[password=secret]")
    ok(CONFIG, "--alter", *carol, "--add-config", "request_percentage=12.5")
    assert running.core.data is not None
    (segment,) = (running.core.data.path / "controller" / "__cluster_metadata-0").glob("*.log")
    dumped = tools("DumpLogSegments", "--cluster-metadata-decoder", "--files", segment)
    assert dumped["status"] == 0, dumped
    read = [json.loads(payload) for payload in re.findall(r"payload: (\{.*\})$", dumped["out"], re.MULTILINE)]
    by_type = {one["type"]: one["data"] for one in read}
    credential = by_type["USER_SCRAM_CREDENTIAL_RECORD"]
    assert (credential["name"], credential["mechanism"], credential["iterations"]) == ("carol", 2, 4096)
    quota = by_type["CLIENT_QUOTA_RECORD"]
    assert (quota["entity"], quota["key"], quota["value"]) == (
        [{"entityType": "user", "entityName": "carol"}],
        "request_percentage",
        12.5,
    )
    assert by_type.keys() >= {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "FEATURE_LEVEL_RECORD"}


def test_acls_are_added_listed_and_removed(tools: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    configs = {**QUICK, "authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS"}
    with EmbeddedCluster(properties=configs) as cluster:

        def acls(*arguments: str) -> str:
            response = tools("AclCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
            assert response["status"] == 0, response
            out: str = response["out"]
            return out

        orders = ("--topic", "orders", "--resource-pattern-type", "prefixed")
        acls("--add", "--allow-principal", "User:alice", "--operation", "Read", *orders)
        acls("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "All", "--cluster")
        listed = acls("--list")
        assert "resourceType=TOPIC, name=orders, patternType=PREFIXED" in listed
        assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
        assert "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
        acls("--remove", "--force", *orders)
        assert "alice" not in acls("--list")
        assert cluster.core.failures == []
