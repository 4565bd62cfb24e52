"""What groups of all kinds share: their kind, and how a group tells what it is."""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from quorate.codecs.errors import QuorateError

__all__ = ["CONSUMER_PROTOCOL", "CoordinatorGroup", "GroupKind", "ReplayError"]

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of consumers, classic or not."""


class ReplayError(QuorateError, ValueError):
    """A record that contradicts those before it.

    Kafka's coordinator fails to load a partition with one.
    """


class GroupKind(StrEnum):
    """What `ListGroups` and `kafka-groups` call the type of a group."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class CoordinatorGroup(ABC):
    """A group of some kind.

    `kind` and `protocol_type` are what ListGroups tells; `state` is derived from the rest.
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
        """What kind of clients it has, "" for a group that only has offsets."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name of the state."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nobody is a member."""
