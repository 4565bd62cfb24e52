"""Errors that are answers: a handler raises one, and the client gets its code."""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.errors import QuorateError
from quorate.codecs.printable import cut

__all__ = ["LONGEST_MESSAGE", "ApiError", "ErrorCode"]


LONGEST_MESSAGE = 1_000
"""Characters: a message may quote what a client sent, which may be longer than a response has room
for.
"""


class ApiError(QuorateError):
    """A request, or a part of it, fails: `code` is Kafka's; `message` goes to the client where the response has a field for it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = None if message is None else cut(message, LONGEST_MESSAGE)
