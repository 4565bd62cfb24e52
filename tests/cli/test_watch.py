"""`quorate watch`: its output, its errors and its exit status."""

import json
import os
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from quorate.cluster import EmbeddedCluster, Security
from quorate.watch.store import WatchStore

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
LOGS = CAPTURES / "upgrade-4.0-to-4.3-and-back"


def test_events_of_files_are_lines(quorate: Callable) -> None:
    done = quorate("watch", LOGS)
    assert done.status == 0, done.err
    wanted = "2026-11-21 08:00:09.343  rebalance-began bill-orders: rebalance to epoch 4 began: "
    assert wanted + "the number of partitions of orders changed\n" in done.out
    assert "all files are read" in done.err


def test_events_of_files_as_json_are_kept_and_not_repeated(quorate: Callable, tmp_path: Path) -> None:
    first = quorate("watch", LOGS, "--json", "--state", tmp_path)
    rows = [json.loads(line) for line in first.out.splitlines()]
    assert [row["id"] for row in rows] == list(range(1, len(rows) + 1))
    (moved,) = [
        row for row in rows if (row["group_id"], row["epoch"], row["kind"]) == ("bill-orders", 4, "rebalance-ended")
    ]
    assert moved["cause"]["name"] == "partitions-changed"
    assert moved["cause"]["topics"] == ["orders"]
    assert len(moved["moved"]) == 5
    second = quorate("watch", LOGS, "--json", "--state", tmp_path)
    assert (second.status, second.out) == (0, "")


def test_each_damage_of_a_log_is_reported_once_and_the_rest_is_read(start: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (source,) = sorted((LOGS / "__consumer_offsets-1").glob("*.log"))[-1:]
    data = bytearray(source.read_bytes())
    for place in (len(data) // 4, len(data) // 2):
        data[place] ^= 0xFF
    (folder / source.name).write_bytes(data)
    watch = start("watch", tmp_path)  # a process: without pytest, Python prints warnings that no handler takes
    out, err = watch.communicate(timeout=120)
    assert watch.returncode == 1
    skipped = [line for line in err.decode().splitlines() if line.startswith("skipped: ")]
    assert len({*skipped}) == len(skipped) == 2
    assert len(err.splitlines()) == 3
    assert b"bill-orders" in out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_ends_with_status_0_if_the_reader_of_its_events_closes_the_pipe(
    start: Callable, options: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with start("watch", LOGS, *options, stdout=writer) as watch:
        os.close(writer)
        _, err = watch.communicate(timeout=60)
    assert (watch.returncode, err) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_full_disk_ends_it_with_an_error(start: Callable) -> None:
    with Path("/dev/full").open("wb") as full, start("watch", LOGS, stdout=full) as watch:
        _, err = watch.communicate(timeout=60)
    assert (watch.returncode, err) == (1, b"error: standard output: No space left on device\n")


def test_history_that_cannot_be_written_is_an_error(quorate: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def put_event(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(WatchStore, "put_event", put_event)
    done = quorate("watch", LOGS)
    assert (done.status, done.out) == (1, "")
    ended, read = done.err.splitlines()
    assert ended == "reading ended: database or disk is full"
    assert read.endswith("records read; not all could be read")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to read"),
        (("-b", "h:1", LOGS), "not both"),
        ((LOGS, "--keep", "soon"), "is not a duration"),
        ((LOGS, "--keep", "999999999999999999d"), "'999999999999999999d' is too large"),
        ((LOGS, "--keep-size", "99999999999G"), "'99999999999G' is too large"),
        ((LOGS, "--keep-size", "big"), "is not a size"),
        ((LOGS, "--webhook", "ftp://x"), "is not an address"),
        ((LOGS, "--webhook-header", "A: b"), "needs --webhook"),
        ((LOGS, "--webhook", "http://127.0.0.1:9/", "--webhook-header", "A"), "is not NAME: VALUE"),
        ((LOGS, "--token-file", "x"), "--token-file needs --http"),
        ((LOGS, "--proxy-header", "x"), "--proxy-header needs --http"),
        ((LOGS, "--trusted-proxy", "127.0.0.1"), "--trusted-proxy needs --http"),
        ((LOGS, "--allow-host", "x"), "--allow-host needs --http"),
        ((LOGS, "--metrics-groups", "a.*"), "--metrics-groups needs --http"),
        ((LOGS, "--metrics-limit", "5"), "--metrics-limit needs --http"),
        ((LOGS, "--metrics-detail", "topic"), "--metrics-detail needs --http"),
        ((LOGS, "--http", "nowhere"), "is not HOST:PORT"),
        (("-b", "127.0.0.1:1", "--connect-timeout-ms", "300"), "nothing listens on this port"),
        (("-b", "h:1", "--topology", "x"), "--topology is for a SOURCE"),
        (("missing",), "missing"),
        ((LOGS, "--state", ""), "state is empty"),
        ((LOGS, "--state", "/dev/null/x"), "error: --state /dev/null/x: Not a directory\n"),
    ],
)
def test_the_command_names_what_is_wrong(quorate: Callable, arguments: tuple[object, ...], message: str) -> None:
    done = quorate("watch", *arguments)
    assert done.status == 1
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--http", "nowhere"), "is not HOST:PORT"),
        (("--http", "0.0.0.0:0"), "no login is configured"),
        (("--http", "127.0.0.1:0", "--metrics-groups", "("), "is not valid"),
        (("--http", "127.0.0.1:0", "--token-file", "missing"), "cannot be read"),
    ],
)
def test_options_of_the_page_are_checked_before_the_log_is_read(
    quorate: Callable, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = quorate("watch", LOGS, "--state", tmp_path / "history", *arguments)
    assert (done.status, done.out, (tmp_path / "history").exists()) == (1, "", False)
    assert message in done.err


def test_a_port_in_use_is_an_error_before_the_log_is_read(quorate: Callable, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = quorate("watch", LOGS, "--state", tmp_path / "history", "--http", address)
    assert (done.status, done.out, (tmp_path / "history").exists()) == (1, "", False)
    assert done.err.splitlines()[0] == f"error: --http {address}: cannot listen: Address already in use"


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def test_missing_permissions_are_named_at_the_start(quorate: Callable) -> None:
    users = {user: f"{user}-secret" for user in ("admin", "alice")}
    with EmbeddedCluster(properties=AUTHORIZER, security=Security(users=users)) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers} | login("admin"))
        for done in admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]).values():
            done.exception(60)  # which creates __consumer_offsets
        options = (
            "--security-protocol",
            "SASL_PLAINTEXT",
            "--sasl-mechanism",
            "PLAIN",
            "--sasl-plain-username",
            "alice",
        )
        arguments = ("-b", kafka.bootstrap_servers, *options, "--sasl-plain-password", "alice-secret")
        for verb in ("describe", "read"):
            done = quorate("watch", *arguments)
            assert (done.status, done.out) == (1, "")
            assert f"this client is not allowed to {verb} __consumer_offsets" in done.err
            assert "DESCRIBE and READ on __consumer_offsets and __share_group_state are required" in done.err
            assert "Traceback" not in done.err
            allowed = AclBinding(
                ResourceType.TOPIC,
                "__consumer_offsets",
                ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                AclOperation.DESCRIBE,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([allowed])[allowed].result(60)
