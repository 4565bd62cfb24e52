"""A consumer's membership in its group: its assignor, and state between rebalances.

Independent of any client library.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from quorate.assignors.adapters import leader
from quorate.assignors.adapters.protocol import Joined, read_members, subscription_bytes
from quorate.assignors.adapters.racks import ClusterView, RackWatch
from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.lags import Lags
from quorate.assignors.model import Assignment, Member
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from quorate.assignors.topology import Topology

log = logging.getLogger(__name__)

JAVA_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})


@dataclass(frozen=True, slots=True)
class Strategy:
    """An assignor, and whether members keep their partitions during a rebalance (KIP-429)."""

    assignor: Assignor
    cooperative: bool

    @classmethod
    def of(cls, assignor: Assignor, cooperative: bool | None = None) -> "Strategy":
        """Create a strategy; by default only `cooperative-sticky` is cooperative, as in Kafka.

        Raises `TypeError` for an assignor that clients cannot use, and `ValueError` if
        `cooperative` contradicts Kafka's assignor of that name.
        """
        if not isinstance(assignor, Assignor):
            raise TypeError(
                f"{assignor!r} is not an assignor; give an instance of a subclass of quorate.assignors.Assignor"
            )
        if isinstance(assignor, KafkaServerAssignor):
            raise TypeError(
                f"{type(assignor).__qualname__} is for brokers and needs topic ids, which clients do not have; "
                f"use a client-side assignor, or RackAwareUniformAssignor"
            )
        cooperative_sticky = assignor.name == "cooperative-sticky"
        if cooperative not in (None, cooperative_sticky) and assignor.name in JAVA_ASSIGNORS:
            kind = "cooperative" if cooperative_sticky else "eager"
            raise ValueError(
                f"{assignor.name} is {kind} in every client, and members of a group must agree; "
                f"leave `cooperative` out, or use an assignor with another name"
            )
        return cls(assignor, cooperative_sticky if cooperative is None else cooperative)

    @property
    def name(self) -> str:
        """The name in the group protocol.

        Cooperative and eager members must not use the same name, so cooperative ones are prefixed.
        """
        if self.cooperative and self.assignor.name not in JAVA_ASSIGNORS:
            return f"cooperative-{self.assignor.name}"
        return self.assignor.name

    @property
    def is_java_assignor(self) -> bool:
        """Whether members send the same bytes as members of the Java client."""
        return self.name in JAVA_ASSIGNORS

    def user_data(self, assigned: Sequence[tuple[str, int]] | None, generation: int) -> bytes | None:
        """Return the assignor's user data; `None` if it has no method `subscription_user_data`."""
        user_data_of = getattr(self.assignor, "subscription_user_data", None)
        return None if user_data_of is None else cast(bytes | None, user_data_of(assigned, generation))


@dataclass(slots=True)
class Membership:
    """A consumer's state between rebalances.

    `rack`: `client.rack`. `assigned`: the last assignment, in the leader's order; `None` before the
    first one.
    """

    group: str = "?"
    rack: str | None = None
    assigned: Sequence[tuple[str, int]] | None = None
    generation: int = -1
    watch: RackWatch = field(default_factory=RackWatch)
    lags: Lags | None = None
    """Lags that the consumer read as the leader, for a lag-aware assignor without a source.

    `None` if no consumer reads them.
    """
    _max_generation: int = -1
    """The highest generation of members seen as the leader; Kafka's sticky assignors store it."""

    def subscription(
        self, strategy: Strategy, topics: Iterable[str], *, owned: Iterable[tuple[str, int]] | None, generation: int
    ) -> bytes:
        """Return the subscription to send with JoinGroup.

        `owned`: the partitions that the consumer keeps while it joins; `None` if it revoked all.

        An eager Java member sends its partitions only in the user data of `sticky`. Eager assignors
        that only quorate has read them from the subscription.
        """
        if owned is None:
            # A cooperative leader would not assign reported partitions to other members.
            owned = () if strategy.is_java_assignor or strategy.cooperative else self.assigned or ()
        return subscription_bytes(
            topics,
            user_data=strategy.user_data(self.assigned, self.generation),
            owned=owned,
            generation=generation,
            rack=self.rack,
        )

    def read(self, joined: Sequence[Joined]) -> dict[str, Member]:
        """Decode the members of a JoinGroup response.

        A member that cannot be decoded is logged and has an empty subscription.
        """
        return read_members(joined, group=self.group)

    def topology(self, members: Mapping[str, Member], view: ClusterView) -> Topology:
        """Return the members' topics from the leader's metadata, and start watching their racks."""
        topics = subscribed_topics(members)
        if self.rack:
            self.watch.start(view, topics)
        return self.watch.topology(view, topics)

    def assign(self, strategy: Strategy, members: Mapping[str, Member], topology: Topology) -> Assignment:
        """Compute the assignment, as the group's leader. Never raises."""
        # Kafka's `cooperative-sticky` withholds partitions itself, by its own rules.
        hold_back = strategy.cooperative and not strategy.is_java_assignor
        assign_group: Callable[[GroupSpec], Assignment] = strategy.assignor.assign_group
        if isinstance(strategy.assignor, LagAwareAssignor) and strategy.assignor.source is None:
            if self.lags is None:
                log.warning(
                    "group %s: lags cannot be read, because %s was not called by a running consumer; "
                    "partitions are assigned by partition counts only. Give it lags=",
                    self.group,
                    strategy.name,
                )
            assign_group = partial(strategy.assignor.assign_group, lags=self.lags or {})
        if isinstance(strategy.assignor, StickyAssignor | CooperativeStickyAssignor):
            self._max_generation = max([self._max_generation, *(member.generation for member in members.values())])
            assign_group = partial(strategy.assignor.assign_group, max_generation=self._max_generation)
        return leader.assign(
            strategy.assignor, members, topology, group=self.group, cooperative=hold_back, assign_group=assign_group
        )

    def complete(self, assigned: Iterable[tuple[str, int]], generation: int) -> None:
        """Store the assignment that the member received."""
        self.assigned = tuple((topic, partition) for topic, partition in assigned)
        self.generation = generation

    def racks_changed(self, view: ClusterView) -> bool:
        """Return whether the leader must rejoin because racks changed (KIP-881)."""
        change = self.watch.change(view)
        if change is None:
            return False
        log.info(
            "group %s: the leader rejoins because the racks of partitions changed (KIP-881): %s", self.group, change
        )
        return True


def check_names(names: Iterable[str]) -> None:
    """Raise `ValueError` if two assignors of a consumer have the same name."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(
                f"{times} assignors of one consumer are called {name!r}, but a group identifies them by name; "
                "give each once (partition_assignment_strategy)"
            )


def subscribed_topics(members: Mapping[str, Member]) -> set[str]:
    """Return all topics that members subscribe to."""
    return {topic for member in members.values() for topic in member.topics}


def common_rack(consumer: str | None, *assignors: str | None) -> str | None:
    """Return the rack that was configured for a consumer or its assignors.

    Raises `ValueError` if there is more than one.
    """
    racks = dict.fromkeys(rack for rack in (consumer, *assignors) if rack)
    if len(racks) > 1:
        raise ValueError(
            f"one consumer has the racks {' and '.join(map(repr, racks))}; give one rack, once (client_rack)"
        )
    return next(iter(racks), None)
