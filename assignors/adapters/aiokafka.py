"""Assignors for aiokafka's consumer (0.14 or newer, `pip install 'quorate[aiokafka]'`): instances for its `partition_assignment_strategy`.

```python
consumer = AIOKafkaConsumer("orders", group_id="billing", bootstrap_servers=servers, client_rack="a",
                            partition_assignment_strategy=[aiokafka.CooperativeSticky()])
```

The rack is given once: to the consumer (`client_rack`) or to the assignor; either way both know it. An instance may serve any number of consumers: each works
with a copy of its own. What aiokafka's consumer does not do by itself is in `quorate.assignors.adapters.aiokafka_consumer`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.assignors.adapters import fits
from quorate.assignors.adapters.callers import calling
from quorate.assignors.adapters.membership import Membership, Strategy, check_names, common_rack
from quorate.assignors.adapters.protocol import Joined, assignment_bytes, subscription_bytes
from quorate.assignors.assignor import Assignor
from quorate.assignors.registry import client_assignor

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
    from aiokafka.errors import KafkaConfigurationError

    import quorate.assignors.adapters.aiokafka_needs  # noqa: F401  # which checks
    from quorate.assignors.adapters.aiokafka_consumer import Companion, FencedInstanceIdError, cluster_view
    from quorate.assignors.adapters.aiokafka_lags import fetcher_of
except ImportError as error:
    raise fits.refusal("aiokafka", "0.14", error, install="pip install 'quorate[aiokafka]'") from error

__all__ = [
    "Adapter",
    "CooperativeSticky",
    "FencedInstanceIdError",
    "LagAware",
    "Range",
    "RoundRobin",
    "Sticky",
    "options",
]


INSTANCES = (
    "assignors of quorate are given as instances, not as classes: [CooperativeSticky()], not [CooperativeSticky]"
)


def options(*assignors: "Adapter", client_rack: str) -> dict[str, Any]:
    """Keyword arguments for `AIOKafkaConsumer`, checked before there is a consumer: the assignors and the rack.

    Raises `TypeError` for what is not an instance of an assignor, and `ValueError` for none, for two of one name, and for two racks.
    """
    for one in assignors:
        if not isinstance(one, Adapter):
            raise TypeError(INSTANCES)
    if not assignors:
        raise ValueError("no assignor is given: options(CooperativeSticky(), client_rack=...)")
    check_names(one.name for one in assignors)
    rack = common_rack(client_rack, *(one.client_rack for one in assignors))
    mine = [Adapter(one.strategy.assignor, client_rack=rack, cooperative=one.strategy.cooperative) for one in assignors]
    return {"client_rack": rack, "partition_assignment_strategy": mine}


class Adapter(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Any assignor of quorate's as one of aiokafka's.

    `cooperative`: consumers keep what they have while they rebalance (KIP-429). Left out, `cooperative-sticky` is cooperative and others are not; with `True` any
    other than Java's is, and the adapter sees to it that nothing is given away before it is free. The group knows it as `cooperative-NAME` then.
    A consumer whose assignors are not all cooperative is eager.
    """

    def __init__(self, assignor: Assignor, *, client_rack: str | None = None, cooperative: bool | None = None) -> None:
        self.strategy = Strategy.of(assignor, cooperative)
        self.client_rack = client_rack
        self.membership = Membership(rack=client_rack or None)
        self._companion: Companion | None = None

    def __repr__(self) -> str:
        return f"<{self.name} of quorate, client_rack={self.membership.rack!r}>"

    @property
    def name(self) -> str:
        """What the group protocol calls it."""
        return self.strategy.name

    # What aiokafka's coordinator calls; in aiokafka's own assignors these are class methods, and their state is shared by all consumers of a process.

    def metadata(self, topics: Iterable[str] | None = None) -> bytes:
        """The subscription to send, version 3: with the rack, what the consumer keeps, the generation, and user data, as a Java member sends it."""
        if topics is None:  # called on the class, as aiokafka's own assignors are
            raise KafkaConfigurationError(INSTANCES)
        if self._companion is None:
            rebalance = calling(CoordinatorGroupRebalance)
            if rebalance is not None:
                mine: Adapter = _adopt(rebalance._coordinator, self)
                return mine.metadata(topics)
        self.membership.watch.stop()
        if self._companion is not None:
            owned, generation = self._companion.owned(), self._companion.generation()
        else:
            owned = list(self.membership.assigned or ()) if self.strategy.cooperative else None
            generation = self.membership.generation
        return self.membership.subscription(self.strategy, topics, owned=owned, generation=generation)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """The leader's assignment from what aiokafka reads of subscriptions: topics and user data.

        A running consumer's leader goes another way (`Companion`), on which racks, owned partitions and instance ids are seen.
        """
        joined = [
            Joined(member, subscription_bytes(one.subscription, user_data=one.user_data or None))
            for member, one in members.items()
        ]
        found = self.membership.read(joined)
        topology = self.membership.topology(found, cluster_view(cluster))
        answer = self.membership.lead(self.strategy, found, topology)
        return {member: ConsumerProtocolMemberAssignment.decode(assignment_bytes(answer[member])) for member in answer}

    def on_assignment(self, assignment: Any) -> None:
        """Remember what the group agreed on."""
        generation = -1 if self._companion is None else self._companion.generation()
        self.membership.complete(assignment.partitions(), generation)
        if self._companion is not None:
            self._companion.check_racks()

    def _for(self, companion: Companion) -> "Adapter":
        """The same assignor, for one consumer."""
        other = Adapter(self.strategy.assignor, client_rack=self.client_rack, cooperative=self.strategy.cooperative)
        other._companion = companion
        other.membership = companion.membership
        return other


def _adopt(coordinator: Any, asking: Adapter) -> Adapter:
    """Give a coordinator that joins for the first time its companion, and copies of its own of our assignors; answers the copy of `asking`. Raises `KafkaConfigurationError`."""
    ours = [one for one in coordinator._assignors if isinstance(one, Adapter)]
    if all(one._companion is None for one in ours):
        fetcher = fetcher_of(coordinator)
        given = None if fetcher is None else fetcher._client_rack
        try:
            check_names(one.name for one in coordinator._assignors)
            rack = common_rack(given, *(one.client_rack for one in ours))
        except ValueError as error:
            raise KafkaConfigurationError(str(error)) from None
        if rack and fetcher is not None:
            fetcher._client_rack = rack  # so that it also reads from replicas in its rack (KIP-392)
        cooperative = len(ours) == len(coordinator._assignors) and all(one.strategy.cooperative for one in ours)
        companion = Companion(coordinator, rack, cooperative=cooperative)
        coordinator._assignors = [
            one._for(companion) if isinstance(one, Adapter) else one for one in coordinator._assignors
        ]
    found: Adapter = coordinator._lookup_assignor(asking.name)
    return found


class _Named(Adapter):
    """An assignor by its name in `quorate.assignors.registry`."""

    registered: str

    def __init__(self, *, client_rack: str | None = None, **options: Any) -> None:
        super().__init__(client_assignor(self.registered, **options), client_rack=client_rack)


class Range(_Named):
    """Kafka's `range`: per topic, contiguous ranges; local ones where racks are known (KIP-881). Eager."""

    registered = "range"


class RoundRobin(_Named):
    """Kafka's `roundrobin`: partitions dealt out in turn; knows no racks. Eager."""

    registered = "roundrobin"


class Sticky(_Named):
    """Kafka's `sticky`: balanced, with as few partitions moved as possible; local ones where racks are known (KIP-881). Eager."""

    registered = "sticky"


class CooperativeSticky(_Named):
    """Kafka's `cooperative-sticky`: like `sticky`, and members keep reading what they keep (KIP-429)."""

    registered = "cooperative-sticky"


class LagAware(Adapter):
    """By lag (KIP-169, never released with Kafka); the options are those of `quorate.assignors.lag_aware.LagAwareAssignor`. Eager, if not told otherwise.

    Without `lags`, the leader reads them by its consumer's own connections.
    """

    def __init__(self, *, client_rack: str | None = None, cooperative: bool = False, **options: Any) -> None:
        super().__init__(client_assignor("lag-aware", **options), client_rack=client_rack, cooperative=cooperative)
