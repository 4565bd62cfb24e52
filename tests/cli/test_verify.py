"""`quorate verify`: its output and its exit status."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from quorate.cluster import EmbeddedCluster, Error
from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify import CheckResult, recorded_releases, selected, verify
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


def test_ctrl_c_removes_topics_and_groups(embedded: EmbeddedCluster) -> None:
    def interrupt(_: CheckResult) -> None:
        assert created()
        raise KeyboardInterrupt

    def created() -> list[str]:
        return [name for name in embedded.core.topics if name.startswith("quorate-verify-")]

    with pytest.raises(KeyboardInterrupt):
        verify(embedded.bootstrap_servers, suites=["offsets"], progress=interrupt)
    assert not created()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("-", "--junit -: standard output has the results"),
        ("missing/results.xml", "--junit missing/results.xml: folder missing does not exist"),
    ],
)
def test_a_report_that_cannot_be_written_is_an_error_before_the_run(quorate, file: str, message: str) -> None:
    done = quorate("verify", "-b", "127.0.0.1:1", "--junit", file)
    assert (done.status, done.out) == (1, "")
    assert message in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the cluster"),
        (("-b", "127.0.0.1:1"), "cannot connect to a broker"),
        (("-b", "nowhere"), "bootstrap_servers 'nowhere': has no port; an address is HOST:PORT"),
        (("-b", "127.0.0.1:99999"), "the port '99999' is not a number from 1 to 65535"),
        (
            ("-b", "127.0.0.1:1", "--security-protocol", "SSL", "--ssl-cafile", "none.pem"),
            "file none.pem does not exist",
        ),
        (("-b", "127.0.0.1:1", "--kafka-version", "new"), "is not a version of Kafka"),
    ],
)
def test_the_command_names_what_is_wrong(quorate, arguments: tuple[str, ...], message: str) -> None:
    done = quorate("verify", *arguments)
    assert done.status == 1
    assert message in done.err
