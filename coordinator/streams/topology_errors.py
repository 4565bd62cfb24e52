"""Errors of topologies. Their texts are Kafka's, as they reach clients."""

from typing import Self

from quorate.codecs.errors import QuorateError
from quorate.coordinator.streams.statuses import StreamsStatus


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
