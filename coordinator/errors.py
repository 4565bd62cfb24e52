"""Errors that a handler raises to fail a request with an error code."""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import QuorateError
from quorate.codecs.printable import cut

__all__ = ["LONGEST_MESSAGE", "ApiError", "ErrorCode"]


LONGEST_MESSAGE = 1_000
"""Characters. A message may quote client input that is longer than a response can carry."""


class ApiError(QuorateError):
    """Fails a request or a part of it.

    `code` is Kafka's error code; `message` is sent if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = None if message is None else cut(message, LONGEST_MESSAGE)
