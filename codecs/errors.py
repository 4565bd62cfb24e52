"""Exceptions of quorate, and the reasons for which bytes cannot be read."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial


class QuorateError(Exception):
    """The base of every exception that quorate raises."""


class InputError(QuorateError, ValueError):
    """An input of the user is not valid.

    `message` says what is wrong and where; each line of `remedy` says how to fix it.
    """

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__("\n".join((message, *remedy)))
        self.message = message
        self.remedy = remedy


class Reason(StrEnum):
    """Why bytes could not be read. Users see these values and may filter by them."""

    NULL_KEY = "null key"
    TOO_SHORT = "shorter than the int16 in front"
    UNKNOWN_TYPE = "unknown record type"
    UNKNOWN_VERSION = "unknown value version"
    FOREIGN_VALUE = "value of another system"
    TRUNCATED = "truncated"
    NULL_FIELD = "null in a field that may not be null"
    BAD_LENGTH = "impossible length"
    BAD_VARINT = "varint longer than 5 bytes"
    BAD_TAG = "impossible tagged field"
    TRAILING = "trailing bytes"
    BAD_VALUE = "value of the wrong type or size"


class DecodeError(QuorateError, ValueError):
    """Bytes could not be read.

    `where` is "key", "value" or the name of the input; `position` is the byte offset in it.
    """

    def __init__(self, reason: Reason, *, where: str, position: int, field: str = "", detail: str = "") -> None:
        self.reason = reason
        self.where = where
        self.position = position
        self.field = field
        self.detail = detail
        at = f" in {field}" if field else ""
        super().__init__(f"{reason}{at} at byte {position} of the {where}{': ' + detail if detail else ''}")

    def _facts(self) -> tuple[Reason, str, int, str, str]:
        return self.reason, self.where, self.position, self.field, self.detail

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecodeError) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __reduce__(self) -> tuple[Callable[[], "DecodeError"], tuple[()]]:
        again = partial(
            DecodeError, self.reason, where=self.where, position=self.position, field=self.field, detail=self.detail
        )
        return again, ()


class EncodeError(QuorateError, ValueError):
    """A message version cannot hold a value. The error message names the field."""
