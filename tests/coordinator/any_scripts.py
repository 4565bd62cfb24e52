"""Random histories of arbitrary requests to groups of all types.

any_requests.py generates the requests. To run 60 steps of the history of seed 7:

    AnyHistory(Random(7), NamedDuel(oracle)).run(60)

Writes do not fail here; consumer_scripts.py explains why.
"""

from random import Random
from typing import Any

from quorate.assignors.java_order.hashes import java_hash
from quorate.codecs import Uuid
from quorate.coordinator.state import ConsumerGroup
from tests.coordinator.any_requests import AnyRequests
from tests.coordinator.any_values import GROUPS, TOPICS
from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.scripts import Json

CONFIGS: dict[str, list[Any]] = {
    "offset.metadata.max.bytes": [0, 1, 10],
    "group.max.size": [1, 2],
    "group.consumer.max.size": [1, 2],
    "group.share.max.size": [1, 2],
    "group.initial.rebalance.delay.ms": [0, 1000],
    "group.consumer.assignment.interval.ms": [0, 0, 0, 5000],
    "group.share.assignment.interval.ms": [0, 0, 5000],
    "group.streams.max.size": [1, 2],
    "group.streams.initial.rebalance.delay.ms": [0, 1000],
    "group.streams.assignment.interval.ms": [0, 0, 5000],
    "group.streams.num.standby.replicas": [1],
    "group.consumer.migration.policy": ["upgrade", "downgrade", "disabled"],
    "group.consumer.assignors": [["range"], ["range", "uniform"]],
    "group.consumer.session.timeout.ms": [50_000, 60_000],
    "group.consumer.regex.refresh.interval.ms": [10_000],
    "offsets.retention.minutes": [1, 30],
    "offsets.retention.check.interval.ms": [1000, 60_000],
    "group.min.session.timeout.ms": [1, 10_000],
    "group.max.session.timeout.ms": [10_000, 30_000],
    "executor": ["manual"],
}
DEFAULT_PROBABILITY = 0.75
ADVANCES_MS = [0, 1, 999, 1000, 3000, 5000, 5001, 10_000, 30_000, 44_999, 45_000, 60_000, 300_001, 600_000, 2_000_000]


class AnyHistory:
    """A random history. It ends when the log cannot be loaded (`failed`)."""

    def __init__(self, rng: Random, duel: NamedDuel) -> None:
        self.rng = rng
        self.duel = duel
        self.requests = AnyRequests(rng, duel, replaced_share=rng.choice([0.1, 0.3, 0.6]))
        self.partitions: dict[str, list[list[int]]] = {}
        self.older_log: list[Json] = []
        self.failed = False

    def run(self, steps: int) -> None:
        """Take random steps. Raises `Differs` if the two sides differ."""
        rng = self.rng
        config = {name: rng.choice(values) for name, values in CONFIGS.items() if rng.random() > DEFAULT_PROBABILITY}
        self.duel.op("config", **config)
        self.change_image(probability=1.0)
        weights = [
            (self.requests.send, 60),
            (self.join, 3),
            (self.drop_group, 2),
            (self.end_transaction, 3),
            (self.advance, 8),
            (self.change_image, 4),
            (self.duel_op("timers"), 4),
            (self.duel_op("cleanup"), 1),
            (self.duel_op("runTasks"), 2 if config.get("executor") else 0),
            (self.configure_group, 1),
            (self.reload, 1),
            (self.describe_groups, 2),
        ]
        for _ in range(steps):
            step, *_ = rng.choices(*zip(*weights, strict=True))
            step()
            if self.failed:
                return
        self.describe_groups()
        self.duel.op("timers")

    def duel_op(self, op: str) -> Any:
        return lambda: self.duel.op(op)

    def join(self) -> None:
        """Join with classic members, and sometimes let the rebalance complete."""
        for _ in range(self.rng.choice([1, 2, 4])):
            self.requests.send("JoinGroup")
        self.duel.op("advance", ms=self.rng.choice([0, 3000]))
        for _ in range(self.rng.choice([0, 2])):
            self.requests.send("SyncGroup")

    def drop_group(self) -> None:
        """Join an empty consumer group as an unknown classic member.

        Kafka then drops the group from memory, without a record.
        """
        state = self.requests.state
        empty = [name for name, group in state.items() if isinstance(group, ConsumerGroup) and group.is_empty]
        if not empty:
            return
        body = {"groupId": self.rng.choice(empty), "memberId": "chosen-1", "sessionTimeoutMs": 10_000}
        self.duel.op("request", api="JoinGroup", version=self.rng.choice([4, 9]), body=body)
        for _ in range(self.rng.choice([1, 2, 3])):
            self.requests.send(self.rng.choice(["ListGroups", "ConsumerGroupDescribe", "OffsetFetch", "OffsetCommit"]))

    def end_transaction(self) -> None:
        producers = self.requests.producers
        producer = self.rng.choice([*producers, 1])
        epoch = producers.pop(producer, 0)
        result = self.rng.choice(["COMMIT", "COMMIT", "ABORT"])
        self.duel.op("endTxn", producerId=producer, producerEpoch=epoch, result=result)

    def advance(self) -> None:
        self.duel.op("advance", ms=self.rng.choice(ADVANCES_MS))

    def change_image(self, probability: float = 0.25) -> None:
        """Create, delete, grow and recreate topics, each with this probability; change racks."""
        rng, topic_ids = self.rng, self.requests.topics
        if rng.random() < 0.1:
            self.requests.deleted_topic_ids += topic_ids.values()
            topic_ids.clear()
        for name in TOPICS:
            if rng.random() > probability:
                continue
            draw = rng.random()
            if name in topic_ids and draw < 0.35:
                self.requests.deleted_topic_ids.append(topic_ids.pop(name))
            elif name not in topic_ids or draw < 0.55:
                if name in topic_ids:
                    self.requests.deleted_topic_ids.append(topic_ids[name])
                topic_ids[name] = self.new_topic_id()
                self.partitions[name] = self.replicas(rng.choice([0, 1, 2, 4, 7]))
            else:
                self.partitions[name] = self.partitions[name] + self.replicas(rng.choice([0, 1, 3]))
        topics = [{"name": name, "id": topic_ids[name], "partitions": self.partitions[name]} for name in topic_ids]
        brokers = [
            {"id": broker, **({"rack": rack} if rack else {})}
            for broker in range(3)
            if (rack := rng.choice(["a", "b", None])) or True
        ]
        self.duel.op(
            "image", topics=topics, **({"brokers": brokers} if probability == 1.0 or rng.random() < 0.3 else {})
        )

    def new_topic_id(self) -> str:
        """Return an id in its own hash bucket.

        A HashSet of deleted ids iterates a bucket in an order that depends on the oracle's
        generated metadata log.
        """
        taken = {_bucket(Uuid.parse(topic_id)) for topic_id in self.requests.topics.values()}
        while _bucket(drawn := Uuid(self.rng.randbytes(16))) in taken:
            pass
        return str(drawn)

    def replicas(self, count: int) -> list[list[int]]:
        return [self.rng.sample([0, 1, 2, 7], self.rng.randint(1, 3)) for _ in range(count)]

    def configure_group(self) -> None:
        configs = {
            "consumer.session.timeout.ms": self.rng.choice([45_000, 60_000]),
            "consumer.heartbeat.interval.ms": 5000,
        }
        self.duel.op("groupConfig", group=self.rng.choice(GROUPS), configs=configs)

    def reload(self) -> None:
        """Reload the log, or save it, or load a saved one, whose topics may be deleted by now."""
        draw = self.rng.random()
        if draw < 0.3:
            self.older_log = self.duel.op("log")["records"]
        elif draw < 0.6 and self.older_log:
            response = self.duel.op("load", records=self.older_log)
            self.requests.producers.clear()
            self.failed = response["state"] == "FAILED"
        else:
            # A share group that replaced a dropped consumer group contradicts the log, which has no
            # tombstones of the consumer group.
            self.failed = self.duel.op("reload")["state"] == "FAILED"

    def describe_groups(self) -> None:
        for api in ("ListGroups", "DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe"):
            self.requests.send(api)
        if self.duel.is_newest:
            self.requests.send("StreamsGroupDescribe")


def _bucket(topic_id: Uuid) -> int:
    topic_hash = java_hash(topic_id)
    return (topic_hash ^ topic_hash >> 16) & 15
