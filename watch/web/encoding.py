"""Encode values of an observer as JSON, without a copy of each.

The result equals that of `as_json`, which is for callers in Python; a test compares both.
"""

import importlib.util
import json
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from quorate.codecs import Uuid
from quorate.coordinator.history.facts import Fact
from quorate.watch.model import as_json

# Twice as fast. It is optional, because it has no wheels for some platforms.
orjson = importlib.import_module("orjson") if importlib.util.find_spec("orjson") else None


def dumps(value: Any) -> bytes:
    """Return JSON on one line, in UTF-8."""
    if orjson is not None:
        try:
            encoded: bytes = orjson.dumps(value, default=_plain, option=orjson.OPT_PASSTHROUGH_DATACLASS)
            return encoded
        except TypeError:  # half of a surrogate pair in a text, which only escapes can express
            pass
    return _ENCODER.encode(value).encode("ascii")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, Fact | Uuid):
        return as_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        kind: type = type(value)
        return {name: getattr(value, name) for name in _names(kind)}
    if isinstance(value, frozenset | set):
        return list(value)
    return as_json(dict(value))  # a Mapping


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain)
