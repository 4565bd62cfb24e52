"""KIP-169 on real brokers: `lag-aware` deals partitions out by the lags that the group really has, and by what is declared where they cannot be read."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.assignors.lags import AdminLags, Fallback
from quorate.integration import Cluster
from tests.assignors.adapters import live
from tests.integration.groups import all_of, confluent_config, settled

pytestmark = pytest.mark.scenario("KIP-169 lag-aware")

WRITTEN = (1000, 800, 600, 400, 200, 100)
"""Messages in each partition: as unevenly as keys fall in practice."""


@pytest.fixture
def skewed(kafka_cluster: Cluster, topic: str) -> str:
    producer = Producer({**confluent_config(kafka_cluster), "acks": "all"})
    for partition, count in enumerate(WRITTEN):
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(60) == 0
    return topic


def commit(cluster: Cluster, group: str, topic: str, *offsets: int) -> None:
    """As a group that stopped there."""
    cluster.admin.alter_group_offsets(
        group,
        {TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1) for number, offset in enumerate(offsets)},
    )


def source(cluster: Cluster, group: str, **options: Any) -> AdminLags:
    # The limit is for a machine that does much else at the same time.
    return AdminLags(group_id=group, **{"timeout_ms": 20_000, **cluster.client_config, **options})


def read(cluster: Cluster, group: str, topic: str, **options: Any) -> list[int | None]:
    """The lag of each partition."""
    partitions = sorted(all_of(topic, len(WRITTEN)))
    lags = source(cluster, group, **options).lags(partitions)  # type: ignore[arg-type]
    return [lags[partition] for partition in partitions]  # type: ignore[index]


class Pair:
    """Two consumers that share the topic by lag. They commit nothing, so the lags stay as they are."""

    def __init__(self, client: str, cluster: Cluster, group: str, topic: str) -> None:
        self.client, self.cluster, self.group, self.topic = client, cluster, group, topic
        self.members: list[live.Member] = []
        self.options: dict[str, Any] = {}

    def start(self, **lag_options: Any) -> None:
        self.options |= lag_options
        for _ in range(2):
            self.add()
            self.settle()

    def add(self) -> None:
        adapters: Any = kafka_python if self.client == "kafka-python" else aiokafka
        kind: Any = live.KafkaPython if self.client == "kafka-python" else live.Aio
        lags = source(self.cluster, self.group, **self.options)
        self.members.append(kind(self.cluster, self.group, [self.topic], adapters.LagAware(lags=lags)).__enter__())

    def settle(self) -> None:
        settled(self.members, all_of(self.topic, len(WRITTEN)), timeout_ms=90_000)

    def loads(self, lags: Any = WRITTEN) -> list[int]:
        """The lag that each member got, the smaller one first."""
        return sorted(sum(lags[number] for _, number in member.assigned) for member in self.members)

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.fixture(params=["kafka-python", "aiokafka"])
def pair(request: pytest.FixtureRequest, kafka_cluster: Cluster, skewed: str, group_id: str) -> Iterator[Pair]:
    found = Pair(request.param, kafka_cluster, group_id, skewed)
    yield found
    found.close()


def test_lags_are_what_is_written_less_what_is_committed(kafka_cluster: Cluster, skewed: str, group_id: str) -> None:
    commit(kafka_cluster, group_id, skewed, 900, 100, 600, 0)
    for reset, without_commit in (("latest", [0, 0]), ("earliest", [200, 100])):
        lags = read(kafka_cluster, group_id, skewed, auto_offset_reset=reset)
        assert lags == [100, 700, 0, 400, *without_commit]


def test_without_commits_earliest_counts_what_is_still_there_and_latest_nothing(
    kafka_cluster: Cluster, skewed: str, group_id: str
) -> None:
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="earliest") == list(WRITTEN)
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="latest") == [0] * 6
    kafka_cluster.admin.delete_records({TopicPartition(skewed, 0): 750, TopicPartition(skewed, 5): 100})
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="earliest") == [250, 800, 600, 400, 200, 0]


def test_members_share_the_lag_and_not_only_the_partitions(pair: Pair) -> None:
    pair.start(auto_offset_reset="earliest")
    # 1000+400+200 and 800+600+100: as even as three partitions each can be. Ranges would be 2400 and 700.
    assert pair.loads() == [1500, 1600]


def test_members_share_what_is_left_behind_commits(pair: Pair) -> None:
    commit(pair.cluster, pair.group, pair.topic, 1000, 800, 0, 0, 200, 0)
    pair.start(auto_offset_reset="latest")
    left = [0, 0, 600, 400, 0, 100]
    # 600 to one; 400 and 100 to the other, and those without any lag so that both have three.
    assert pair.loads(left) == [500, 600]
    assert [len(member.assigned) for member in pair.members] == [3, 3]


def test_a_new_group_from_latest_has_no_lag_and_shares_by_number(pair: Pair) -> None:
    pair.start(auto_offset_reset="latest")
    assert sorted([number for _, number in sorted(member.assigned)] for member in pair.members) == [
        [0, 2, 4],
        [1, 3, 5],
    ]


@pytest.mark.kafka_topic(assignment=[[3], [1], [2], [1], [2], [1]])
def test_lags_that_cannot_be_read_are_replaced_as_declared(
    kafka_cluster: Cluster, skewed: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        pairs: dict[tuple[str, Fallback], Pair] = {}
        for client in ("kafka-python", "aiokafka"):
            for fallback in ("last", "none"):
                group = f"{group_id}-{client}-{fallback}"
                pair = pairs[client, fallback] = Pair(client, kafka_cluster, group, skewed)
                stack.callback(pair.close)
                pair.options = {"auto_offset_reset": "earliest", "fallback": fallback, "timeout_ms": 10_000}
                pair.start()
                assert pair.loads() == [1500, 1600]
        # Nobody knows where partition 0 ends while its only replica is away.
        kafka_cluster.stop_broker(3)
        caplog.set_level(logging.WARNING, "quorate.assignors.lags")
        for (client, fallback), pair in pairs.items():
            caplog.clear()
            pair.members.pop().close()
            pair.add()
            pair.settle()
            by = "the 6 lags read last" if fallback == "last" else "their numbers only"
            told = [text for text in caplog.messages if "lags could not be read" in text]
            assert told, (client, fallback)
            assert all(f"so partitions are assigned by {by}; look at the brokers" in text for text in told)
            assert pair.loads() == ([1500, 1600] if fallback == "last" else [1300, 1800])
        # They are read again as soon as they can be.
        kafka_cluster.start_broker(3)
        for pair in pairs.values():
            pair.members.pop().close()
            pair.add()
            pair.settle()
            assert pair.loads() == [1500, 1600]
