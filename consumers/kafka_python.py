"""kafka-python's consumer with the consumer protocol (KIP-848).

```python
consumer = KafkaConsumer("orders", group_id="billing", group_protocol="consumer", client_rack="a")
```

With `group_protocol="classic"`, the default, it is kafka-python's own consumer.
"""

import logging
from collections.abc import Sequence
from typing import Any

from quorate.assignors import Assignor
from quorate.consumers.client_assignors import ConsumerAssignor, OfferedAssignors
from quorate.consumers.options import ProtocolOptions, SubscriptionPattern
from quorate.consumers.transitions import LeaveOperation

try:
    import kafka
    from kafka.errors import IllegalStateError, KafkaConfigurationError, UnsupportedVersionError

    from quorate.consumers.kafka_python_coordinator import ConsumerProtocolCoordinator
    from quorate.consumers.kafka_python_requests import GroupError
except ImportError as error:
    raise ImportError("quorate.consumers.kafka_python needs kafka-python 3: pip install 'kafka-python>=3.0'") from error

__all__ = ["GroupError", "KafkaConsumer", "SubscriptionPattern"]

log = logging.getLogger(__name__)

CLASSIC_ONLY = ("heartbeat_interval_ms", "partition_assignment_strategy", "session_timeout_ms")
"""Configs that the brokers decide in the consumer protocol; Java's consumer rejects them, too."""


class KafkaConsumer(kafka.KafkaConsumer):  # type: ignore[misc]  # kafka-python has no types
    """kafka-python's consumer, with these parameters in addition.

    - `group_protocol`: `"consumer"`, or `"classic"`, the default.
    - `group_remote_assignor`: name of an assignor of the brokers, such as `"range"`.

    - `client_assignors`: client-side assignors, in order of preference; the group uses one if all
      members have it. Only quorate's brokers support them (`quorate.consumers.client_assignors`).
    - `client_assignor_fallback`: `"server"` lets other brokers assign, with a warning; `"error"`,
      the default, raises `UnsupportedVersionError`.

    Differs from kafka-python with the consumer protocol: listeners run in the thread that polls,
    so they may commit, and `unsubscribe` calls the listener. The configs `session_timeout_ms`,
    `heartbeat_interval_ms` and `partition_assignment_strategy` are rejected: brokers decide them.
    Raises `KafkaConfigurationError`, and `UnsupportedVersionError` for brokers before 3.7.
    """

    def __init__(
        self,
        *topics: str,
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        client_assignors: Sequence[ConsumerAssignor | Assignor] = (),
        client_assignor_fallback: str = "error",
        **configs: Any,
    ) -> None:
        options = ProtocolOptions(
            KafkaConfigurationError, group_protocol, group_remote_assignor, client_assignors, client_assignor_fallback
        )
        uses_consumer_protocol = options.check(configs, CLASSIC_ONLY)
        assignors = options.offered()
        self._own: ConsumerProtocolCoordinator | None = None
        try:
            super().__init__(*topics, **configs)
        except BaseException:
            if hasattr(self, "_client"):
                self._client.close()  # kafka-python keeps its thread and connections
            raise
        if not uses_consumer_protocol or self.config["group_id"] is None:
            return
        apis = self._manager.broker_version_data.api_versions or {}
        version = ".".join(map(str, self.config["api_version"]))
        if (reason := options.unsupported(apis, f"brokers of Kafka {version}")) is not None:
            self.close(autocommit=False)
            raise UnsupportedVersionError(reason)
        if not options.can_assign(apis):
            log.warning("The brokers do not support client-side assignors, so that they assign with their own")
            assignors = OfferedAssignors(())
        self._own = ConsumerProtocolCoordinator.adopt(
            self._coordinator,
            remote_assignor=group_remote_assignor,
            rack=self.config["client_rack"],
            client_assignors=assignors,
        )

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        """Subscribe to topics, to a regex of Python, or to a `SubscriptionPattern`."""
        if not isinstance(pattern, SubscriptionPattern):
            super().subscribe(topics=topics, pattern=pattern, listener=listener)
            if self._own is not None:
                self._own.regex = None
            return
        if self._own is None:
            raise KafkaConfigurationError("SubscriptionPattern needs group_protocol='consumer' and a group_id")
        if topics:
            raise IllegalStateError("subscribe to topics or to a pattern, not to both")
        super().subscribe(pattern="(?!)", listener=listener)  # of no topic: the brokers resolve it
        self._subscription.subscribed_pattern = None
        self._own.regex = pattern.pattern

    def unsubscribe(self) -> None:
        """Unsubscribe from all topics, and leave the group."""
        if self._own is None or not self._subscription.partitions_auto_assigned():
            own, self._own = self._own, None
            super().unsubscribe()
            self._own = own
            return
        self._own.maybe_auto_commit_offsets_now()
        self._own.maybe_leave_group()
        self._own.regex = None
        self._subscription.unsubscribe()
        self._cluster.need_all_topic_metadata = False
        self._cluster.set_topics([])
        self._iterator = None

    def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        operation: LeaveOperation = LeaveOperation.DEFAULT,
    ) -> None:
        """Close the consumer. `operation`: whether it leaves the group (KIP-1092).

        Raises `KafkaError` if the listener failed; the consumer is closed all the same.
        """
        if self._own is not None:
            self._own.leave_operation = LeaveOperation(operation)
        try:
            super().close(autocommit=autocommit, timeout_ms=timeout_ms)
        except BaseException:
            self._client.close()  # kafka-python keeps its thread and connections
            raise
