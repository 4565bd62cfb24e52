"""Assignors for aiokafka's consumer (0.14 or newer, `pip install 'quorate[aiokafka]'`): instances for its `partition_assignment_strategy`.

```python
consumer = AIOKafkaConsumer("orders", group_id="billing", bootstrap_servers=servers, client_rack="a",
                            partition_assignment_strategy=[aiokafka.CooperativeSticky()])
```

The rack is given once: to the consumer (`client_rack`) or to the assignor; either way both know it.
An instance may serve any number of consumers: each works with a copy of its own. What aiokafka's
consumer does not do by itself is in `quorate.assignors.adapters.aiokafka_consumer`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.assignors.adapters import fits
from quorate.assignors.adapters.callers import calling
from quorate.assignors.adapters.membership import check_names, common_rack
from quorate.assignors.adapters.protocol import Joined, assignment_bytes, subscription_bytes
from quorate.assignors.adapters.shared import ConsumerAssignor, LagAwareConsumerAssignor, NamedConsumerAssignor

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
    from aiokafka.errors import KafkaConfigurationError

    import quorate.assignors.adapters.aiokafka_needs  # noqa: F401  # which checks
    from quorate.assignors.adapters.aiokafka_consumer import Companion, FencedInstanceIdError
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

    Raises `TypeError` for what is not an instance of an assignor, and `ValueError` for none, for
    two of one name, and for two racks.
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


class Adapter(ConsumerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Any assignor of quorate's as one of aiokafka's.

    `cooperative`: consumers keep what they have while they rebalance (KIP-429). Left out,
    `cooperative-sticky` is cooperative and others are not; with `True` any other than Java's is,
    and the adapter sees to it that nothing is given away before it is free. The group knows it as
    `cooperative-NAME` then. A consumer whose assignors are not all cooperative is eager.
    """

    # What aiokafka's coordinator calls; in aiokafka's own assignors these are class methods, and
    # their state is shared by all consumers of a process.

    def metadata(self, topics: Iterable[str] | None = None) -> bytes:
        """The subscription to send, version 3: with the rack, what the consumer keeps, the generation, and user data, as a Java member sends it."""
        if topics is None:  # called on the class, as aiokafka's own assignors are
            raise KafkaConfigurationError(INSTANCES)
        if self._companion is None:
            rebalance = calling(CoordinatorGroupRebalance)
            if rebalance is not None:
                mine: Adapter = _adopt(rebalance._coordinator, self)
                return mine.metadata(topics)
        return self._subscription(topics)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """The leader's assignment from what aiokafka reads of subscriptions: topics and user data.

        A running consumer's leader goes another way (`Companion`), on which racks, owned partitions
        and instance ids are seen.
        """
        joined = [
            Joined(member, subscription_bytes(one.subscription, user_data=one.user_data or None))
            for member, one in members.items()
        ]
        answer = self._lead(joined, Companion.view(cluster))
        return {member: ConsumerProtocolMemberAssignment.decode(assignment_bytes(answer[member])) for member in answer}

    def on_assignment(self, assignment: Any) -> None:
        """Remember what the group agreed on."""
        self._complete(assignment, -1 if self._companion is None else self._companion.generation())


def _adopt(coordinator: Any, asking: Adapter) -> Adapter:
    """Give a coordinator that joins for the first time its companion, and copies of its own of our assignors; answers the copy of `asking`.

    Raises `KafkaConfigurationError`.
    """
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


class Range(NamedConsumerAssignor, Adapter):
    """Kafka's `range`: per topic, contiguous ranges; local ones where racks are known (KIP-881).

    Eager.
    """

    registered = "range"


class RoundRobin(NamedConsumerAssignor, Adapter):
    """Kafka's `roundrobin`: partitions dealt out in turn; knows no racks. Eager."""

    registered = "roundrobin"


class Sticky(NamedConsumerAssignor, Adapter):
    """Kafka's `sticky`: balanced, with as few partitions moved as possible; local ones where racks are known (KIP-881).

    Eager.
    """

    registered = "sticky"


class CooperativeSticky(NamedConsumerAssignor, Adapter):
    """Kafka's `cooperative-sticky`: like `sticky`, and members keep reading what they keep (KIP-429)."""

    registered = "cooperative-sticky"


class LagAware(LagAwareConsumerAssignor, Adapter):
    """By lag (KIP-169, never released with Kafka); the options are those of `quorate.assignors.lag_aware.LagAwareAssignor`.

    Eager, if not told otherwise.

    Without `lags`, the leader reads them by its consumer's own connections.
    """
