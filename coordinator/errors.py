"""Errors that are answers: a handler raises one, and the client gets its code."""

from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["ApiError", "ErrorCode"]


class ApiError(Exception):
    """What is wrong with a request, as Kafka's code; the message is for people."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
