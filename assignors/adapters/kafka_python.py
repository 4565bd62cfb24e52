"""Assignors for kafka-python's consumer.

Instances go into its `partition_assignment_strategy`:

```python
consumer = KafkaConsumer("orders", group_id="billing", client_rack="a",
                         partition_assignment_strategy=[kafka_python.CooperativeSticky()])
```

Give the rack once, to the consumer (`client_rack`) or to the assignor; both then use it. One
instance may serve several consumers, because each works with its own copy.
`quorate.assignors.adapters.kafka_python_consumer` adds what kafka-python's consumer lacks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quorate.assignors.adapters import compatibility
from quorate.assignors.adapters.call_stack import find_caller
from quorate.assignors.adapters.membership import check_names, common_rack
from quorate.assignors.adapters.protocol import VERSION, Joined, by_topic
from quorate.assignors.adapters.shared import AdaptedAssignor, LagAwareConsumerAssignor, NamedConsumerAssignor

try:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.errors import KafkaConfigurationError
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    from quorate.assignors.adapters.kafka_python_consumer import Companion
    from quorate.assignors.adapters.kafka_python_requirements import CLIENT, SUPPORTED
except ImportError as error:
    raise compatibility.import_failure(
        "kafka-python", "3.0", error, install="pip install 'kafka-python>=3.0'"
    ) from error

__all__ = ["Adapter", "CooperativeSticky", "LagAware", "Range", "RoundRobin", "Sticky"]


class Adapter(AdaptedAssignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Adapts any assignor of quorate to kafka-python.

    `cooperative`: consumers keep their partitions during a rebalance (KIP-429). By default only
    `cooperative-sticky` is cooperative. With `True`, any assignor that Java does not have becomes
    cooperative: the adapter assigns a partition only after its previous owner has revoked it, and
    the name in the group protocol is `cooperative-NAME`. A consumer is eager unless all its
    assignors are cooperative.
    """

    # Called by kafka-python's coordinator.

    def supported_protocols(self) -> list[Any]:
        """Return COOPERATIVE and EAGER for a cooperative assignor, otherwise EAGER.

        As in Java, this lets a group move from an eager assignor by rolling restarts. Raises
        `KafkaConfigurationError`.
        """
        if self._companion is None:
            coordinator = find_caller(ConsumerCoordinator)
            if coordinator is not None:
                _adopt(coordinator, find_caller(KafkaConsumer))
        if self.strategy.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription to send: version 3, as a Java member sends it.

        It has the rack, owned partitions, the generation, and user data.
        """
        if self._companion is None and find_caller(ConsumerCoordinator) is not None:
            raise compatibility.unsupported(
                CLIENT, SUPPORTED, "it did not call supported_protocols() before metadata()"
            )
        return ConsumerProtocolSubscription.decode(self._subscription(topics))

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """Return the leader's assignment. See `quorate.assignors.adapters.leader` for errors.

        Raises `TypeError` if another client calls it.
        """
        if isinstance(members, Mapping):  # as aiokafka calls it
            raise TypeError(compatibility.other_client("kafka_python", "aiokafka"))
        joined = [Joined(one.member_id, one.metadata.encode(), one.group_instance_id) for one in members]
        if self._companion is not None:
            self._companion.watch_metadata()
            joined = self._companion.as_joined(joined)
        assigned = self._lead(joined, Companion.view(cluster))
        return {
            member: ConsumerProtocolAssignment(
                VERSION, [(one.topic, list(one.partitions)) for one in by_topic(assigned[member])], None
            )
            for member in assigned
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Store the assignment that the member received."""
        self._complete(assignment, generation)


def _adopt(coordinator: Any, consumer: Any) -> None:
    """Attach a companion and copies of our assignors to a coordinator that is being created.

    Raises `KafkaConfigurationError`.
    """
    ours = {name: one for name, one in coordinator._assignors.items() if isinstance(one, Adapter)}
    given = consumer.config["client_rack"] if consumer is not None else None
    try:
        if len(coordinator._assignors) < len(coordinator.config["assignors"]):
            check_names(assignor.name for assignor in coordinator.config["assignors"])
        rack = common_rack(given, *(one.client_rack for one in ours.values()))
    except ValueError as error:
        raise KafkaConfigurationError(str(error)) from None
    if rack and not given and consumer is not None:
        # Enables reads from replicas in the rack (KIP-392). The fetcher has already copied the
        # config.
        consumer.config["client_rack"] = rack
        consumer._fetcher.config["client_rack"] = rack
    companion = Companion(coordinator, rack, consumer)
    for name, one in ours.items():
        coordinator._assignors[name] = one._for(companion)


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
