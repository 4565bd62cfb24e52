"""Responses in a form that is equal on any two clusters that behave the same.

Generated ids become names in the order in which they are first seen (`member-1`), error codes
become their names, and the prefix of topics and groups `~`. Values that depend on the cluster's
size, on time, or are texts for people are left out. Arrays without an order are sorted.
"""

import json
from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, control_record, read_batches
from quorate.codecs.message import Message
from quorate.integration.verify.tables import (
    IDS,
    NOT_COMPARED,
    PLACEMENT,
    SETS,
    SETS_OF_DENIED,
    SETS_ONCE,
    sorted_denied,
)

_LEFT_OUT = NOT_COMPARED | PLACEMENT
_SETS = SETS | SETS_ONCE | {"JoinGroupResponse.members", "ConsumerGroupDescribeResponseGroup.members"}
_OF_THE_WHOLE_CLUSTER = frozenset({"ListGroupsResponse.groups", "ListTransactionsResponse.transaction_states"})
"""Arrays that also contain what other clients did; only names with the prefix are compared."""
_RECENT_MS = 1_500_000_000_000
"""Larger numbers are times."""


class Canonical:
    """Canonical forms of the responses of one check, which share the names of ids."""

    def __init__(self, prefix: str, *, naming: bool = True) -> None:
        self._prefix = prefix
        self._naming = naming
        self._names: dict[tuple[str, Any], str] = {}

    def of(self, response: Message, version: int) -> dict[str, Any]:
        """Return the fields of `version` that are compared, as JSON."""
        return self._struct(response, version)

    def _struct(self, message: Message, version: int) -> dict[str, Any]:
        name = type(message).__name__
        out: dict[str, Any] = {}
        for field in message.spec.fields:
            known = f"{name}.{field.name}"
            if version not in field.versions or field.name in _LEFT_OUT or known in _LEFT_OUT:
                continue
            value = getattr(message, field.name)
            if (kind := IDS.get(known) or IDS.get(field.name)) is not None:
                out[field.name] = self._id(kind, value)
            elif field.name == "records" and isinstance(value, bytes):
                out[field.name] = self._records(value)
            elif field.name.endswith("error_code") and isinstance(value, int):
                out[field.name] = _error_name(value)
            else:
                if known in _OF_THE_WHOLE_CLUSTER:
                    value = tuple(item for item in value if self._is_ours(item))
                elif known in SETS_OF_DENIED:
                    value = tuple(sorted_denied(value, lambda item: self._sort_key(item, version)))
                out[field.name] = self._value(value, version, known in _SETS)
        return out

    def _is_ours(self, item: Message) -> bool:
        names = (getattr(item, field.name) for field in item.spec.fields)
        return any(isinstance(name, str) and name.startswith(self._prefix) for name in names)

    def _value(self, value: Any, version: int, is_set: bool) -> Any:
        if isinstance(value, Message):
            return self._struct(value, version)
        if isinstance(value, tuple):
            # Ids are named in the order of the other fields, which does not depend on the ids.
            items = sorted(value, key=lambda item: self._sort_key(item, version)) if is_set else value
            return [self._value(item, version, False) for item in items]
        if isinstance(value, str):
            return value.replace(self._prefix, "~")
        if isinstance(value, bytes):
            return value.decode("latin-1").replace(self._prefix, "~")
        if isinstance(value, Uuid):
            return str(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > _RECENT_MS:
            return "time"
        return value

    def _sort_key(self, item: Any, version: int) -> str:
        masked = Canonical(self._prefix, naming=False)
        masked._names = self._names
        return json.dumps(masked._value(item, version, False), sort_keys=True)

    def _id(self, kind: str, value: Any) -> Any:
        if value is None or value in ("", -1, 0):
            return value
        if value == Uuid.ZERO:
            return "none"
        if isinstance(value, str) and value.startswith(self._prefix):
            return value.replace(self._prefix, "~")  # chosen by the check
        if not self._naming:
            return self._names.get((kind, value), kind)
        count = sum(1 for known, _ in self._names if known == kind)
        return self._names.setdefault((kind, value), f"{kind}-{count + 1}")

    def _records(self, data: bytes) -> list[Any]:
        out: list[Any] = []
        for batch in read_batches(data):
            if isinstance(batch, BatchProblem):
                break  # an incomplete batch at the end
            for record in batch.records():
                if not isinstance(record, BatchRecord):
                    out.append("damaged")
                elif batch.header.control:
                    out.append([record.offset, control_record(record.key, record.value).name])
                else:
                    texts = [self._value(each, 0, False) for each in (record.key, record.value)]
                    out.append([record.offset, *texts])
        return out


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def differences(expected: Any, found: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Return paths at which two canonical forms differ, with both values.

    Fields that one of them lacks are not compared: its version does not have them.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        shared = [name for name in expected if name in found]
        return [
            each
            for name in shared
            for each in differences(expected[name], found[name], f"{path}.{name}" if path else name)
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            each
            for index, (left, right) in enumerate(zip(expected, found, strict=True))
            for each in differences(left, right, f"{path}[{index}]")
        ]
    return [] if expected == found else [(path, expected, found)]
