"""`--format kafka`: character by character what Kafka's console formatters print, one object a line.

OffsetsMessageFormatter, GroupMetadataMessageFormatter, ShareGroupMessageFormatter, ShareGroupStateMessageFormatter and
TransactionLogMessageFormatter all print one shape; record types that none of them prints get the same. A record that they leave out (unknown
type, null key) or fail at (unknown value version, malformed) has no such line, and neither have transaction markers.
"""

import json
import re

from quorate.cli.entries import Entry
from quorate.codecs.json_form import to_kafka_json
from quorate.codecs.log.model import LogProblem
from quorate.codecs.message import Message
from quorate.codecs.records import as_kafka_reads

__all__ = ["KafkaLines"]

_MAX_KEYS = 50_000
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


class KafkaLines:
    """Entries to lines without their line ends; `None` for what Kafka's formatters have no line for."""

    def __init__(self) -> None:
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
        self._keys: dict[tuple[str, bytes | None], str] = {}

    def line(self, entry: Entry) -> str | None:
        """The object of one record."""
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
        text = self._encode(to_kafka_json(message, version))
        if "\\u00" in text:
            # Jackson writes \u001F where Python writes \u001f.
            text = _ESCAPE.sub(lambda escape: "\\u" + escape[0][2:].upper() if escape[0][1] == "u" else escape[0], text)
        return text
