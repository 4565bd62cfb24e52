"""The base of all groups: type, protocol type and state."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from quorate.codecs.errors import QuorateError

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers, classic or not."""


class ReplayError(QuorateError, ValueError):
    """A record that contradicts earlier ones; Kafka's coordinator fails to load such a log."""


class GroupKind(StrEnum):
    """The group type, as in `ListGroups` and `kafka-groups`."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class CoordinatorGroup(ABC):
    """A group of any type.

    `kind` is its type. `state` is derived from the other fields.
    """

    __slots__ = ("group_id",)

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, {self.state})"

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type of its clients; "" for a group that only has offsets."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name of the state."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""
