"""`LagAware()` without a source: the consumer's own connections read the lags (KIP-169).

They use its group, security and reset policy, and failures do not delay a group.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as At

from quorate.assignors import Member as GroupMember
from quorate.assignors import Topology
from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.assignors.adapters.membership import Membership, Strategy
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster, Error, Silence
from quorate.codecs.api.error_codes import ErrorCode
from tests.assignors.adapters.live import Aio, KafkaPython, wait_for

CLIENTS = {"kafka-python": (KafkaPython, kafka_python), "aiokafka": (Aio, aiokafka)}

WRITTEN = [9, 5, 4, 1]
"""Records of each partition; partition 2 has a committed offset, 0."""
BY_EARLIEST = {frozenset({0, 3}), frozenset({1, 2})}
"""Partitions by decreasing lag go to the member with fewer partitions, then with less lag.

So 9 | 5, then 4 to the second, 1 to the first.
"""
BY_LATEST = {frozenset({2, 3}), frozenset({0, 1})}
"""Lags 0, 0, 4 and 0: 4 | 0, then 0 to the second, 0 to the first."""
BY_NUMBER = {frozenset({0, 2}), frozenset({1, 3})}
"""Without lags."""


@pytest.fixture(scope="module", params=["PLAINTEXT", "SASL_SSL"])
def secured(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(racks=["a", "b"], properties=TEST_PROPERTIES, security=request.param) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def plain() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(racks=["a", "b"], properties=TEST_PROPERTIES) as kafka:
        yield kafka


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lagging(kafka: EmbeddedCluster, topic: str) -> str:
    """Create a topic with records, of which its group has read some."""
    kafka.create_topic(topic, partitions=4)
    with closing(KafkaProducer(**kafka.client_config)) as producer:
        for partition, count in enumerate(WRITTEN):
            for _ in range(count):
                producer.send(topic, b"x", partition=partition)
        producer.flush()
    with closing(KafkaConsumer(**kafka.client_config, group_id=topic, enable_auto_commit=False)) as consumer:
        consumer.assign([At(topic, 2)])
        consumer.commit({At(topic, 2): OffsetAndMetadata(0, "", -1)})
    return topic


def login(kafka: EmbeddedCluster, client: str) -> dict[str, Any]:
    config = dict(kafka.client_config)
    config.pop("bootstrap_servers")
    if client == "aiokafka" and "ssl_cafile" in config:
        from aiokafka.helpers import create_ssl_context

        config["ssl_context"] = create_ssl_context(cafile=config.pop("ssl_cafile"))
    return config


def pair(kafka: EmbeddedCluster, topic: str, client: str, stack: ExitStack, **config: Any) -> set[frozenset[int]]:
    """Return the assignments of two consumers. `lags`: given to the assignor."""
    kind, adapters = CLIENTS[client]
    options = {"lags": config.pop("lags")} if "lags" in config else {}
    config = {"auto_offset_reset": "earliest", **login(kafka, client), **config}
    members = []
    for number in range(2):
        one = kind(kafka, topic, [topic], adapters.LagAware(**options), client_id=f"member-{number}", **config)
        members.append(stack.enter_context(one))
        wait_for(lambda: sum(len(member.assigned) for member in members) == 4, *members)
    wait_for(lambda: all(len(member.assigned) == 2 for member in members), *members)
    return {frozenset(number for _, number in member.assigned) for member in members}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("quorate") and "lags" in record.getMessage()
    ]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", BY_EARLIEST), ("latest", BY_LATEST)])
def test_the_leader_reads_lags_as_its_consumer_reads_records(
    secured: EmbeddedCluster, client: str, reset: str, expected: set[frozenset[int]], caplog: pytest.LogCaptureFixture
) -> None:
    """Regression test for issue 14: `LagAware()` alone read nothing, without a warning."""
    topic = lagging(secured, f"own-{client}-{reset}")
    with ExitStack() as stack:
        assert pair(secured, topic, client, stack, auto_offset_reset=reset) == expected
    assert warnings(caplog) == []


def test_given_lags_are_used_instead(plain: EmbeddedCluster, client: str) -> None:
    topic = lagging(plain, f"given-{client}")
    with ExitStack() as stack:
        assert pair(plain, topic, client, stack, lags={}) == BY_NUMBER
    with ExitStack() as stack:
        lags = {(topic, 2): 4}
        assert pair(plain, topic, client, stack, lags=lags) == BY_LATEST


@pytest.mark.parametrize(
    ("api", "code", "name"),
    [
        ("OffsetFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED, "GroupAuthorizationFailedError"),
        ("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TopicAuthorizationFailedError"),
    ],
)
def test_a_leader_without_permission_to_read_lags_warns_once(
    plain: EmbeddedCluster, client: str, api: str, code: ErrorCode, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = lagging(plain, f"forbidden-{client}-{api}")
    kind, adapters = CLIENTS[client]

    def forbid() -> None:
        """Fail the leader's next request, the one for lags, before its fetches."""
        plain.faults.add(Error(code), api=api, client_id="leader", times=1)

    def member(name: str) -> Any:
        return kind(plain, topic, [topic], adapters.LagAware(), client_id=name)

    forbid()
    with member("leader") as leader:
        wait_for(lambda: len(leader.records) == sum(WRITTEN), leader)
        forbid()
        with member("other") as other:
            wait_for(lambda: len(leader.assigned) == len(other.assigned) == 2, leader, other)
            assert {frozenset(number for _, number in one.assigned) for one in (leader, other)} == BY_NUMBER
    said = warnings(caplog)
    assert len(said) == 1, said
    assert said[0].startswith(f"group {topic}: lags could not be read ({name}")
    assert "DESCRIBE on its topics" in said[0]


def test_a_broker_that_does_not_respond_delays_the_rebalance_up_to_the_limit(
    plain: EmbeddedCluster, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Lags are given up after a third of the session timeout; their requests get no response."""
    topic = lagging(plain, f"silent-{client}")
    kind, adapters = CLIENTS[client]
    plain.faults.add(Silence(), api="ListOffsets", client_id="silent", times=2)
    config = {"client_id": "silent", "session_timeout_ms": 6_000, "request_timeout_ms": 7_000}
    with kind(plain, topic, [topic], adapters.LagAware(), **config) as one:
        wait_for(lambda: len(one.assigned) == 4, one)
    (said,) = warnings(caplog)
    assert "TimeoutError: no response within 2,000 ms" in said


def test_without_a_running_consumer_the_assignor_warns_of_unknown_lags(caplog: pytest.LogCaptureFixture) -> None:
    members = {"a": GroupMember(topics=["t"])}
    membership = Membership(group="g")
    with caplog.at_level(logging.WARNING):
        membership.assign(Strategy.of(LagAwareAssignor()), members, Topology.of({"t": 2}))
    assert [warning for warning in warnings(caplog) if "not called by a running consumer" in warning]


def test_aiokafkas_loop_is_not_blocked_while_lags_are_read(plain: EmbeddedCluster) -> None:
    from aiokafka import AIOKafkaConsumer

    topic = lagging(plain, "loop-goes-on")
    plain.faults.add(Silence(), api="OffsetFetch", client_id="loop", times=1)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = asyncio.get_running_loop().time()
            await asyncio.sleep(0.01)
            longest = max(longest, asyncio.get_running_loop().time() - before)

    async def consume() -> int:
        watching = asyncio.create_task(watch())
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=plain.bootstrap_servers,
            group_id="loop-goes-on",
            client_id="loop",
            session_timeout_ms=6_000,
            request_timeout_ms=7_000,  # closing waits this long for the request without a response
            partition_assignment_strategy=[aiokafka.LagAware()],
        )
        await consumer.start()
        try:
            await consumer.getmany(timeout_ms=1)
            return len(consumer.assignment())
        finally:
            watching.cancel()
            await consumer.stop()

    assert asyncio.run(consume()) == 4
    assert longest < 1
