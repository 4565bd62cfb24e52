"""`quorate verify`: its output and its exit status."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from quorate.cluster import EmbeddedCluster, Error
from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify import recorded_releases, selected
from quorate.integration.verify.checks import SUITES


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, properties={"offsets.topic.num.partitions": 4}) as kafka:
        yield kafka


def test_the_command_prints_a_table(quorate, embedded: EmbeddedCluster) -> None:
    done = quorate("verify", "-b", embedded.bootstrap_servers, "--suite", "versions")
    assert done.status == 0
    assert done.lines[0] == f"Compared with Kafka {recorded_releases()[-1]}"
    assert ["all", str(len(SUITES["versions"])), "0", "0"] in [line.split() for line in done.lines]


def test_the_command_fails_if_a_response_differs(quorate, embedded: EmbeddedCluster, tmp_path) -> None:
    junit = tmp_path / "results.xml"
    name = "description-of-a-missing-group"
    rule = embedded.faults.add(Error(ErrorCode.INVALID_REQUEST), api="DescribeGroups")
    try:
        done = quorate("verify", "-b", embedded.bootstrap_servers, "--check", name, "--junit", str(junit), "--json")
    finally:
        embedded.faults.remove(rule)
    assert done.status == 1
    assert [row["check"] for row in json.loads(done.out)["checks"]] == [name]
    assert ElementTree.parse(junit).find(".//failure") is not None


def test_the_command_lists_checks(quorate) -> None:
    rows = json.loads(quorate("verify", "--list", "--json").out)
    assert [row["check"] for row in rows] == [check.name for _, check in selected()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the cluster"),
        (("-b", "127.0.0.1:1"), "cannot connect to a broker"),
        (("-b", "nowhere"), "is not an address"),
        (("-b", "127.0.0.1:1", "--kafka-version", "new"), "is not a version of Kafka"),
    ],
)
def test_the_command_names_what_is_wrong(quorate, arguments: tuple[str, ...], message: str) -> None:
    done = quorate("verify", *arguments)
    assert done.status == 1
    assert message in done.err
