"""Rules of `quorate verify-client` on exchanges that real clients have, written down by hand."""

import pytest

from quorate.codecs.api.broker.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from quorate.codecs.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from quorate.codecs.message import Message
from quorate.codecs.wire import Uuid
from quorate.integration.verify_client import RULES
from quorate.integration.verify_client.exchanges import ClientLink, Exchange
from quorate.integration.verify_client.rule import Evidence, Findings, ProgramRun

pytestmark = pytest.mark.without_containers

TOPIC_ID = Uuid(b"orders of a shop")
LEADER, REPLICA = 1, 2
LINKS = {broker: ClientLink(number=broker, broker=broker, opened_s=0.0, program=1) for broker in (LEADER, REPLICA)}


def judged(rule: str, *exchanges: Exchange) -> Findings:
    """Judge exchanges by one rule."""
    (judge,) = (one for those in RULES.values() for one in those if one.name == rule)
    seen = Evidence(
        exchanges=exchanges,
        links=tuple(LINKS.values()),
        group="g",
        topic="orders",
        topic_id=str(TOPIC_ID),
        versions={},
        programs=(ProgramRun(number=1),),
        end_s=30.0,
    )
    found = Findings()
    judge.judge(seen, found)
    return found


def exchange(at_s: float, broker: int, request: Message, response: Message) -> Exchange:
    api = type(request).__name__.removesuffix("Request")
    return Exchange(
        at_s=at_s,
        link=LINKS[broker],
        api_key=type(request).declared_api_key,
        api=api,
        version=1,
        request=request,
        response=response,
        responded_s=at_s + 0.01,
    )


def fetch(
    at_s: float, broker: int, epoch: int, *partitions: int, forget: tuple[int, ...] = (), preferred: int = -1
) -> Exchange:
    """A Fetch that names and forgets partitions; the response may prefer a replica."""
    topics = (FetchTopic(topic_id=TOPIC_ID, partitions=tuple(FetchPartition(partition=one) for one in partitions)),)
    forgotten = (ForgottenTopic(topic_id=TOPIC_ID, partitions=forget),)
    parts = tuple(PartitionData(partition_index=one, preferred_read_replica=preferred) for one in partitions)
    return exchange(
        at_s,
        broker,
        FetchRequest(
            session_epoch=epoch,
            topics=topics if partitions else (),
            forgotten_topics_data=forgotten if forget else (),
        ),
        FetchResponse(responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts),)),
    )


PREFERRED = (
    fetch(0.0, LEADER, 0, 0, preferred=REPLICA),
    fetch(0.1, REPLICA, 0, 0),
)
"""The leader prefers the replica, and the client starts a session there at once."""


def test_a_fetch_session_remembers_the_partition_that_it_reads_from_the_preferred_replica() -> None:
    # As franz-go: later requests of the session name no partition, and in between the client
    # reads from the leader again.
    found = judged(
        "fetches-from-the-preferred-replica",
        *PREFERRED,
        *(fetch(1.0 + step, REPLICA, 1 + step) for step in range(8)),
        fetch(2.5, LEADER, 1, 0),
    )
    assert not found.problems
    assert found.kept


def test_a_partition_that_the_session_forgot_is_not_read_from_the_preferred_replica() -> None:
    found = judged(
        "fetches-from-the-preferred-replica",
        *PREFERRED,
        fetch(0.4, REPLICA, 1, forget=(0,)),
        *(fetch(1.0 + step, REPLICA, 2 + step) for step in range(8)),
        fetch(2.5, LEADER, 1, 0),
    )
    assert [problem for problem, _ in found.problems] == ["partition 0 is not fetched from broker 2"]


def test_a_partition_that_comes_back_later_may_be_read_from_the_leader_again() -> None:
    found = judged("fetches-from-the-preferred-replica", *PREFERRED, fetch(9.0, LEADER, 1, 0))
    assert not found.problems


def test_a_new_session_remembers_nothing() -> None:
    found = judged(
        "fetches-from-the-preferred-replica",
        *PREFERRED,
        fetch(0.4, REPLICA, 0, 1),
        *(fetch(1.0 + step, REPLICA, 1 + step) for step in range(8)),
        fetch(2.5, LEADER, 1, 0),
    )
    assert [problem for problem, _ in found.problems] == ["partition 0 is not fetched from broker 2"]


def heartbeat(at_s: float, owned: tuple[int, ...] | None, given: tuple[int, ...] | None) -> Exchange:
    """A heartbeat that reports partitions, or nothing; the response may have an assignment."""

    def topics(partitions: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
        return (TopicPartitions(topic_id=TOPIC_ID, partitions=partitions),)

    return exchange(
        at_s,
        LEADER,
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=1, topic_partitions=None if owned is None else topics(owned)
        ),
        ConsumerGroupHeartbeatResponse(
            member_id="m",
            member_epoch=1,
            heartbeat_interval_ms=1_000,
            assignment=None if given is None else Assignment(topic_partitions=topics(given)),
        ),
    )


QUIET = tuple(heartbeat(1.0 + step, None, None) for step in range(8))
"""Heartbeats that report nothing, for longer than a client may take to report its assignment."""


def test_an_assignment_that_the_heartbeat_reports_itself_is_acknowledged() -> None:
    # A response to a heartbeat with all fields repeats the assignment, and no report follows.
    found = judged("assignment-is-acknowledged", heartbeat(0.0, (0, 1), (1, 0)), *QUIET)
    assert not found.problems


def test_an_assignment_with_one_more_partition_is_not_acknowledged_by_the_heartbeat_itself() -> None:
    found = judged("assignment-is-acknowledged", heartbeat(0.0, (0, 1), (0, 1, 2)), *QUIET)
    assert [problem for problem, _ in found.problems] == ["an assignment that is not reported as owned within 5 s"]


def test_a_later_report_acknowledges_the_assignment() -> None:
    reported = heartbeat(2.5, (0, 1, 2), None)
    found = judged("assignment-is-acknowledged", heartbeat(0.0, (0, 1), (0, 1, 2)), *QUIET[:2], reported, *QUIET[3:])
    assert not found.problems
    assert found.kept == 1
