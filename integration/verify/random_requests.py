"""Random sequences of requests from a seed, for a comparison with an embedded cluster.

An embedded cluster of the same release receives the same requests first; its responses are what is
expected. It is compared with real brokers by the tests, so no broker is needed as a reference.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from quorate.cluster import EmbeddedCluster
from quorate.codecs.releases import KafkaVersion
from quorate.integration.verify.check import Check
from quorate.integration.verify.checks.admin import alter, describe
from quorate.integration.verify.checks.classic_groups import beat, join, leave, sync
from quorate.integration.verify.checks.fetch import offsets_at, read
from quorate.integration.verify.checks.offsets import fetch, offsets_of
from quorate.integration.verify.checks.produce import to_partition
from quorate.integration.verify.checks.transactions import add_partitions, end, producer
from quorate.integration.verify.messages import batch_of
from quorate.integration.verify.recorder import record
from quorate.integration.verify.session import CheckSession, CheckStep
from quorate.integration.verify.target import VerifyTarget

STEPS = 40


class _Play:
    """Sends random requests about one group, two topics and one transactional id.

    A group has one classic member, so that no request waits for another one.
    """

    def __init__(self, s: CheckSession, random: Random) -> None:
        self.s = s
        self.random = random
        self.group = s.name()
        self.topics = [s.topic(2), s.topic()]
        self.transactional_id = s.name("x")
        self.member, self.generation = "", 0
        self.producer: dict[str, Any] | None = None
        self.sequence = 0

    def step(self) -> None:
        """Send one request."""
        actions: list[Callable[[], object]] = [
            self.join,
            self.sync,
            self.heartbeat,
            self.leave,
            self.commit,
            self.fetch_offsets,
            self.delete_offsets,
            self.produce,
            self.read,
            self.list_offsets,
            self.delete_records,
            self.configs,
            self.init_producer,
            self.add_partitions,
            self.write,
            self.end,
            lambda: self.s.ask("DescribeGroups", 5, groups=[self.group]),
        ]
        self.random.choice(actions)()

    def some(self, *values: Any) -> Any:
        return self.random.choice(values)

    @property
    def topic(self) -> str:
        return self.random.choice([*self.topics, f"{self.s.prefix}none"])

    def join(self) -> None:
        first = join(self.s, self.group, self.some(self.member, self.member, "nobody"))
        if first.member_id and first.error_code == 79:
            first = join(self.s, self.group, first.member_id)
        if first.error_code == 0:
            self.member, self.generation = first.member_id, first.generation_id

    def sync(self) -> None:
        given = [{"member_id": self.member, "assignment": b"mine"}]
        generation = self.some(self.generation, self.generation, 77)
        sync(self.s, self.group, self.member, generation, assignments=given)

    def heartbeat(self) -> None:
        generation = self.some(self.generation, self.generation, 77)
        member = self.some(self.member, self.member, "nobody")
        beat(self.s, self.group, member, generation)

    def leave(self) -> None:
        leave(self.s, self.group, {"member_id": self.some(self.member, "nobody")})

    def commit(self) -> None:
        generation, member = self.some((-1, ""), (self.generation, self.member), (77, self.member))
        topic, partitions = self.topic, offsets_of(self.random.randrange(9), first=self.random.randrange(3))
        self.s.ask(
            "OffsetCommit",
            8,
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[{"name": topic, "partitions": partitions}],
        )

    def fetch_offsets(self) -> None:
        fetch(self.s, self.group, self.topics[0], 0, 1, 2, require_stable=self.some(True, False))

    def delete_offsets(self) -> None:
        partitions = [{"partition_index": self.random.randrange(2)}]
        self.s.ask("OffsetDelete", 0, group_id=self.group, topics=[{"name": self.topics[0], "partitions": partitions}])

    def produce(self) -> None:
        values = [b"%d" % self.random.randrange(100) for _ in range(self.random.randrange(1, 4))]
        fields = to_partition(self.topic, batch_of(*values), acks=self.some(-1, 1, 5))
        self.s.ask("Produce", 9, **fields)

    def read(self) -> None:
        read(
            self.s,
            self.topic,
            offset=self.random.randrange(6),
            isolation_level=self.some(0, 1),
            max_wait_ms=0,
        )

    def list_offsets(self) -> None:
        self.s.ask(
            "ListOffsets",
            7,
            isolation_level=self.some(0, 1),
            **offsets_at(self.topic, self.some(-1, -2), partition=self.random.randrange(2)),
        )

    def delete_records(self) -> None:
        partitions = [{"partition_index": 0, "offset": self.random.randrange(-1, 5)}]
        topics = [{"name": self.topic, "partitions": partitions}]
        self.s.ask("DeleteRecords", 2, timeout_ms=10_000, topics=topics)

    def configs(self) -> None:
        value = self.some("60000", "soon", "70000")
        topic = self.topics[0]
        response = alter(self.s, topic, ("retention.ms", 0, value))
        if response.responses[0].error_code == 0:
            describe(self.s, topic, "retention.ms", until=lambda described: value in repr(described))

    def init_producer(self) -> None:
        self.producer = producer(self.s, self.transactional_id, compared=True)
        self.sequence = 0

    def add_partitions(self) -> None:
        own = self.producer or {"producer_id": 1 << 40, "producer_epoch": 0}
        self.s.ask("AddPartitionsToTxn", 3, **add_partitions(self.transactional_id, own, self.topic))

    def write(self) -> None:
        if self.producer is None:
            return
        topic, name = self.topics[1], self.transactional_id
        self.s.ask("AddPartitionsToTxn", 3, **add_partitions(name, self.producer, topic))
        written = self.s.produce(
            topic,
            b"t",
            transactional_id=name,
            transactional=True,
            base_sequence=self.some(self.sequence, self.sequence, 9),
            **self.producer,
        )
        if written.responses[0].partition_responses[0].error_code == 0:
            self.sequence += 1

    def end(self) -> None:
        if self.producer is not None:
            end(self.s, self.transactional_id, self.producer, committed=self.some(True, False))


def random_check(seed: int) -> Check:
    """Return a check that sends random requests, always the same for a seed."""

    def script(s: CheckSession) -> None:
        play = _Play(s, Random(seed))
        for _ in range(STEPS):
            play.step()

    return Check(name=f"random-{seed}", source=f"seed {seed}", rule="Random requests.", script=script)


def recorded_on_embedded(check: Check, release: KafkaVersion) -> tuple[CheckStep, ...]:
    """Return the steps of a check on a new embedded cluster of a release."""
    with EmbeddedCluster(brokers=1, version=str(release)) as kafka:
        target = VerifyTarget(kafka.bootstrap_servers, prefix="quorate-")
        try:
            return tuple(record(target, "quorate-", [check])[check.name])
        finally:
            target.close()
