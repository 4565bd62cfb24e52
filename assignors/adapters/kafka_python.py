"""Assignors for kafka-python's consumer: instances for its `partition_assignment_strategy`.

```python
consumer = KafkaConsumer("orders", group_id="billing", client_rack="a",
                         partition_assignment_strategy=[kafka_python.CooperativeSticky()])
```

The rack is given once: to the consumer (`client_rack`) or to the assignor; either way both know it.
An instance may serve any number of consumers: each works with a copy of its own. What
kafka-python's consumer does not do by itself is in
`quorate.assignors.adapters.kafka_python_consumer`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from quorate.assignors.adapters import fits
from quorate.assignors.adapters.callers import calling
from quorate.assignors.adapters.membership import check_names, common_rack
from quorate.assignors.adapters.protocol import VERSION, Joined, by_topic
from quorate.assignors.adapters.shared import ConsumerAssignor, LagAwareConsumerAssignor, NamedConsumerAssignor

try:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.errors import KafkaConfigurationError
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    from quorate.assignors.adapters.kafka_python_consumer import Companion
    from quorate.assignors.adapters.kafka_python_needs import CLIENT, KNOWN
except ImportError as error:
    raise fits.refusal("kafka-python", "3.0", error, install="pip install 'kafka-python>=3.0'") from error

__all__ = ["Adapter", "CooperativeSticky", "LagAware", "Range", "RoundRobin", "Sticky"]


class Adapter(ConsumerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """Any assignor of quorate's as one of kafka-python's.

    `cooperative`: consumers keep what they have while they rebalance (KIP-429). Left out,
    `cooperative-sticky` is cooperative and others are not; with `True` any other than Java's is,
    and the adapter sees to it that nothing is given away before it is free. The group knows it as
    `cooperative-NAME` then. A consumer whose assignors are not all cooperative is eager.
    """

    # What kafka-python's coordinator calls.

    def supported_protocols(self) -> list[Any]:
        """COOPERATIVE and EAGER for a cooperative one, as in Java, so that a group can move from an eager assignor by rolling restarts."""
        if self._companion is None:
            coordinator = calling(ConsumerCoordinator)
            if coordinator is not None:
                _adopt(coordinator, calling(KafkaConsumer))
        if self.strategy.cooperative:
            return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """The subscription to send, version 3: with the rack, what the consumer keeps, the generation, and user data, as a Java member sends it."""
        if self._companion is None and calling(ConsumerCoordinator) is not None:
            raise fits.unfit(CLIENT, KNOWN, "it joins by an assignor that it has not asked for supported_protocols()")
        return ConsumerProtocolSubscription.decode(self._subscription(topics))

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """The leader's assignment. Never raises: see `quorate.assignors.adapters.leader`."""
        joined = [Joined(one.member_id, one.metadata.encode(), one.group_instance_id) for one in members]
        if self._companion is not None:
            self._companion.watch_metadata()
            joined = self._companion.as_joined(joined)
        answer = self._lead(joined, Companion.view(cluster))
        return {
            member: ConsumerProtocolAssignment(
                VERSION, [(one.topic, list(one.partitions)) for one in by_topic(answer[member])], None
            )
            for member in answer
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what the group agreed on."""
        self._complete(assignment, generation)


def _adopt(coordinator: Any, consumer: Any) -> None:
    """Give a coordinator that is being made its companion, and copies of its own of our assignors.

    Raises `KafkaConfigurationError`.
    """
    ours = {name: one for name, one in coordinator._assignors.items() if isinstance(one, Adapter)}
    given = consumer.config["client_rack"] if consumer is not None else None
    try:
        if len(coordinator._assignors) < len(coordinator.config["assignors"]):
            check_names(one.name for one in coordinator.config["assignors"])
        rack = common_rack(given, *(one.client_rack for one in ours.values()))
    except ValueError as error:
        raise KafkaConfigurationError(str(error)) from None
    if rack and not given and consumer is not None:
        # So that it also reads from replicas in its rack (KIP-392). The fetcher has copied the
        # configuration already.
        consumer.config["client_rack"] = rack
        consumer._fetcher.config["client_rack"] = rack
    companion = Companion(coordinator, rack, consumer)
    for name, one in ours.items():
        coordinator._assignors[name] = one._for(companion)


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
