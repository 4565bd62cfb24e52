"""`Crowd`: a group whose members use one client library, to run a scenario with all of them.

kafka-python and aiokafka are members of classic groups with quorate's cooperative-sticky assignor
(or another one). Members of KIP-848 groups are confluent-kafka, Java's consumer (`java`) and
quorate's (`quorate`, `process` in a process of its own, and `quorate-aiokafka`).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any, Self

from aiokafka.helpers import create_ssl_context

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster, ClusterError
from tests.assignors.adapters import live
from tests.integration.groups import (
    Deliveries,
    Load,
    Member,
    TopicPartitions,
    all_of,
    committed,
    described,
    given_first,
    settled,
)
from tests.integration.history import history
from tests.integration.limits import LIMIT_MS

SESSION_MS = 6_000
"""Session timeout of groups that must detect a lost member within a test."""

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")

CONSUMER_PROTOCOL = ("confluent-kafka", "java", "process", "quorate", "quorate-aiokafka")
"""Clients whose heartbeats the brokers configure."""

KINDS = {
    "aiokafka": live.Aio,
    "process": live.ConsumerProtocolProcess,
    "quorate": live.ConsumerProtocol,
    "quorate-aiokafka": live.AioConsumerProtocol,
}


def aiokafka_config(cluster: Cluster) -> dict[str, Any]:
    """Return the configuration for aiokafka's clients, including security."""
    config = dict(cluster.client_config)
    if "ssl_cafile" in config:
        config["ssl_context"] = create_ssl_context(cafile=config.pop("ssl_cafile"))
    return config


class Crowd:
    """The members of one group, all of one client, by names.

    What happened to them is in `deliveries`.

    `session_timeout_ms` is the group's; `assignor` is the name of an adapter (classic groups only).
    """

    def __init__(
        self,
        client: str,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout_ms: int = 30_000,
        assignor: str = "CooperativeSticky",
    ) -> None:
        self.client, self.cluster, self.group, self.topics = client, cluster, group, list(topics)
        self.deliveries = Deliveries()
        self.members: dict[str, Any] = {}
        """Those that run, by name."""
        self.session_timeout_ms = session_timeout_ms
        self._assignor = assignor
        self._ever: list[Any] = []
        if client in CONSUMER_PROTOCOL:
            cluster.set_config(
                f"group:{group}",
                {"consumer.session.timeout.ms": str(session_timeout_ms), "consumer.heartbeat.interval.ms": "500"},
            )

    def start(self, name: str, *, instance: str | None = None, client: str | None = None, **config: Any) -> Any:
        """Start a member.

        `instance`: its `group.instance.id`. `client`: another client library. `config`: configs by
        the client's own names.
        """
        client = client or self.client
        if client == "java":
            member: Any = live.Java(self.cluster, self.group, self.topics, None, instance=instance, **config)
            self._watch(member, name)
            member.__enter__()
        elif client == "confluent-kafka":
            given_first(self.members.values())
            member = Member(
                self.cluster,
                self.group,
                self.topics,
                name=name,
                instance_id=instance or "",
                deliveries=self.deliveries,
                **config,
            )
        else:
            classic = {
                "session_timeout_ms": self.session_timeout_ms,
                "enable_auto_commit": True,
                "auto_commit_interval_ms": 500,
                "client_id": name,
                **({"group_instance_id": instance} if instance else {}),
                **config,
            }
            adapters: Any = aiokafka if client == "aiokafka" else kafka_python
            kind: Any = KINDS.get(client, live.KafkaPython)
            if client in ("aiokafka", "quorate-aiokafka"):
                classic = {**aiokafka_config(self.cluster), **classic}
            elif client == "process":
                del classic["session_timeout_ms"]
            else:
                classic = {**self.cluster.client_config, **classic}
                classic["default_offset_commit_callback"] = self._on_commit(name)
            assignors = () if client in CONSUMER_PROTOCOL else (getattr(adapters, self._assignor)(),)
            member = kind(self.cluster, self.group, self.topics, *assignors, **classic)
            # If another member has ended without LeaveGroup (kafka-python does, while commits are
            # in flight), a rebalance lasts until its session timeout, and aiokafka does not close
            # during a rebalance.
            member.ends_within_s += self.session_timeout_ms / 1000
            self._watch(member, name)
            member.__enter__()
        self.members[name] = member
        self._ever.append(member)
        return member

    def stop(self, name: str) -> None:
        """Close a member as a program does that ends."""
        self.members.pop(name).close()

    def assigned(self) -> dict[str, TopicPartitions]:
        """Return the assigned partitions of each member."""
        return {name: member.assigned for name, member in self.members.items()}

    def settle(self, expected: TopicPartitions, *, timeout_ms: int = LIMIT_MS) -> None:
        """Wait until the members share these partitions. Fails at once if one of them has ended."""
        try:
            settled(_Alive(self.members.values()), expected, timeout_ms=timeout_ms)
        except ClusterError as error:
            have = {name: sorted(number for _, number in those) for name, those in self.assigned().items()}
            group = described(self.cluster, self.group)
            raise ClusterError(f"{self.client}: {error}", f"they have {have}; the group: {group}") from None

    def consumed(self) -> set[tuple[tuple[str, int], int]]:
        """Return partition and number of consumed messages of `Load` and `produce`."""
        values = {(at, int(value)) for at, those in list(self.deliveries.values.items()) for value in list(those)}
        # A message's number is its offset.
        return values | {(at, offset) for one in self._ever for at, offset, _ in list(getattr(one, "records", ()))}

    def wait_until_consumed(
        self, expected: Iterable[tuple[str, int]], count: int, *, timeout_ms: int = LIMIT_MS
    ) -> None:
        """Wait until every one of `count` messages of each partition was consumed.

        Fails at once if a member has ended.
        """
        everything = {(at, number) for at in expected for number in range(count)}

        def have_all() -> bool:
            list(_Alive(self.members.values()))
            return self.consumed() >= everything

        wait_for(f"{self.group} has consumed everything", have_all, timeout_ms)

    def _on_commit(self, name: str) -> Callable[[Any, Any], None]:
        def done(offsets: Any, result: Any) -> None:
            if isinstance(result, Exception):
                self.deliveries.refused.append((name, type(result).__name__))
            else:
                self.deliveries.acknowledged(((at.topic, at.partition), one.offset) for at, one in offsets.items())

        return done

    def _watch(self, member: live.Member, name: str) -> None:
        note, close = member._note, member.close

        def noted(kind: str, partitions: Any) -> None:
            note(kind, partitions)
            pairs = [(at.topic, at.partition) for at in partitions]
            (self.deliveries.given if kind == "assigned" else self.deliveries.taken)(name, pairs)

        def closed() -> None:
            close()
            # A consumer that closes does not always call its listener.
            self.deliveries.left(name)

        member._note = noted  # type: ignore[method-assign]
        member.close = closed  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        """End all members."""
        with ExitStack() as all_of_them:
            for member in self._ever:
                all_of_them.callback(member.close)

    def __exit__(self, *_: object) -> None:
        self.close()


class Crowds:
    """A group of each client on one topic, all with the same coordinator, and a producer."""

    def __init__(
        self, cluster: Cluster, topic: str, group: str, *, partitions: int = 6, session_timeout_ms: int = SESSION_MS
    ) -> None:
        self.cluster, self.topic = cluster, topic
        self.everything = all_of(topic, partitions)
        self._stack = ExitStack()
        # Groups of one partition of __consumer_offsets have one coordinator.
        first = cluster.offsets_partition_of(f"{group}-0")
        ids = (one for one in (f"{group}-{number}" for number in count()) if cluster.offsets_partition_of(one) == first)
        self.each = [
            self._stack.enter_context(Crowd(client, cluster, group_id, [topic], session_timeout_ms=session_timeout_ms))
            for client, group_id in zip(CLIENTS, ids, strict=False)
        ]
        self.load = self._stack.enter_context(Load(cluster, topic, partitions))

    @property
    def coordinator(self) -> int:
        return self.cluster.coordinator_of(self.each[0].group)

    def start(self, *names: str) -> None:
        for crowd in self.each:
            for name in names:
                crowd.start(name)
        self.settle()

    def settle(self) -> None:
        for crowd in self.each:
            crowd.settle(self.everything)

    def end_well(self) -> None:
        """Check that all messages were consumed and committed, and the coordinators' records.

        All scenarios of `Crowds` stop coordinators.
        """
        sent = self.load.stop()
        for crowd in self.each:
            crowd.wait_until_consumed(self.everything, sent)
            check(crowd, dict.fromkeys(self.everything, sent), coordinator_failed=True)
            # No member has an old assignment.
            wait_for(
                f"members of {crowd.client} have received their assignments",
                lambda crowd=crowd: crowd.deliveries.held == crowd.assigned(),
                LIMIT_MS,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def check_overlaps(crowd: Crowd) -> None:
    """Check that members received no partition while another one still had it.

    Not with librdkafka: on a busy machine 2.16.0 reports, while it is given its first partitions,
    that it owns none, and the coordinator gives them to others.
    """
    assert crowd.client == "confluent-kafka" or crowd.deliveries.overlaps == [], crowd.client


def check(crowd: Crowd, offsets: dict[tuple[str, int], int], *, coordinator_failed: bool = False) -> None:
    """Check that no partition was owned twice, and that `offsets` are committed in the end.

    Commits do not go back. Those of librdkafka may if the coordinator failed: it repeats failed
    commits, also after newer ones (`tests/cluster/test_faults.py` shows it). The next commit is a
    newer one.
    """
    wait_for(
        f"{crowd.client} has committed what it consumed",
        lambda: committed(crowd.cluster, crowd.group) == offsets,
        LIMIT_MS,
    )
    past = history(crowd.cluster, crowd.group)
    assert past.owned_twice == [], (crowd.client, past.owned_twice)
    for at, acknowledged in crowd.deliveries.committed.items():
        assert max(past.commits[at]) >= acknowledged, (crowd.client, at)
    if not (coordinator_failed and any(isinstance(member, Member) for member in crowd._ever)):
        assert past.steps_back() == [], (crowd.client, past.steps_back())


class _Alive(list[Any]):
    """Members that are checked for failures before their assignments are read."""

    def __iter__(self) -> Any:
        for member in super().__iter__():
            if isinstance(member, live.Member) and member.error is not None:
                raise AssertionError(f"{member!r} ended") from member.error
            yield member
