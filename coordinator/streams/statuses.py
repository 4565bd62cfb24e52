"""The statuses of a streams group in responses to heartbeats (KIP-1071), and errors of topologies.

The texts of errors are Kafka's, as they reach clients.
"""

from enum import IntEnum
from typing import Self

from quorate.codecs.errors import QuorateError


class StreamsStatus(IntEnum):
    """Why tasks are missing, or what members must do."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class TopicConfigurationError(QuorateError):
    """Topics are missing or have wrong partition counts. The group waits, with a status."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    @classmethod
    def incorrectly_partitioned(cls, detail: str) -> Self:
        """Return an error for topics with wrong partition counts."""
        return cls(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)


class InvalidTopologyError(QuorateError):
    """The topology can never run; Kafka's StreamsInvalidTopologyException."""


class InternalTopologyError(QuorateError):
    """A topology that no client sends, for which Kafka fails with IllegalStateException or such."""
