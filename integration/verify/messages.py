"""Requests from their fields by name, and record batches for them."""

import time
from collections.abc import Mapping
from typing import Any

from quorate.cluster.errors import ClusterError
from quorate.codecs.batches import BatchRecord, encode_batch


def message_of(cls: Any, fields: Mapping[str, Any]) -> Any:
    """Return a message from its fields by name; structs in it are mappings.

    Raises `ClusterError` for a field that does not exist.
    """
    specs = {spec.name: spec for spec in cls.spec.fields}
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in specs:
            raise ClusterError(f"{cls.__name__} has no field {name}")
        inner = specs[name].type
        element = getattr(inner, "element", inner)
        struct = getattr(getattr(element, "spec", None), "cls", None)
        if struct is not None and isinstance(value, Mapping):
            values[name] = message_of(struct, value)
        elif isinstance(value, list | tuple):
            values[name] = tuple(message_of(struct, each) if isinstance(each, Mapping) else each for each in value)
        else:
            values[name] = value
    return cls(**values)


def batch_of(*values: bytes, key: bytes | None = None, timestamp_ms: int | None = None, **header: Any) -> bytes:
    """Return a record batch with these values, from now by default. `header`: see `encode_batch`.

    An old timestamp would let the broker put the next record into a new segment.
    """
    timestamp_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    records = [
        BatchRecord(offset=index, timestamp_ms=timestamp_ms, key=key, value=value) for index, value in enumerate(values)
    ]
    return encode_batch(records, **header)
