# pyright: strict
"""A program that uses the public API of each package; it is type-checked, and never run.

tests/test_packaging.py checks it with mypy and pyright against the installed wheel.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.assignors import (
    Assignment,
    Assignor,
    AssignorError,
    Explanation,
    GroupSpec,
    LagAwareAssignor,
    Member,
    RangeAssignor,
    Topic,
    TopicPartition,
    Topology,
    client_assignor,
    explain,
)
from quorate.cluster import BrokerInfo, Cluster, ClusterError, Delay, EmbeddedCluster, Error, ManualClock
from quorate.codecs import (
    CoordinatorRecord,
    DecodeError,
    LogEntry,
    LogProblem,
    MalformedRecord,
    QuorateError,
    Reason,
    UnknownRecord,
    Uuid,
    decode_record,
    encode_record,
    read_live,
    read_log,
    to_json,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.messages import OffsetCommitKey, OffsetCommitValue
from quorate.consumers import ConsumerMembership, ConsumerState, Heartbeat, Identity, TopicSubscription
from quorate.consumers.actions import AssignPartitions, Partitions
from quorate.coordinator import (
    CoordinatorConfig,
    CoordinatorState,
    GroupCoordinatorShard,
    MemoryLog,
    MetadataImage,
    PartitionRuntime,
    TopicImage,
    group_hash,
    topic_hash,
)
from quorate.integration import EmbeddedLab, KafkaCluster
from quorate.pipeline import GroupState, Locality, decode, group_state, lag, locality, rebalances, register
from quorate.simulation import Chaos, Simulation, SimulationResult, simulate
from quorate.watch import GroupSummary, Watched, as_json
from quorate.watch.web import Serving, WebAccess, serve

TOPOLOGY = Topology([Topic(name="orders", partitions=2, racks=[("a", "b"), ("b", "c")])])


class FirstTakesAll(Assignor):
    """An assignor of the user."""

    name = "first-takes-all"

    def assign_group(self, group: GroupSpec) -> Assignment:
        first, *others = sorted(group.members)
        everything = range(sum(topic.partitions for topic in group.topology.topics))
        return Assignment.from_lists(group.topology, [first, *others], [everything, *([] for _ in others)])


def codecs(path: Path) -> dict[str, int]:
    """Decode and encode records."""
    commits: dict[str, int] = {}
    for entry in read_log(path):
        if isinstance(entry, LogProblem):
            assert_type(entry.position, int)
            continue
        assert_type(entry, LogEntry)
        record = entry.record
        if isinstance(record, CoordinatorRecord) and isinstance(record.key, OffsetCommitKey):
            assert_type(record.key.group, str)
            if isinstance(record.value, OffsetCommitValue):
                commits[record.key.group] = assert_type(record.value.offset, int)
    one = decode_record(b"", None)
    assert_type(one, CoordinatorRecord | UnknownRecord | MalformedRecord)
    if isinstance(one, MalformedRecord):
        assert_type(one.problem, DecodeError)
        assert_type(one.reason, Reason)
    elif isinstance(one, CoordinatorRecord) and one.value is not None:
        assert_type(to_json(one.value, one.version or 0), dict[str, Any])
    assert_type(encode_record(one), tuple[bytes | None, bytes | None])
    for live in read_live("localhost:9092", follow=True):
        assert_type(live.offset, int)
    return commits


def assignors() -> Sequence[TopicPartition]:
    """Run assignors, and explain a result."""
    members = {"m1": Member(topics=["orders"], rack="a"), "m2": Member(topics=["orders"], owned=[("orders", 1)])}
    assignor: Assignor
    for assignor in (RangeAssignor(), LagAwareAssignor(max_moved=1), FirstTakesAll(), client_assignor("sticky")):
        try:
            assignment = assignor.assign(members, TOPOLOGY)
        except AssignorError as error:
            raise SystemExit(str(error)) from None
        assert_type(assignment, Assignment)
        facts = explain(members, TOPOLOGY, assignment)
        assert_type(facts, Explanation)
        assert_type(facts.local, int)
        assert_type(assignment["m1"], tuple[TopicPartition, ...])
    return assignment["m1"]


def coordinator() -> int:
    """Replay records, run a coordinator, and compute hashes."""
    state = CoordinatorState()
    record = decode_record(b"", None)
    state.replay(record, offset=0)
    for name, group in state.groups.items():
        assert_type(name, str)
        assert_type(group.state, str)
    image = MetadataImage(
        brokers={1: "a"}, topics={"orders": TopicImage(name="orders", id=Uuid.parse("A" * 22), replicas=((1,),))}
    )
    config = CoordinatorConfig(group_consumer_session_timeout_ms=45_000)
    shard = GroupCoordinatorShard(config, image=image, new_id=uuid4)
    runtime = PartitionRuntime(shard, MemoryLog(), now_ms=0)
    runtime.load()
    runtime.advance(45_000)
    return assert_type(group_hash({"orders": topic_hash(bytes(16), "orders", [["a"]])}), int)


def cluster() -> list[str | None]:
    """Run an embedded cluster, with faults and a manual clock."""
    clock = ManualClock()
    try:
        with EmbeddedCluster(racks=["a", None], clock=clock, properties={"num.partitions": 2}) as kafka:
            assert_type(kafka, EmbeddedCluster)
            kafka.create_topic("orders", partitions=2, replicas=2, config={"retention.ms": 60_000})
            kafka.faults.add(Error(ErrorCode.NOT_COORDINATOR), api="Heartbeat", times=2)
            kafka.faults.add(Delay(100), api="Fetch")
            kafka.restart_broker(1, rack="b")
            assert_type(kafka.call(lambda: clock.now_ms()), int)
            assert_type(kafka.topology("orders"), Topology)
            assert_type(kafka.brokers, Sequence[BrokerInfo])
            return [broker.rack for broker in kafka.brokers]
    except ClusterError as error:
        base: QuorateError = error
        return [str(base)]


async def cluster_in_a_loop() -> None:
    """Run an embedded cluster in the caller's event loop."""
    async with EmbeddedCluster(brokers=2) as kafka:
        kafka.stop_broker(2)
        await kafka.start_broker_async(2, rack="c")


def consumers() -> Partitions:
    """Join a group with a member without I/O."""
    member = ConsumerMembership(Identity("billing", str(uuid4()), rack_id="a"), now_ms=0)
    member.subscribe(TopicSubscription(["orders"], has_listener=True))
    member.poll(0)
    assert_type(member.next_heartbeat(0), Heartbeat | None)
    assert_type(member.state, ConsumerState)
    for action in member.take_actions():
        if isinstance(action, AssignPartitions):
            return action.partitions
    return ()


def integration() -> list[str]:
    """Use clusters of all kinds by their common interface."""

    def addresses(kafka: Cluster) -> str:
        return kafka.bootstrap_servers

    with EmbeddedCluster() as embedded, KafkaCluster(racks=["a", "b"]) as containers:
        return [addresses(embedded), addresses(containers), addresses(EmbeddedLab.attach("lab"))]


def simulation() -> None:
    """Run a scenario under some schedules."""

    async def scenario(sim: Simulation) -> None:
        kafka = assert_type(await sim.cluster(topics={"orders": 2}), EmbeddedCluster)
        assert_type(await sim.within(5.0, kafka.start_broker_async(1)), None)

    assert_type(simulate(scenario, seeds=5, chaos=Chaos.none(broker_stops=2.0)), SimulationResult)


def watch(watched: Watched) -> str:
    """Read what an observer knows, and serve its page."""
    for group in watched.groups(at_ms=0):
        assert_type(group, GroupSummary)
        assert_type(group.lag_ms, int | None)
        assert_type(as_json(group), Any)
    with serve(watched, port=0, access=WebAccess(token="a secret of operators")) as serving:
        assert_type(serving, Serving)
        return serving.url


@pytest.mark.kafka_topic(partitions=3)
def test_orders(
    kafka_cluster: Cluster, kafka_cluster_factory: Callable[..., Cluster], topic: str, group_id: str
) -> None:
    """Use the fixtures of the pytest plugin."""
    config: Mapping[str, Any] = kafka_cluster.client_config
    assert config
    with kafka_cluster_factory(racks=["q"]) as other:
        other.create_topic(topic)
    assert_type(kafka_cluster.coordinator_of(group_id), int)


def pipeline(spark: SparkSession, end_offsets: DataFrame) -> DataFrame:
    """Read and analyse records with Spark."""
    register(spark)
    rows = spark.read.format("consumer-offsets").load("kafka-logs")
    state = assert_type(group_state(rows), GroupState)
    assert_type(state.members, DataFrame)
    assert_type(locality(state, TOPOLOGY, {"orders": 1.0}, price_per_gb=0.01), Locality)
    assert_type(rebalances(rows), DataFrame)
    assert_type(decode(rows, types=["OffsetCommit"]), DataFrame)
    return lag(rows, end_offsets)
