"""kafka-python's consumer with the consumer protocol (KIP-848).

```python
consumer = KafkaConsumer("orders", group_id="billing", group_protocol="consumer", client_rack="a")
```

With `group_protocol="classic"`, the default, it is kafka-python's own consumer.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from quorate.assignors import Assignor
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupPrepareAssignmentRequest, api_of
from quorate.consumers.client_assignors import ConsumerAssignor, OfferedAssignors
from quorate.consumers.transitions import LeaveOperation

try:
    import kafka
    from kafka.errors import IllegalStateError, KafkaConfigurationError, UnsupportedVersionError

    from quorate.consumers.kafka_python_coordinator import ConsumerProtocolCoordinator
except ImportError as error:
    raise ImportError("quorate.consumers.kafka_python needs kafka-python 3: pip install 'kafka-python>=3.0'") from error

__all__ = ["KafkaConsumer", "SubscriptionPattern"]

log = logging.getLogger(__name__)

CLASSIC_ONLY = ("heartbeat_interval_ms", "partition_assignment_strategy", "session_timeout_ms")
"""Configs that the brokers decide in the consumer protocol; Java's consumer rejects them, too."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regex that the brokers resolve (RE2), for `subscribe(pattern=...)`. Needs Kafka 4.0.

    It has to match a whole name. A pattern that is a `str` is kafka-python's: Python's syntax,
    resolved by the consumer, and it has to match the beginning of a name.
    """

    pattern: str


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
        if group_protocol not in ("classic", "consumer"):
            raise KafkaConfigurationError(f"group_protocol is {group_protocol!r}; use 'classic' or 'consumer'")
        if client_assignor_fallback not in ("error", "server"):
            raise KafkaConfigurationError(f"client_assignor_fallback is {client_assignor_fallback!r}; use 'server'")
        assignors = OfferedAssignors(client_assignors)
        self._own: ConsumerProtocolCoordinator | None = None
        if group_protocol == "classic":
            if group_remote_assignor is not None or client_assignors:
                raise KafkaConfigurationError(
                    "group_remote_assignor and client_assignors need group_protocol='consumer'"
                )
            super().__init__(*topics, **configs)
            return
        if unused := [name for name in CLASSIC_ONLY if name in configs]:
            raise KafkaConfigurationError(
                f"{', '.join(unused)} cannot be set with group_protocol='consumer': brokers decide"
            )
        super().__init__(*topics, **configs)
        if self.config["group_id"] is None:
            return
        supported = self._manager.broker_version_data.api_versions or {}
        if api_of(ConsumerGroupHeartbeatRequest).key not in supported:
            version = ".".join(map(str, self.config["api_version"]))
            self._refuse(
                f"brokers of Kafka {version} do not support group_protocol='consumer', or it is disabled;"
                " use group_protocol='classic' until they are upgraded"
            )
        if assignors and api_of(ConsumerGroupPrepareAssignmentRequest).key not in supported:
            if client_assignor_fallback != "server":
                self._refuse(
                    "the brokers do not support client-side assignors: no release of Kafka does, and quorate's brokers"
                    " need group.consumer.client.assignors.enable=true; client_assignor_fallback='server' lets the"
                    " brokers assign"
                )
            log.warning("The brokers do not support client-side assignors, so that they assign with their own")
            assignors = OfferedAssignors(())
        self._own = ConsumerProtocolCoordinator.adopt(
            self._coordinator,
            remote_assignor=group_remote_assignor,
            rack=self.config["client_rack"],
            client_assignors=assignors,
        )

    def _refuse(self, message: str) -> NoReturn:
        self.close(autocommit=False)
        raise UnsupportedVersionError(message)

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        """Subscribe to topics, to a regex of Python, or to a `SubscriptionPattern`."""
        if not isinstance(pattern, SubscriptionPattern):
            super().subscribe(topics=topics, pattern=pattern, listener=listener)
            if self._own is not None:
                self._own.regex = None
            return
        if self._own is None:
            raise KafkaConfigurationError("SubscriptionPattern needs group_protocol='consumer'")
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
        """Close the consumer. `operation`: whether it leaves the group (KIP-1092)."""
        if self._own is not None:
            self._own.leave_operation = operation
        super().close(autocommit=autocommit, timeout_ms=timeout_ms)
