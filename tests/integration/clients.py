"""Groups of one client each, told apart by the client's name, so that a scenario can be run with all of them: `Crowd`.

kafka-python and aiokafka are members of classic groups with quorate's cooperative-sticky assignor (or another one), confluent-kafka of KIP-848 groups.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from quorate.assignors.adapters import aiokafka, kafka_python
from quorate.integration import Cluster
from quorate.integration.waiting import wait_for
from tests.assignors.adapters import live
from tests.integration.groups import Deliveries, Member, TopicPartitions, settled

__all__ = ["CLIENTS", "Crowd"]

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")


class Crowd:
    """The members of one group, all of one client, by names. What happened to them is in `deliveries`.

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
        if client == "confluent-kafka":
            cluster.set_config(
                f"group:{group}",
                {"consumer.session.timeout.ms": str(session_timeout_ms), "consumer.heartbeat.interval.ms": "500"},
            )

    def start(self, name: str, *, instance: str | None = None, **config: Any) -> Any:
        """A new member. `instance`: its `group.instance.id`; `config`: further configuration in the client's own names."""
        if self.client == "confluent-kafka":
            member: Any = Member(
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
            adapters: Any = kafka_python if self.client == "kafka-python" else aiokafka
            kind: Any = live.KafkaPython if self.client == "kafka-python" else live.Aio
            if self.client == "kafka-python":
                classic = {**self.cluster.client_config, **classic}
                classic["default_offset_commit_callback"] = self._on_commit(name)
            member = kind(self.cluster, self.group, self.topics, getattr(adapters, self._assignor)(), **classic)
            self._watch(member, name)
            member.__enter__()
        self.members[name] = member
        self._ever.append(member)
        return member

    def stop(self, name: str) -> None:
        """Close a member as a program does that ends."""
        self.members.pop(name).close()

    def assigned(self) -> dict[str, TopicPartitions]:
        """What each member has now."""
        return {name: member.assigned for name, member in self.members.items()}

    def settle(self, expected: TopicPartitions, *, timeout_ms: int = 90_000) -> None:
        """Wait until the members share these partitions. Fails at once if one of them has ended."""
        settled(_Alive(self.members.values()), expected, timeout_ms=timeout_ms)

    def consumed(self) -> set[tuple[tuple[str, int], int]]:
        """Partition and number of every message that any member ever had, of those that `Load` and `produce` send."""
        values = {(at, int(value)) for at, those in list(self.deliveries.values.items()) for value in list(those)}
        # A message's number is its offset.
        return values | {(at, offset) for one in self._ever for at, offset, _ in list(getattr(one, "records", ()))}

    def wait_until_consumed(self, expected: Iterable[tuple[str, int]], count: int, *, timeout_ms: int = 90_000) -> None:
        """Wait until every one of `count` messages of each partition was consumed."""
        everything = {(at, number) for at in expected for number in range(count)}
        wait_for(f"{self.group} has consumed everything", lambda: self.consumed() >= everything, timeout_ms)

    def _on_commit(self, name: str) -> Callable[[Any, Any], None]:
        def done(offsets: Any, answer: Any) -> None:
            if isinstance(answer, Exception):
                self.deliveries.refused.append((name, type(answer).__name__))
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
            # A consumer that ends tells its listener nothing, or not always.
            self.deliveries.taken(name, list(self.deliveries.owners))

        member._note = noted  # type: ignore[method-assign]
        member.close = closed  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as all_of_them:
            for member in self._ever:
                all_of_them.callback(member.close)


class _Alive(list[Any]):
    """Members, each of which is asked whether it has ended before what it has is looked at."""

    def __iter__(self) -> Any:
        for member in super().__iter__():
            if isinstance(member, live.Member) and member.error is not None:
                raise AssertionError(f"{member!r} ended") from member.error
            yield member
