"""Parameters of consumers that all Python clients have in common."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quorate.assignors import Assignor
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupPrepareAssignmentRequest, api_of
from quorate.consumers.client_assignors import ConsumerAssignor, OfferedAssignors
from quorate.consumers.parameters import INSTANCE_ID, MAX_INT, is_group_id, is_instance_id

NO_CLIENT_ASSIGNORS = (
    "the brokers do not support client-side assignors: no release of Kafka does, and quorate's brokers"
    " need group.consumer.client.assignors.enable=true; client_assignor_fallback='server' lets the"
    " brokers assign"
)


TEXTS = ("group_id", "group_instance_id", "client_rack", "group_remote_assignor")
VALID_TEXTS = (
    ("group_id", is_group_id, "a name that is not empty, or None"),
    ("group_instance_id", is_instance_id, INSTANCE_ID),
)
DURATIONS = ("max_poll_interval_ms", "rebalance_timeout_ms")
"""Parameters whose values heartbeats contain; the clients check them neither."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regex that the brokers resolve (RE2), for `subscribe(pattern=...)`. Needs Kafka 4.0.

    It has to match a whole name. A pattern that is a `str` is the client's own: Python's syntax,
    resolved by the consumer, and it has to match the beginning of a name.
    Raises `TypeError`, and `ValueError` for an empty regex, as Java's consumer.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise TypeError(f"SubscriptionPattern: the regex is {self.pattern!r}; use a string")
        if not self.pattern:
            raise ValueError("SubscriptionPattern: the regex is empty; '.*' matches all topics")


@dataclass(frozen=True, slots=True)
class ProtocolOptions:
    """The parameters that quorate's consumers have in addition to the client's own.

    `refused`: the client's exception for contradictory parameters.
    """

    refused: type[Exception]
    group_protocol: str
    remote_assignor: str | None
    client_assignors: Sequence[ConsumerAssignor | Assignor]
    fallback: str

    def check(self, configs: Mapping[str, Any], classic_only: Collection[str]) -> bool:
        """Return whether the consumer uses the consumer protocol. Raises `refused`.

        `configs`: the client's own, of which `classic_only` are decided by brokers in the consumer
        protocol. Java's consumer rejects them, too.
        """
        if self.group_protocol not in ("classic", "consumer"):
            raise self.refused(f"group_protocol is {self.group_protocol!r}; use 'classic' or 'consumer'")
        if self.fallback not in ("error", "server"):
            raise self.refused(f"client_assignor_fallback is {self.fallback!r}; use 'server'")
        if self.group_protocol == "classic":
            if self.remote_assignor is not None or self.client_assignors:
                raise self.refused("group_remote_assignor and client_assignors need group_protocol='consumer'")
            self._check_assignors(configs.get("partition_assignment_strategy", ()))
            return False
        if unused := [name for name in classic_only if name in configs]:
            raise self.refused(f"{', '.join(unused)} cannot be set with group_protocol='consumer': brokers decide")
        values = {**configs, "group_remote_assignor": self.remote_assignor}
        for name in TEXTS:
            if not isinstance(values.get(name), str | None):
                raise self.refused(f"{name} is {values[name]!r}; use a string")
        for name, is_valid, expected in VALID_TEXTS:
            value = values.get(name)
            if value is not None and not is_valid(value):
                raise self.refused(f"{name} is {value!r}; use {expected}")
        for name in DURATIONS:
            value = values.get(name)
            if value is not None and not (isinstance(value, int) and 0 < value <= MAX_INT):
                raise self.refused(f"{name} is {value!r}; use whole milliseconds from 1 to {MAX_INT}")
        return True

    def _check_assignors(self, assignors: Any) -> None:
        """Raise `refused` for assignors without a list, and those that need an adapter."""
        remedy = (
            "write partition_assignment_strategy=[...] with assignors of quorate.assignors.adapters, or of the client"
        )
        if not isinstance(assignors, Collection) or isinstance(assignors, str):
            raise self.refused(f"partition_assignment_strategy is {assignors!r}, which is no list: {remedy}")
        for one in assignors:
            if isinstance(one, Assignor) or (isinstance(one, type) and issubclass(one, Assignor)):
                raise self.refused(f"partition_assignment_strategy contains {one!r}, which needs an adapter: {remedy}")

    def offered(self) -> OfferedAssignors:
        """Return the client-side assignors."""
        return OfferedAssignors(self.client_assignors)

    def unsupported(self, apis: Collection[int], brokers: str) -> str | None:
        """Return why brokers with these API keys are not sufficient. `brokers`: for the message."""
        if api_of(ConsumerGroupHeartbeatRequest).key not in apis:
            return (
                f"{brokers} do not support group_protocol='consumer', or it is disabled;"
                " use group_protocol='classic' until they are upgraded"
            )
        if self.fallback != "server" and not self.can_assign(apis):
            return NO_CLIENT_ASSIGNORS
        return None

    def can_assign(self, apis: Collection[int]) -> bool:
        """Return whether the brokers support the client-side assignors, if there are any."""
        return not self.client_assignors or api_of(ConsumerGroupPrepareAssignmentRequest).key in apis
