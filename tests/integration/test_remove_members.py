"""`quorate groups remove-member` (KIP-345, KIP-800) on Kafka brokers, for both protocols."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from quorate.cli.main import main
from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from tests.integration.clients import CLIENTS, Crowd
from tests.integration.groups import all_of
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

pytestmark = pytest.mark.scenario("KIP-345 static members")

SESSION_MS = 45_000


def groups(cluster: Cluster, command: str, group: str, *arguments: str) -> Result:
    call = ["groups", command, "-b", cluster.bootstrap_servers, "--group", group, "--json", *arguments]
    for name in ("security_protocol", "ssl_cafile", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"):
        if cluster.client_config.get(name) is not None:
            call += [f"--{name.replace('_', '-')}", str(cluster.client_config[name])]
    return CliRunner(catch_exceptions=False).invoke(main, call)


def members(cluster: Cluster, group: str, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(groups(cluster, "members", group, *arguments).stdout)
    return rows


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_of_a_removed_static_member_move_before_its_session_ends(
    kafka_cluster: Cluster, topic: str, group_id: str, client: str
) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=SESSION_MS) as crowd:
        for name in ("i0", "i1"):
            crowd.start(name, instance=name)
        crowd.settle(all_of(topic, 6))
        crowd.stop("i1")
        assert sorted(row["group_instance_id"] for row in members(kafka_cluster, group_id, "--static")) == ["i0", "i1"]
        shown = groups(kafka_cluster, "remove-member", group_id, "--instance-id", "i1", "--dry-run")
        assert [(row["group_instance_id"], row["partitions"], row["result"]) for row in json.loads(shown.stdout)] == [
            ("i1", 3, "would be removed")
        ]
        assert len(members(kafka_cluster, group_id)) == 2
        removed = groups(kafka_cluster, "remove-member", group_id, "--instance-id", "i1", "--reason", "host is gone")
        assert removed.exit_code == 0, removed.output
        assert [(row["group_instance_id"], row["result"]) for row in json.loads(removed.stdout)] == [("i1", "removed")]
        crowd.settle(all_of(topic, 6), timeout_ms=SESSION_MS // 2)
        assert [row["group_instance_id"] for row in members(kafka_cluster, group_id)] == ["i0"]


@pytest.mark.parametrize("client", CLIENTS)
def test_each_member_has_its_own_error(kafka_cluster: Cluster, topic: str, group_id: str, client: str) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=SESSION_MS) as crowd:
        crowd.start("static", instance="i0")
        crowd.settle(all_of(topic, 6))
        crowd.start("dynamic")
        crowd.settle(all_of(topic, 6))
        (dynamic,) = (row["consumer_id"] for row in members(kafka_cluster, group_id) if not row["group_instance_id"])
        generation = history(kafka_cluster, group_id).generation
        named = ("--instance-id", "i0=another", "--instance-id", "i9", "--member-id", dynamic)
        shown = groups(kafka_cluster, "remove-member", group_id, *named, "--dry-run")
        removed = groups(kafka_cluster, "remove-member", group_id, *named)
        for ended, success in ((shown, "would be removed"), (removed, "removed")):
            assert ended.exit_code == 1
            assert [row["result"] for row in json.loads(ended.stdout)] == [
                "FENCED_INSTANCE_ID",
                "UNKNOWN_MEMBER_ID",
                success,
            ]
            assert f"group {group_id} has another member with instance id i0 than another" in ended.stderr
            assert f"group {group_id} has no member with instance id i9" in ended.stderr
        # The consumer still runs, and rejoins. Only librdkafka's KIP-848 consumer keeps its id.
        keeps_its_id = client == "confluent-kafka"

        def rejoined() -> bool:
            found = [row for row in members(kafka_cluster, group_id) if not row["group_instance_id"]]
            epochs = history(kafka_cluster, group_id).generation - generation
            return [row["consumer_id"] == dynamic for row in found] == [keeps_its_id] and epochs > keeps_its_id

        wait_for("the consumer is a member again", rejoined, LIMIT_MS, every_ms=300)
        crowd.settle(all_of(topic, 6))


@pytest.mark.parametrize("client", CLIENTS)
def test_all_members_are_removed(kafka_cluster: Cluster, topic: str, group_id: str, client: str) -> None:
    with Crowd(client, kafka_cluster, group_id, [topic], session_timeout_ms=SESSION_MS) as crowd:
        for name in ("i0", "i1", "i2"):
            crowd.start(name, instance=name)
        crowd.settle(all_of(topic, 6))
        for name in ("i0", "i1", "i2"):
            crowd.stop(name)
        refused = groups(kafka_cluster, "remove-member", group_id, "--all")
        assert (refused.exit_code, f"--all would remove 3 members of group {group_id}" in refused.stderr) == (1, True)
        assert len(members(kafka_cluster, group_id)) == 3
        removed = groups(kafka_cluster, "remove-member", group_id, "--all", "--yes")
        assert removed.exit_code == 0, removed.output
        assert {row["group_instance_id"]: row["result"] for row in json.loads(removed.stdout)} == dict.fromkeys(
            ("i0", "i1", "i2"), "removed"
        )
        wait_for("no members", lambda: not members(kafka_cluster, group_id), LIMIT_MS)
        again = groups(kafka_cluster, "remove-member", group_id, "--all", "--yes")
        assert (again.exit_code, json.loads(again.stdout)) == (0, [])


def test_a_group_that_does_not_exist_is_named(kafka_cluster: Cluster, group_id: str) -> None:
    for arguments in (["--instance-id", "i0"], ["--all", "--yes"], ["--instance-id", "i0", "--dry-run"]):
        ended = groups(kafka_cluster, "remove-member", group_id, *arguments)
        assert (ended.exit_code, f"group {group_id} does not exist" in ended.stderr) == (1, True), ended.output
