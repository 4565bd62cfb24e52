"""KIP-169 on Kafka brokers: `lag-aware` assigns partitions by the group's lags.

If lags cannot be read, it uses the declared replacement.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.assignors.lags import AdminLags, Fallback
from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from tests.assignors.adapters import live
from tests.integration.detour import Detour
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
    assert producer.flush(300) == 0
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
    """Return the lag of each partition."""
    partitions = sorted(all_of(topic, len(WRITTEN)))
    lags = source(cluster, group, **options).lags(partitions)  # type: ignore[arg-type]
    return [lags[partition] for partition in partitions]  # type: ignore[index]


class Pair:
    """Two consumers that share the topic by lag.

    They commit nothing, so the lags stay as they are.
    """

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
        self.members.append(
            kind(
                self.cluster, self.group, [self.topic], adapters.LagAware(lags=lags), session_timeout_ms=45_000
            ).__enter__()
        )

    def replace_one(self) -> None:
        """Stop the member that is not the leader, and start another one."""
        self.members.pop().close()
        self.add()

    def settle(self) -> None:
        settled(self.members, all_of(self.topic, len(WRITTEN)))

    def loads(self, lags: Any = WRITTEN) -> list[int]:
        """Return the lag that each member was assigned, smallest first."""
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


@pytest.mark.long_on_brokers
def test_without_commits_earliest_counts_what_is_still_there_and_latest_nothing(
    kafka_cluster: Cluster, skewed: str, group_id: str
) -> None:
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="earliest") == list(WRITTEN)
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="latest") == [0] * 6
    kafka_cluster.admin.delete_records({TopicPartition(skewed, 0): 750, TopicPartition(skewed, 5): 100})
    assert read(kafka_cluster, group_id, skewed, auto_offset_reset="earliest") == [250, 800, 600, 400, 200, 0]


def test_members_share_the_lag_and_not_only_the_partitions(pair: Pair) -> None:
    pair.start(auto_offset_reset="earliest")
    # 1000+400+200 and 800+600+100: as even as three partitions each can be. Ranges would be 2400
    # and 700.
    assert pair.loads() == [1500, 1600]


@pytest.mark.long_on_brokers
def test_members_share_the_lag_after_commits(pair: Pair) -> None:
    commit(pair.cluster, pair.group, pair.topic, 1000, 800, 0, 0, 200, 0)
    pair.start(auto_offset_reset="latest")
    left = [0, 0, 600, 400, 0, 100]
    # 600 to one; 400 and 100 to the other, and those without any lag so that both have three.
    assert pair.loads(left) == [500, 600]
    assert [len(member.assigned) for member in pair.members] == [3, 3]


@pytest.mark.long_on_brokers
def test_a_new_group_from_latest_has_no_lag_and_shares_by_number(pair: Pair) -> None:
    pair.start(auto_offset_reset="latest")
    assert sorted([number for _, number in sorted(member.assigned)] for member in pair.members) == [
        [0, 2, 4],
        [1, 3, 5],
    ]


def warnings_of(pair: Pair, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's warnings about lags that could not be read."""
    return [text for text in caplog.messages if "could not be read" in text and pair.group in text]


def test_a_lag_source_that_does_not_respond_is_replaced_as_declared(
    kafka_cluster: Cluster, skewed: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        detour = stack.enter_context(Detour())
        pairs: dict[Fallback, list[Pair]] = {"last": [], "none": []}
        for client in ("kafka-python", "aiokafka"):
            for fallback in pairs:
                pair = Pair(client, kafka_cluster, f"{group_id}-{client}-{fallback}", skewed)
                stack.callback(pair.close)
                pairs[fallback].append(pair)
                pair.start(auto_offset_reset="earliest", fallback=fallback, timeout_ms=5_000, proxy_url=detour.url)
                assert pair.loads() == [1500, 1600]
        # The groups continue, but requests for lags get no response any more.
        for broker in kafka_cluster.brokers:
            detour.cut(int(broker.address.rpartition(":")[2]))
        caplog.set_level(logging.WARNING, "quorate.assignors.lags")
        for fallback in pairs:
            for pair in pairs[fallback]:
                pair.replace_one()
        for fallback in pairs:
            for pair in pairs[fallback]:
                pair.settle()
                assert pair.loads() == ([1500, 1600] if fallback == "last" else [1300, 1800]), pair.group
                by = "the 6 lags read last" if fallback == "last" else "partition counts only"
                assert warnings_of(pair, caplog), pair.group
                assert all(f"; partitions are assigned by {by}; check" in text for text in warnings_of(pair, caplog))
        # They are read again as soon as they can be.
        detour.heal()
        wait_for(
            "no reading is under way", lambda: "quorate-lags" not in {one.name for one in threading.enumerate()}, 60_000
        )
        for pair in pairs["none"]:
            pair.replace_one()
            pair.settle()
            assert pair.loads() == [1500, 1600]


@pytest.mark.parametrize(("fallback", "loads"), [("last", [1500, 1600]), ("none", [1100, 2000])])
@pytest.mark.kafka_topic(assignment=[[3], [1], [2], [1], [2], [1]])
def test_a_partition_without_a_leader_does_not_hide_the_lags_of_others(
    kafka_cluster: Cluster, skewed: str, group_id: str, fallback: Fallback, loads: list[int]
) -> None:
    pair = Pair("kafka-python", kafka_cluster, group_id, skewed)
    with closing(pair):
        pair.start(auto_offset_reset="earliest", fallback=fallback)
        assert pair.loads() == [1500, 1600]
        # Partition 0 has no other replica. It counts as it did last, or as nothing.
        kafka_cluster.stop_broker(3)
        kafka_cluster.wait_fenced(3)
        pair.replace_one()
        pair.settle()
        assert pair.loads() == loads
        kafka_cluster.start_broker(3)
