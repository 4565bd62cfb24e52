"""Assignors for aiokafka's consumer (0.14 or newer, `pip install 'quorate[aiokafka]'`).

Instances go into its `partition_assignment_strategy`:

```python
consumer = AIOKafkaConsumer("orders", group_id="billing", client_rack="a",
                            partition_assignment_strategy=[aiokafka.CooperativeSticky()])
```

Give the rack once, to the consumer (`client_rack`) or to the assignor; both then use it. One
instance may serve several consumers, because each works with its own copy.
`quorate.assignors.adapters.aiokafka_consumer` adds what aiokafka's consumer lacks.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.assignors.adapters import compatibility
from quorate.assignors.adapters.call_stack import find_caller
from quorate.assignors.adapters.membership import check_names, common_rack
from quorate.assignors.adapters.protocol import Joined, assignment_bytes, subscription_bytes
from quorate.assignors.adapters.shared import AdaptedAssignor, LagAwareConsumerAssignor, NamedConsumerAssignor

try:
    from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
    from aiokafka.errors import KafkaConfigurationError

    import quorate.assignors.adapters.aiokafka_requirements  # noqa: F401  # checks on import
    from quorate.assignors.adapters.aiokafka_consumer import Companion, FencedInstanceIdError
    from quorate.assignors.adapters.aiokafka_lags import fetcher_of
except ImportError as error:
    raise compatibility.import_failure("aiokafka", "0.14", error, install="pip install 'quorate[aiokafka]'") from error

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


INSTANCES = "give assignors of quorate as instances, not as classes: [CooperativeSticky()], not [CooperativeSticky]"


def options(*assignors: "Adapter", client_rack: str) -> dict[str, Any]:
    """Return keyword arguments for `AIOKafkaConsumer`: the assignors and the rack, both checked.

    Raises `TypeError` for an argument that is not an instance of an assignor, and `ValueError` for
    no assignor, two assignors of one name, or two different racks.
    """
    for assignor in assignors:
        if not isinstance(assignor, Adapter):
            raise TypeError(INSTANCES)
    if not assignors:
        raise ValueError("no assignor given; use options(CooperativeSticky(), client_rack=...)")
    check_names(assignor.name for assignor in assignors)
    rack = common_rack(client_rack, *(assignor.client_rack for assignor in assignors))
    mine = [
        Adapter(assignor.strategy.assignor, client_rack=rack, cooperative=assignor.strategy.cooperative)
        for assignor in assignors
    ]
    return {"client_rack": rack, "partition_assignment_strategy": mine}


class Adapter(AdaptedAssignor, AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Adapts any assignor of quorate to aiokafka.

    `cooperative`: consumers keep their partitions during a rebalance (KIP-429). By default only
    `cooperative-sticky` is cooperative. With `True`, any assignor that Java does not have becomes
    cooperative: the adapter assigns a partition only after its previous owner has revoked it, and
    the name in the group protocol is `cooperative-NAME`. A consumer is eager unless all its
    assignors are cooperative.
    """

    # Called by aiokafka's coordinator. In aiokafka's own assignors these are class methods, with
    # state shared by all consumers of a process.

    def __call__(self, *_: object) -> None:
        """Raise `TypeError`: kafka-python calls what it takes for a class of assignors."""
        raise TypeError(compatibility.other_client("aiokafka", "kafka_python"))

    def metadata(self, topics: Iterable[str] | None = None) -> bytes:
        """Return the subscription to send: version 3, as a Java member sends it.

        It has the rack, owned partitions, the generation, and user data. Raises
        `KafkaConfigurationError`.
        """
        if topics is None:  # called on the class, as aiokafka's own assignors are
            raise KafkaConfigurationError(INSTANCES)
        if self._companion is None:
            rebalance = find_caller(CoordinatorGroupRebalance)
            if rebalance is not None:
                mine: Adapter = _adopt(rebalance._coordinator, self)
                return mine.metadata(topics)
        return self._subscription(topics)

    def assign(self, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """Return the leader's assignment, from the topics and user data that aiokafka decoded.

        The leader of a running consumer uses `Companion` instead, which also reads racks, owned
        partitions and instance ids.
        """
        joined = [
            Joined(member, subscription_bytes(one.subscription, user_data=one.user_data or None))
            for member, one in members.items()
        ]
        assigned = self._lead(joined, Companion.view(cluster))
        return {
            member: ConsumerProtocolMemberAssignment.decode(assignment_bytes(assigned[member])) for member in assigned
        }

    def on_assignment(self, assignment: Any) -> None:
        """Store the assignment that the member received."""
        self._complete(assignment, -1 if self._companion is None else self._companion.generation())


def _adopt(coordinator: Any, adapter: Adapter) -> Adapter:
    """Attach a companion and copies of our assignors to a coordinator before its first join.

    Returns the copy of `adapter`. Raises `KafkaConfigurationError`.
    """
    ours = [assignor for assignor in coordinator._assignors if isinstance(assignor, Adapter)]
    if all(one._companion is None for one in ours):
        fetcher = fetcher_of(coordinator)
        given = None if fetcher is None else fetcher._client_rack
        try:
            check_names(assignor.name for assignor in coordinator._assignors)
            rack = common_rack(given, *(one.client_rack for one in ours))
        except ValueError as error:
            raise KafkaConfigurationError(str(error)) from None
        if rack and fetcher is not None:
            fetcher._client_rack = rack  # enables reads from replicas in the rack (KIP-392)
        cooperative = len(ours) == len(coordinator._assignors) and all(one.strategy.cooperative for one in ours)
        companion = Companion(coordinator, rack, cooperative=cooperative)
        coordinator._assignors = [
            assignor._for(companion) if isinstance(assignor, Adapter) else assignor
            for assignor in coordinator._assignors
        ]
    found: Adapter = coordinator._lookup_assignor(adapter.name)
    return found


class Range(NamedConsumerAssignor, Adapter):
    """Kafka's `range`: contiguous ranges per topic; rack-aware (KIP-881). Eager."""

    registered = "range"


class RoundRobin(NamedConsumerAssignor, Adapter):
    """Kafka's `roundrobin`: partitions in turn; ignores racks. Eager."""

    registered = "roundrobin"


class Sticky(NamedConsumerAssignor, Adapter):
    """Kafka's `sticky`: balanced, with as few moves as possible; rack-aware (KIP-881). Eager."""

    registered = "sticky"


class CooperativeSticky(NamedConsumerAssignor, Adapter):
    """Kafka's `cooperative-sticky`: as `sticky`, but cooperative (KIP-429)."""

    registered = "cooperative-sticky"


class LagAware(LagAwareConsumerAssignor, Adapter):
    """Assigns by lag (KIP-169, not in Kafka). Eager by default.

    Options are those of `quorate.assignors.lag_aware.LagAwareAssignor`. Without `lags`, the leader
    reads lags through its consumer's connections.
    """
