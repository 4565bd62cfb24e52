"""Histories of groups for the assignors that Kafka lacks.

Members join, leave, return with partitions of an old generation, change racks and subscriptions;
topics grow and replicas move. Ownership is recorded here, independently of the assignors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from quorate.assignors import Assignment, Member, Topology
from quorate.assignors.topology import TopicPartition

RACKS = ("a", "b", "c")


@dataclass
class Consumer:
    """A member between rebalances."""

    topics: Sequence[str]
    rack: str | None
    owned: Sequence[TopicPartition] = ()
    generation: int = -1


@dataclass
class History:
    """A group.

    `topics`: the racks of each partition's replicas; `lags`: of each partition; `away`: members
    that missed the last rebalances.
    """

    rng: Random
    same: bool
    topics: dict[str, list[list[str]]] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    lags: dict[TopicPartition, int] = field(default_factory=dict)
    away: dict[str, Consumer] = field(default_factory=dict)
    holder: dict[TopicPartition, str] = field(default_factory=dict)
    generation: int = 0
    joined: int = 0

    @classmethod
    def begun(cls, rng: Random, *, same: bool, members: int = 6, most: int = 9) -> "History":
        """Create a group without owned partitions. `same`: equal subscriptions."""
        history = cls(rng, same)
        for number in range(rng.randint(1, 3)):
            history.topics[f"t{number}"] = [history._replicas() for _ in range(rng.randint(1, most))]
        for number in range(rng.randint(1, members)):
            history.consumers[f"m{number}"] = Consumer(history._some(), history._rack())
        history.read_on()
        return history

    @property
    def members(self) -> dict[str, Member]:
        """Return the members as they join."""
        return {
            name: Member(topics=one.topics, rack=one.rack, owned=one.owned, generation=one.generation)
            for name, one in self.consumers.items()
        }

    @property
    def topology(self) -> Topology:
        """Return the current topology."""
        return Topology.of(self.topics)

    def moved(self, assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
        """Count partitions whose owner is a member, still subscribes, and does not get them."""
        return sum(
            name in self.consumers and at.topic in self.consumers[name].topics and at not in assignment[name]
            for at, name in self.holder.items()
        )

    def take(self, assignment: Assignment) -> None:
        """Give the members their assignment."""
        self.generation += 1
        self.holder = {at: name for name, given in assignment.items() for at in given}
        for name, one in self.consumers.items():
            one.owned, one.generation = assignment[name], self.generation

    def change(self) -> None:
        """Make a change that causes a rebalance."""
        rng, names = self.rng, list(self.consumers)
        match rng.randrange(8):
            case 0 | 1:
                for _ in range(rng.randint(1, 3)):
                    self.joined += 1
                    self.consumers[f"{rng.choice('ln')}{self.joined}"] = Consumer(self._some(), self._rack())
            case 2 if len(names) > 1:
                del self.consumers[rng.choice(names)]
            case 3 if len(names) > 1:
                name = rng.choice(names)
                self.away[name] = self.consumers.pop(name)
            case 4 if self.away:
                name = rng.choice(list(self.away))
                self.consumers[name] = self.away.pop(name)
                if self.same:
                    self.consumers[name].topics = next(iter(self.consumers.values())).topics
            case 5:
                topic = rng.choice(list(self.topics))
                self.topics[topic] += [self._replicas() for _ in range(rng.randint(1, 3))]
            case 6:
                topic = rng.choice(list(self.topics))
                self.topics[topic][rng.randrange(len(self.topics[topic]))] = self._replicas()
            case _:
                one = self.consumers[rng.choice(names)]
                one.rack = self._rack()
                if not self.same:
                    one.topics = self._some()
        self.read_on()

    def read_on(self) -> None:
        """Let lags grow and shrink, as between rebalances."""
        for topic, partitions in self.topics.items():
            for number in range(len(partitions)):
                self.lags[TopicPartition(topic, number)] = self.rng.choice((0, 0, 1, 5, self.rng.randrange(1000)))

    def _some(self) -> list[str]:
        names = list(self.topics)
        return names if self.same else self.rng.sample(names, self.rng.randint(1, len(names)))

    def _rack(self) -> str | None:
        return self.rng.choice((*RACKS, *RACKS, None))

    def _replicas(self) -> list[str]:
        return self.rng.sample(RACKS, self.rng.randint(1, 2))
