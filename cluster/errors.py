"""Errors of the embedded cluster: what its owner did wrong, and what a client asked for that cannot be."""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import QuorateError
from quorate.codecs.printable import cut
from quorate.coordinator.errors import LONGEST_MESSAGE

__all__ = ["ClusterStateError", "Refusal"]


class ClusterStateError(QuorateError, RuntimeError):
    """What the cluster's owner asked for cannot be, such as stopping a broker that is not there."""


class Refusal(QuorateError):
    """What a client asked for is refused, in the place where its response has the error: `code` is Kafka's, `message` goes to the client where there is room."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = None if message is None else cut(message, LONGEST_MESSAGE)
