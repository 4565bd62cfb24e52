"""A consumer's membership in its group: its assignor as a strategy, and what it remembers from one rebalance to the next.

Knows no client.
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
from quorate.assignors.server.assignor import ServerAssignor
from quorate.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from quorate.assignors.topology import Topology

__all__ = ["Membership", "Strategy", "check_names", "common_rack", "subscribed_topics"]

log = logging.getLogger(__name__)

JAVA_NAMES = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})


@dataclass(frozen=True, slots=True)
class Strategy:
    """An assignor, and whether its members keep what they have while they rebalance (KIP-429)."""

    assignor: Assignor
    cooperative: bool

    @classmethod
    def of(cls, assignor: Assignor, cooperative: bool | None = None) -> "Strategy":
        """`cooperative`: `None` means as Kafka has it: `cooperative-sticky` is, others are not.

        Raises `TypeError`, `ValueError`.
        """
        if not isinstance(assignor, Assignor):
            raise TypeError(
                f"{assignor!r} is not an assignor: give an instance of a subclass of quorate.assignors.Assignor"
            )
        if isinstance(assignor, ServerAssignor):
            raise TypeError(
                f"{type(assignor).__qualname__} is for brokers, and goes by topic ids that clients do not have: "
                f"use one of the client side, or RackAwareUniformAssignor"
            )
        native = assignor.name == "cooperative-sticky"
        if cooperative not in (None, native) and assignor.name in JAVA_NAMES:
            kind = "cooperative" if native else "eager"
            raise ValueError(
                f"{assignor.name} is {kind} in every client, and members of a group must agree: leave `cooperative` out, "
                f"or use an assignor with a name of its own"
            )
        return cls(assignor, native if cooperative is None else cooperative)

    @property
    def name(self) -> str:
        """What the group protocol calls it.

        Members that keep partitions and members that do not must not meet under one name.
        """
        if self.cooperative and self.assignor.name not in JAVA_NAMES:
            return f"cooperative-{self.assignor.name}"
        return self.assignor.name

    @property
    def is_javas(self) -> bool:
        """Its members say what the Java client's members say, byte for byte."""
        return self.name in JAVA_NAMES

    def user_data(self, assigned: Sequence[tuple[str, int]] | None, generation: int) -> bytes | None:
        """What goes into the subscription's user data, from an assignor's `subscription_user_data(assigned, generation)`, if it has that method."""
        make = getattr(self.assignor, "subscription_user_data", None)
        return None if make is None else cast(bytes | None, make(assigned, generation))


@dataclass(slots=True)
class Membership:
    """What a consumer remembers.

    `rack`: `client.rack`; `assigned`: what it got last, in the leader's order, `None` before the
    first time.
    """

    group: str = "?"
    rack: str | None = None
    assigned: Sequence[tuple[str, int]] | None = None
    generation: int = -1
    watch: RackWatch = field(default_factory=RackWatch)
    lags: Lags | None = None
    """What the consumer read as the leader, for an assignor that goes by lags and has no source of
    its own; `None`: nothing reads them.
    """
    _newest: int = -1
    """The highest generation that it was told as the leader, which Kafka's sticky assignors
    remember.
    """

    def subscription(
        self, strategy: Strategy, topics: Iterable[str], *, owned: Iterable[tuple[str, int]] | None, generation: int
    ) -> bytes:
        """What to send with JoinGroup.

        `owned`: what the consumer keeps while it joins, `None` if it has given up everything.

        An eager Java member tells its partitions only in `sticky`'s user data; eager assignors that
        Java does not have get to see them in the subscription.
        """
        if owned is None:
            # To a cooperative leader "owned" means: not free.
            owned = () if strategy.is_javas or strategy.cooperative else self.assigned or ()
        return subscription_bytes(
            topics,
            user_data=strategy.user_data(self.assigned, self.generation),
            owned=owned,
            generation=generation,
            rack=self.rack,
        )

    def read(self, joined: Sequence[Joined]) -> dict[str, Member]:
        """The members that JoinGroup showed the leader.

        One that cannot be read is named in the log and subscribes to nothing.
        """
        return read_members(joined, group=self.group)

    def topology(self, members: Mapping[str, Member], view: ClusterView) -> Topology:
        """The members' topics, as the leader's metadata has them.

        The watch on their racks starts here.
        """
        topics = subscribed_topics(members)
        if self.rack:
            self.watch.start(view, topics)
        return self.watch.topology(view, topics)

    def lead(self, strategy: Strategy, members: Mapping[str, Member], topology: Topology) -> Assignment:
        """The leader's assignment. Never raises."""
        # Kafka's own cooperative assignor holds back by itself, by rules of its own.
        hold_back = strategy.cooperative and not strategy.is_javas
        assign: Callable[[GroupSpec], Assignment] = strategy.assignor.assign_group
        if isinstance(strategy.assignor, LagAwareAssignor) and strategy.assignor.source is None:
            if self.lags is None:
                log.warning(
                    "group %s: lags cannot be read, because no running consumer asks %s; partitions are assigned by their numbers only. Give it lags=",
                    self.group,
                    strategy.name,
                )
            assign = partial(strategy.assignor.assign_group, lags=self.lags or {})
        if isinstance(strategy.assignor, StickyAssignor | CooperativeStickyAssignor):
            self._newest = max([self._newest, *(member.generation for member in members.values())])
            assign = partial(strategy.assignor.assign_group, max_generation=self._newest)
        return leader.assign(
            strategy.assignor, members, topology, group=self.group, cooperative=hold_back, assign_group=assign
        )

    def complete(self, assigned: Iterable[tuple[str, int]], generation: int) -> None:
        """The group has agreed on an assignment."""
        self.assigned = tuple((topic, partition) for topic, partition in assigned)
        self.generation = generation

    def racks_changed(self, view: ClusterView) -> bool:
        """Whether the racks changed that this member's assignment as leader was made for, so that it has to join anew (KIP-881)."""
        change = self.watch.change(view)
        if change is None:
            return False
        log.info(
            "group %s: the leader rejoins, because the racks of partitions changed (KIP-881): %s", self.group, change
        )
        return True


def check_names(names: Iterable[str]) -> None:
    """Raises `ValueError` if two assignors of a consumer have one name, by which the group tells them apart."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(
                f"one consumer is given {times} assignors called {name!r}: a group tells them apart by their names, give it once (partition_assignment_strategy)"
            )


def subscribed_topics(members: Mapping[str, Member]) -> set[str]:
    """What the group subscribes to."""
    return {topic for member in members.values() for topic in member.topics}


def common_rack(consumer: str | None, *assignors: str | None) -> str | None:
    """The rack of a consumer, given to it or to its assignors.

    Raises `ValueError` if they differ.
    """
    racks = dict.fromkeys(rack for rack in (consumer, *assignors) if rack)
    if len(racks) > 1:
        raise ValueError(
            f"one consumer is given the racks {' and '.join(map(repr, racks))}: a consumer has one, give it once (client_rack)"
        )
    return next(iter(racks), None)
