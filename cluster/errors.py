"""Errors of the embedded cluster: what its owner did wrong, and what a client asked for that cannot be."""

from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["ClusterStateError", "Refusal"]


_LONGEST = 1_000
"""Characters of a message: names in it may be as long as responses have no room for."""


class ClusterStateError(RuntimeError):
    """What the cluster's owner asked for cannot be, such as stopping a broker that is not there."""


class Refusal(Exception):
    """What a client asked for is refused, in the place where its response has the error: `code` is Kafka's, `message` goes to the client where there is room."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        if message is not None and len(message) > _LONGEST:
            message = message[:_LONGEST] + "…"
        super().__init__(message or code.name)
        self.code = code
        self.message = message
