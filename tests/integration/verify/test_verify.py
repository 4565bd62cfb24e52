"""`quorate.integration.verify`: recorded checks, on embedded clusters and on a real broker."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from quorate.cluster import ClusterError, Disconnect, EmbeddedCluster, Error
from quorate.cluster.faults import Rule
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import KafkaVersion
from quorate.integration.verify import CheckOutcome, VerifyReport, report_json, report_junit, runner, selected, verify
from quorate.integration.verify.canonical import differences
from quorate.integration.verify.checks import SUITES
from quorate.integration.verify.recordings import lines_of, recorded_releases, recordings_of
from quorate.integration.verify.session import CheckSession
from quorate.integration.verify.target import NotSupportedError, VerifyTarget
from tests.extent import portion

pytestmark = pytest.mark.without_containers

PROPERTIES = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
KNOWN_OF_3_9 = {
    "older-producer-cannot-write",
    "offsets-of-a-transaction-need-the-generation",
    "partition-is-listed-once",
}
"""Listed in docs/how-to/verify-a-broker.md."""
RELEASES = [str(release) for release in recorded_releases()]


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, properties=PROPERTIES) as kafka:
        yield kafka


@contextmanager
def injected(kafka: EmbeddedCluster, api: str) -> Iterator[None]:
    """Let requests of an API fail with INVALID_REQUEST."""
    rule = kafka.faults.add(Error(ErrorCode.INVALID_REQUEST), api=api)
    try:
        yield
    finally:
        kafka.faults.remove(rule)


def assert_passes(report: VerifyReport) -> None:
    assert not [
        (result.check.name, result.detail) for result in report.results if result.outcome is not CheckOutcome.PASSED
    ]
    assert not report.left


def test_embedded_brokers_respond_like_the_newest_release(embedded: EmbeddedCluster) -> None:
    report = verify(embedded.bootstrap_servers)
    assert_passes(report)
    assert report.release == recorded_releases()[-1]
    assert len(report.results) == sum(map(len, SUITES.values()))


@pytest.mark.parametrize("version", RELEASES[: portion(3)])
def test_embedded_brokers_respond_like_older_releases(version: str) -> None:
    release = KafkaVersion.parse(version)
    with EmbeddedCluster(brokers=1, properties=PROPERTIES, version=version) as kafka:
        report = verify(kafka.bootstrap_servers, release=release)
    differing = {result.check.name for result in report.results if result.outcome is not CheckOutcome.PASSED}
    assert differing == (KNOWN_OF_3_9 if release.line == KafkaVersion(3, 9) else set())


def test_a_cluster_of_three_brokers_passes() -> None:
    with EmbeddedCluster(brokers=3, properties=PROPERTIES) as kafka:
        assert_passes(verify(kafka.bootstrap_servers, suites=["transactions", "share"]))


def test_random_requests_get_the_responses_of_an_embedded_cluster(embedded: EmbeddedCluster) -> None:
    report = verify(embedded.bootstrap_servers, names=["unknown-api-closes-the-connection"], random=range(7, 10))
    assert_passes(report)
    assert [result.suite for result in report.results] == ["versions", *["random"] * 3]


# ---- differences are found


@pytest.mark.parametrize(
    ("api", "check"),
    [
        ("JoinGroup", "new-member-needs-a-member-id"),
        ("ConsumerGroupHeartbeat", "first-member-is-assigned-all-partitions"),
        ("OffsetFetch", "missing-offsets-are-minus-1"),
        ("Fetch", "offset-has-to-be-in-the-log"),
        ("EndTxn", "transaction-can-be-ended-again"),
        ("ShareGroupHeartbeat", "share-member-joins"),
        ("DescribeConfigs", "described-topic-has-to-exist"),
    ],
)
def test_a_wrong_error_differs(embedded: EmbeddedCluster, api: str, check: str) -> None:
    with injected(embedded, api):
        (result,) = verify(embedded.bootstrap_servers, names=[check]).results
    assert result.outcome is CheckOutcome.DIFFERS
    assert "INVALID_REQUEST" in result.detail or "unexpected response" in result.detail, result.detail


def test_a_wrong_random_response_differs(embedded: EmbeddedCluster) -> None:
    with injected(embedded, "ListOffsets"):
        report = verify(embedded.bootstrap_servers, names=["unknown-api-closes-the-connection"], random=[7])
    assert report.results[-1].outcome is CheckOutcome.DIFFERS


def test_an_older_release_lacks_what_is_new() -> None:
    with EmbeddedCluster(brokers=1, properties=PROPERTIES, version="3.9.2") as kafka:
        report = verify(
            kafka.bootstrap_servers,
            release=recorded_releases()[-1],
            names=["share-member-joins", "first-member-is-assigned-all-partitions"],
        )
    assert [result.outcome for result in report.results] == [CheckOutcome.NOT_SUPPORTED] * 2
    assert "ShareGroupHeartbeat" in report.missing


@pytest.mark.parametrize(
    ("expected", "found", "paths"),
    [
        ({"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 2}]}, []),
        ({"a": 1, "b": [1, {"c": 2}]}, {"a": 1, "b": [1, {"c": 3}]}, ["b[1].c"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": 1, "new": 2}, {"a": 1}, []),
        ("closed", {"a": 1}, [""]),
    ],
)
def test_differences_name_the_field(expected: object, found: object, paths: list[str]) -> None:
    assert [path for path, _, _ in differences(expected, found)] == paths


# ---- the catalogue and its recordings


def test_every_check_is_recorded_on_the_newest_release() -> None:
    recording = recordings_of(recorded_releases()[-1])
    assert [check.name for _, check in selected() if not recording.get(check.name)] == []


def test_checks_have_names_of_their_own_and_sentences_as_rules() -> None:
    checks = [check for _, check in selected()]
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.rule.endswith(".") and check.source for check in checks)


def test_recordings_are_written_as_they_are_read() -> None:
    releases = {str(release): recordings_of(release) for release in recorded_releases()}
    lines = [json.loads(line) for line in lines_of(releases)]
    assert {line["check"] for line in lines} == {check.name for _, check in selected()}
    for line in lines:
        for release in line["releases"]:
            assert [list(vars_of(step)) for step in releases[release][line["check"]]] == line["steps"]


def vars_of(step: object) -> tuple[object, ...]:
    return step.api, step.version, step.response  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suites": ["none"]}, "there is no suite none"),
        ({"names": ["none"]}, "there is no check none"),
        ({"release": KafkaVersion(3, 1)}, "Kafka 3.1.0 was not recorded"),
        ({"release": KafkaVersion(3, 9), "suites": ["share"]}, "Kafka 3.9.2 has none of these checks"),
        ({"prefix": "a b"}, "prefix 'a b': a topic cannot be named so"),
        ({"prefix": "a" * 201}, "a topic cannot be named so"),
    ],
)
def test_wrong_arguments_are_rejected(embedded: EmbeddedCluster, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        verify(embedded.bootstrap_servers, **arguments)  # type: ignore[arg-type]


# ---- reports


def test_reports_have_a_row_for_each_check(embedded: EmbeddedCluster) -> None:
    with injected(embedded, "ListGroups"):
        report = verify(embedded.bootstrap_servers, suites=["groups"])
    facts = report_json(report)
    assert facts["counts"]["differs"] == sum(row["outcome"] == "differs" for row in facts["checks"]) > 0
    tree = ElementTree.fromstring(report_junit(report))
    (suite,) = tree.findall("testsuite")
    assert int(suite.get("tests", "")) == len(facts["checks"])
    failed = {case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None}
    assert failed == {row["check"] for row in facts["checks"] if row["outcome"] == "differs"}


# ---- brokers that are not Kafka


def test_the_run_ends_with_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(brokers=1, properties=PROPERTIES) as kafka:
        original = kafka.bootstrap_servers
        names = ["unknown-api-closes-the-connection", "malformed-body-closes-the-connection"]

        def stops(s: CheckSession) -> None:
            kafka.stop_broker(1)
            s.ask("Metadata", 9, topics=[], client="new")

        check = replace(next(check for _, check in selected(names=names)), script=stops)
        monkeypatch.setattr(runner, "selected", lambda *_: [("versions", check), *selected(names=names)])
        report = verify(original)
    (result,) = report.results
    assert "does not respond any more" in result.detail
    assert len(report.left) == 1


def test_the_run_ends_if_a_proxy_accepts_connections_without_a_broker(
    embedded: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["client-software-name-has-to-be-valid", "malformed-body-closes-the-connection"]
    rules: list[Rule] = []

    def stops(s: CheckSession) -> None:
        rules.append(embedded.faults.add(Disconnect()))
        s.ask("Metadata", 9, topics=[], client="new")

    check = replace(next(check for _, check in selected(names=names)), script=stops)
    monkeypatch.setattr(runner, "selected", lambda *_: [("versions", check), *selected(names=names)])
    try:
        report = verify(embedded.bootstrap_servers)
    finally:
        embedded.faults.remove(*rules)
    (result,) = report.results
    assert result.detail.startswith("the broker does not respond any more; before: ")
    assert len(report.left) == 1


def test_a_server_that_never_responds_is_waited_for_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(ClusterError, match="does not respond to ApiVersions; check that a broker listens there"):
            verify(address, connect_timeout_ms=200)
        assert time.monotonic() - begin < 5


def test_apis_of_a_broker_may_be_missing(embedded: EmbeddedCluster) -> None:
    target = VerifyTarget(embedded.bootstrap_servers, prefix="p-")
    try:
        assert target.newest("Metadata", 9) == 9
        assert target.newest("Metadata", 99) == target.versions[3][-1]
        del target.versions[3]
        with pytest.raises(NotSupportedError, match="the broker does not have Metadata"):
            target.newest("Metadata", 9)
        assert target.clean() == []
    finally:
        target.close()
