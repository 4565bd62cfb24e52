"""Write log entries as lines of JSON: complete, or as Kafka's console formatters print them.

`JsonLines` keeps everything. What could not be decoded has `error` with the reason and the bytes,
and `quorate.codecs.json_records` converts every record back to its bytes. Names and forms of keys
and values are those of `quorate.codecs.json_form`.

`KafkaLines` gives exactly the output of OffsetsMessageFormatter, GroupMetadataMessageFormatter,
ShareGroupMessageFormatter, ShareGroupStateMessageFormatter and TransactionLogMessageFormatter,
which all have the same form. Record types that none of them prints have that form too. Transaction
markers have no such line. Neither have records that the formatters leave out (unknown type, null
key) or fail at (unknown value version, malformed).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias

from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.consumer_protocol import open_nested
from quorate.codecs.errors import DecodeError, InputError
from quorate.codecs.json_form import to_json, to_kafka_json
from quorate.codecs.log.model import LogEntry, LogProblem
from quorate.codecs.message import Message, MessageSpec
from quorate.codecs.records import (
    RECORD_TYPES,
    CoordinatorRecord,
    MalformedRecord,
    Record,
    UnknownRecord,
    as_kafka_reads,
    decode_record,
)
from quorate.codecs.wire import FixedType, StringType, Uuid, UuidType

_MAX_KEYS = 50_000
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HexEntry:
    """A record from a line of hex. The fields that only a log has are `None`."""

    topic: str
    line: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    record: Record

    partition: ClassVar[None] = None
    offset: ClassVar[None] = None
    timestamp_ms: ClassVar[None] = None
    producer_id: ClassVar[None] = None
    producer_epoch: ClassVar[None] = None
    transactional: ClassVar[None] = None


RecordEntry: TypeAlias = LogEntry | HexEntry
Entry: TypeAlias = LogEntry | HexEntry | LogProblem


def group_of(entry: RecordEntry) -> str | None:
    """Return the group of a record; `None` if its key has none or could not be read."""
    key = getattr(entry.record, "key", None)
    group: str | None = getattr(key, "group_id", None)  # `group` in the two oldest types
    return group if group is not None else getattr(key, "group", None)


class JsonLines:
    """Converts entries to lines without line ends.

    Keys repeat often in coordinator topics, so their text is cached.
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, int | None], str] = {}
        self._keys: dict[tuple[str, bytes | None], tuple[str, str]] = {}

    def line(self, entry: Entry) -> str:
        """Return the object of one entry as text."""
        if isinstance(entry, LogProblem):
            return _encode(_problem_object(entry))
        record = entry.record
        if not isinstance(record, CoordinatorRecord):
            return self._start(entry) + "," + _encode(_odd_object(entry, record))[1:]
        known = self._keys.get((entry.topic, entry.key_bytes))
        name, key = self._key_texts(entry, record) if known is None else known
        if record.value is None:
            line = f'{self._start(entry)}{name}null{key},"value":null'
        else:
            version = record.version
            assert version is not None
            line = f'{self._start(entry)}{name}{version}{key},"value":{_value_text(record.value, version)}'
        if record.key_trailing or record.value_trailing:
            line += f',"error":{_encode(_error(record.problem, entry))}'
        elif record.value_as_read is not None:
            line += f',"value_hex":"{record.value_as_read.hex()}"'
        return line + "}"

    def _start(self, entry: RecordEntry) -> str:
        """Return the start of the object, with position and time, without the closing brace."""
        place = self._places.get((entry.topic, entry.partition))
        if place is None:
            place = _encode({"topic": entry.topic, "partition": entry.partition})[:-1]
            self._places[entry.topic, entry.partition] = place
        offset = "null" if entry.offset is None else entry.offset
        timestamp = "null" if entry.timestamp_ms is None or entry.timestamp_ms == -1 else entry.timestamp_ms
        start = f'{place},"offset":{offset},"timestamp_ms":{timestamp}'
        if entry.transactional:
            start += f',"producer_id":{entry.producer_id},"producer_epoch":{entry.producer_epoch}'
        return start

    def _key_texts(self, entry: RecordEntry, record: CoordinatorRecord) -> tuple[str, str]:
        """Return the text before the version and the text after it."""
        texts = (
            f',"type":{record.type_id},"name":"{record.name}","version":',
            f',"key":{_encode(to_json(record.key, 0))}',
        )
        if len(self._keys) >= _MAX_KEYS:
            self._keys.clear()
        self._keys[entry.topic, entry.key_bytes] = texts
        return texts


def _value_text(value: Message, version: int) -> str:
    write = _flat_writer(value.spec, version)
    text = None if write is None else write(value)
    return _encode(to_json(open_nested(value), version)) if text is None else text


@lru_cache(10_000)  # topic ids
def _uuid_text(uuid: Uuid) -> str:
    return f'"{uuid}"'


@cache
def _flat_writer(spec: MessageSpec, version: int) -> Callable[[Message], str | None] | None:
    """Return a function that writes values without lists and structs directly to text.

    Most records have such values, and this takes half the time of a dictionary. Returns `None` for
    other messages. The function returns `None` for a value that needs the dictionary after all.
    """
    fields = [field for field in spec.fields if version in field.versions]
    if len(fields) < 2 or not all(
        isinstance(field.type, FixedType | StringType | UuidType) and not field.nullable for field in fields
    ):
        return None
    template = (
        "{"
        + ",".join(f'"{field.name}":' + ("%d" if isinstance(field.type, FixedType) else "%s") for field in fields)
        + "}"
    )
    values = attrgetter(*(field.name for field in fields))
    strings = [index for index, field in enumerate(fields) if isinstance(field.type, StringType)]
    uuids = [index for index, field in enumerate(fields) if isinstance(field.type, UuidType)]
    dropped = [field for field in spec.fields if version not in field.versions and not field.ignorable]

    def write(message: Message) -> str | None:
        if message.unknown_tags or dropped:
            return None
        items = list(values(message))
        for index in strings:
            if not items[index].isascii():
                return None  # may contain bytes that are not UTF-8
            items[index] = encode_basestring(items[index])
        for index in uuids:
            items[index] = _uuid_text(items[index])
        return template % tuple(items)

    return write


def _odd_object(entry: RecordEntry, record: UnknownRecord | MalformedRecord | ControlRecord) -> dict[str, Any]:
    """Return the object of an undecoded or control record, without position and time."""
    if isinstance(record, ControlRecord):
        facts = {
            "type": record.name,
            "type_id": record.type_id,
            "version": record.version,
            "coordinator_epoch": record.coordinator_epoch,
        }
        return {"control": facts | _bytes(entry)}
    record_type = RECORD_TYPES[record.topic].get(record.type_id) if record.type_id is not None else None
    value = {}
    if isinstance(record, MalformedRecord) and record.value is not None and record.version is not None:
        value["value"] = to_json(open_nested(record.value), record.version)
    return {
        "type": record.type_id,
        "name": record_type.name if record_type else None,
        "version": record.version,
        "key": to_json(record.key, 0) if record.key is not None else None,
        **value,
        "error": _error(record.problem, entry),
    }


def _error(problem: DecodeError | None, entry: RecordEntry) -> dict[str, Any]:
    assert problem is not None
    facts = {name: getattr(problem, name) for name in ("reason", "where", "position", "field", "detail")}
    return facts | _bytes(entry)


def _bytes(entry: RecordEntry) -> dict[str, str | None]:
    """Return key and value bytes; `quorate encode` writes them back."""
    return {
        "key_hex": None if entry.key_bytes is None else entry.key_bytes.hex(),
        "value_hex": None if entry.value_bytes is None else entry.value_bytes.hex(),
    }


def _problem_object(problem: LogProblem) -> dict[str, Any]:
    return {
        "topic": problem.topic,
        "partition": problem.partition,
        "path": str(problem.path),
        "position": problem.position,
        "size_bytes": problem.size_bytes,
        "offset": problem.base_offset,
        "error": {"reason": problem.reason, "detail": problem.detail},
    }


class KafkaLines:
    """Converts entries to lines without line ends; `None` if Kafka's formatters print no line."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, bytes | None], str] = {}

    def line(self, entry: Entry) -> str | None:
        """Return the object of one record as text."""
        record = None if isinstance(entry, LogProblem) else as_kafka_reads(entry.record)
        if isinstance(entry, LogProblem) or record is None:
            return None
        key = self._keys.get((entry.topic, entry.key_bytes))
        if key is None:
            if len(self._keys) >= _MAX_KEYS:
                self._keys.clear()
            key = self._keys[entry.topic, entry.key_bytes] = (
                f'{{"key":{{"type":{record.type_id},"data":{self._text(record.key, 0)}}},"value":'
            )
        if record.value is None:
            return key + "null}"
        assert record.version is not None
        return f'{key}{{"version":{record.version},"data":{self._text(record.value, record.version)}}}}}'

    def _text(self, message: Message, version: int) -> str:
        text = _encode(to_kafka_json(message, version))
        if "\\u00" in text:
            # Jackson writes \u001F where Python writes \u001f.
            text = _ESCAPE.sub(lambda escape: "\\u" + escape[0][2:].upper() if escape[0][1] == "u" else escape[0], text)
        return text


def hex_entries(lines: Iterable[str], topic: str, name: str) -> Iterator[HexEntry]:
    """Read records from lines of `key-hex value-hex`; `null`, `-` or nothing stands for null.

    Raises `InputError` with the line number in `name`.
    """
    for number, text in enumerate(lines, 1):
        words = text.split()
        if not words:
            continue
        if len(words) > 2:
            raise InputError(
                f"{name}, line {number}: {len(words)} words",
                "a line has the key and the value in hex, or only the key for a tombstone",
            )
        key = _unhex(words[0], f"{name}, line {number}: the key")
        value = _unhex(words[1], f"{name}, line {number}: the value") if len(words) == 2 else None
        yield HexEntry(
            topic=topic, line=number, key_bytes=key, value_bytes=value, record=decode_record(key, value, topic=topic)
        )


def _unhex(text: str, place: str) -> bytes | None:
    if text in ("null", "-"):
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        shown = text if len(text) <= 40 else text[:40] + "…"
        is_odd = re.fullmatch(r"[0-9a-fA-F]*", text) is not None
        raise InputError(
            f"{place} has an odd number of digits" if is_odd else f"{place} {shown!r} is not hex",
            "a line is `key-hex value-hex`, with null or - for a null value",
        ) from None
