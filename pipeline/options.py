"""The options of the source and of `decode`: their table, and their parsing.

Errors and the documentation are generated from the table. What an option does is implemented
elsewhere.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.pipeline.push_down import PushDown
from quorate.pipeline.schema import CONTROL, OptionError, arrow_schema, record_types

Mode: TypeAlias = Literal["PERMISSIVE", "FAILFAST", "DROPMALFORMED"]

EARLIEST: Final = -2
LATEST: Final = -1

FORMAT: Final = "consumer-offsets"
"""Name of the Spark source."""

_KAFKA: Final = "kafka."
_MODES: Final = ("PERMISSIVE", "FAILFAST", "DROPMALFORMED")
_LEVELS: Final = ("read_committed", "read_uncommitted")
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True, slots=True)
class Option:
    """An option, as listed in the documentation."""

    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option("path", "", "a segment, a partition's folder or a broker's log directory; `*`, `?` and `[…]` are wildcards"),
    Option("paths", "", "several paths as a JSON list; `load([…])` sets it"),
    Option(
        "kafka.bootstrap.servers",
        "",
        "the addresses of a running cluster, instead of a path; Kafka's other client configs follow `kafka.` likewise",
    ),
    Option("topic", CONSUMER_OFFSETS, "the coordinator topic"),
    Option("partitions", "all", "numbers and ranges, such as `0,7,20-24`"),
    Option(
        "types",
        "all",
        "record types by name, separated by commas; fewer types are faster, and give fewer columns. "
        "`Control` selects transaction markers",
    ),
    Option(
        "columns",
        "all",
        "columns, or fields such as `offset_commit.offset`, separated by commas; fewer columns are faster, "
        "because most of the time is spent on passing rows to Spark",
    ),
    Option(
        "startingOffsets",
        "earliest",
        '`earliest`, `latest`, or JSON: `{"__consumer_offsets":{"0":23,"1":-2}}`, where -2 is earliest and -1 latest',
    ),
    Option(
        "endingOffsets", "latest", "the offsets to stop before, in the same form as `startingOffsets`; not for streams"
    ),
    Option(
        "startingTimestamp",
        "",
        "skip records before this time: milliseconds since 1970, or ISO 8601 with a zone",
    ),
    Option("endingTimestamp", "", "read only records before this time; not for streams"),
    Option(
        "isolation.level",
        "read_committed",
        "`read_committed` leaves out aborted transactions and everything after the last stable offset; "
        "`read_uncommitted` reads everything, with transaction markers as rows of type `Control`",
    ),
    Option(
        "mode",
        "PERMISSIVE",
        "for records that cannot be decoded: `PERMISSIVE` returns rows with `error`, `DROPMALFORMED` drops them, "
        "`FAILFAST` fails the job",
    ),
    Option("includeRaw", "false", "fill `key` and `value` in every row, not only in rows with an error"),
    Option(
        "pushFilters",
        "false",
        "apply filters of the query while reading; only for a DataFrame that is used once "
        "([why](../how-to/spark.md#filters))",
    ),
    Option("maxSplitBytes", "32m", "the bytes that one task reads; larger segments are cut between batches"),
    Option(
        "maxOffsetsPerTrigger",
        "",
        "streams: the maximum number of offsets in a micro-batch, divided among the partitions",
    ),
    Option(
        "failOnDataLoss",
        "true",
        "fail the job if requested offsets are missing from the log; with `false`, read the rest",
    ),
)
"""Every option, in the order of the documentation."""

PUSH_DOWN: Final = "quorate.push_down"
"""Set by our own jobs only: see `quorate.pipeline.push_down`."""

_NAMES: Final = {option.name.lower(): option.name for option in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Valid options.

    `is_topic_given`: whether `topic` is not just the default. `partitions` is `None` for all.
    Offsets are by partition, with `None` as the key of the default. Times are in ms.
    """

    paths: tuple[str, ...] = ()
    kafka: Mapping[str, str] = field(default_factory=dict)
    topic: str = CONSUMER_OFFSETS
    is_topic_given: bool = field(default=False, compare=False)
    partitions: frozenset[int] | None = None
    types: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    starting_offsets: Mapping[int | None, int] = field(default_factory=lambda: {None: EARLIEST})
    ending_offsets: Mapping[int | None, int] = field(default_factory=lambda: {None: LATEST})
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    read_committed: bool = True
    mode: Mode = "PERMISSIVE"
    include_raw: bool = False
    push_filters: bool = False
    max_split_bytes: int = 32 << 20
    max_offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    push_down: PushDown | None = None

    def wants(self, partition: int | None) -> bool:
        """Return whether a partition was requested."""
        return self.partitions is None or partition in self.partitions


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse options from Spark: values are text, names are case-insensitive.

    Raises `OptionError`, which names the option and its valid values.
    """
    kafka = {}
    known = {option.name: option.default for option in OPTIONS if option.default}
    for name, value in given.items():
        lower = name.lower()
        if lower == "kafka.isolation.level":
            known["isolation.level"] = value
        elif lower == PUSH_DOWN:
            known[PUSH_DOWN] = value
        elif lower in _NAMES and lower != "kafka.bootstrap.servers":
            known[_NAMES[lower]] = value
        elif lower.startswith(_KAFKA):
            kafka[lower.removeprefix(_KAFKA)] = value
        else:
            near = get_close_matches(lower, _NAMES, 1, 0.6)
            hint = f"; did you mean {_NAMES[near[0]]}?" if near else f"; use one of {', '.join(_NAMES.values())}"
            raise OptionError(f"option {name!r} is not known{hint}")
    paths = _paths(known)
    if paths and kafka:
        raise OptionError("give either a path or kafka.bootstrap.servers, not both")
    if not paths and not kafka.get("bootstrap.servers"):
        raise OptionError(
            "nothing to read: give a path with .load(path), or a cluster with the option kafka.bootstrap.servers"
        )
    topic = known["topic"]
    record_types(topic)
    types = parse_types(known["types"], topic)
    limit = known.get("maxOffsetsPerTrigger")
    return Options(
        paths=paths,
        kafka=kafka,
        topic=topic,
        is_topic_given="topic" in map(str.lower, given),
        partitions=_partitions(known["partitions"]),
        types=types,
        columns=parse_columns(known["columns"], topic, types),
        starting_offsets=_offsets("startingOffsets", known["startingOffsets"], topic),
        ending_offsets=_offsets("endingOffsets", known["endingOffsets"], topic),
        starting_timestamp=_timestamp("startingTimestamp", known.get("startingTimestamp")),
        ending_timestamp=_timestamp("endingTimestamp", known.get("endingTimestamp")),
        read_committed=_one_of("isolation.level", known["isolation.level"].lower(), _LEVELS) == _LEVELS[0],
        mode=parse_mode(known["mode"]),
        include_raw=_boolean("includeRaw", known["includeRaw"]),
        push_filters=_boolean("pushFilters", known["pushFilters"]),
        max_split_bytes=_size("maxSplitBytes", known["maxSplitBytes"]),
        max_offsets_per_trigger=None if limit is None else _number("maxOffsetsPerTrigger", limit),
        fail_on_data_loss=_boolean("failOnDataLoss", known["failOnDataLoss"]),
        push_down=PushDown.parsed(known[PUSH_DOWN]) if PUSH_DOWN in known else None,
    )


def parse_mode(text: str) -> Mode:
    """Return the mode of this name, in any case. Raises `OptionError`."""
    found: Any = _one_of("mode", text.upper(), _MODES)
    mode: Mode = found
    return mode


def parse_types(types: str | Iterable[str] | None, topic: str) -> tuple[str, ...] | None:
    """Return record type names in the order of their numbers, `Control` last; `None` for all.

    Raises `OptionError`.
    """
    names = _listed(types)
    if names is None:
        return None
    found = [one.name for one in record_types(topic, names)]
    return (*found, *([CONTROL] if CONTROL in names else []))


def parse_columns(
    columns: str | Iterable[str] | None, topic: str, types: Iterable[str] | None
) -> tuple[str, ...] | None:
    """Return the names of columns, in the given order; `None` for all. Raises `OptionError`."""
    names = _listed(columns)
    if names is None:
        return None
    arrow_schema(topic, types, names)
    return names


def _listed(names: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return names without spaces around them; `None` for all."""
    if names is None or (isinstance(names, str) and names.strip() in ("", "all")):
        return None
    stripped = (name.strip() for name in (names.split(",") if isinstance(names, str) else names))
    return tuple(name for name in stripped if name)


def _paths(known: Mapping[str, str]) -> tuple[str, ...]:
    found = [known["path"]] if known.get("path") else []
    if "paths" in known:
        try:
            more = json.loads(known["paths"])
        except ValueError:
            more = None
        if not isinstance(more, list) or not all(isinstance(path, str) and path for path in more):
            raise OptionError(f'option paths: {known["paths"]!r} is not a JSON list of paths, such as ["/a", "/b"]')
        found += more
    return tuple(found)


def _partitions(text: str) -> frozenset[int] | None:
    if text.strip() in ("", "all"):
        return None
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise OptionError(f"option partitions: {part.strip()!r} is neither a number nor a range, such as 0,7,20-24")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _offsets(name: str, text: str, topic: str) -> dict[int | None, int]:
    default = EARLIEST if name == "startingOffsets" else LATEST
    if (word := text.strip().lower()) in ("earliest", "latest"):
        if name == "endingOffsets" and word == "earliest":
            raise OptionError("option endingOffsets: nothing ends at earliest; use latest or JSON")
        return {None: EARLIEST if word == "earliest" else LATEST}
    try:
        by_topic = json.loads(text)
        found = {int(number): offset for number, offset in by_topic[topic].items()}
        correct = len(by_topic) == 1 and all(type(offset) is int and offset >= EARLIEST for offset in found.values())
    except (ValueError, TypeError, KeyError, AttributeError):
        found, correct = {}, False
    if not correct:
        raise OptionError(
            f'option {name}: {text!r} is neither earliest nor latest nor JSON such as {{"{topic}":{{"0":23,"1":-2}}}}'
        )
    if name == "endingOffsets" and EARLIEST in found.values():
        raise OptionError("option endingOffsets: nothing ends at earliest (-2); use -1 for latest, or an offset")
    chosen: dict[int | None, int] = {None: default}
    return chosen | found


def _timestamp(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch(r"\d{1,18}", text.strip()):
        return int(text)
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise OptionError(
            f"option {name}: {text!r} is neither milliseconds since 1970 nor a time with its zone, "
            "such as 2026-11-21T10:00:00Z"
        )
    return round((found - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise OptionError(f"option {name}: {text!r} is not known; use one of {', '.join(choices)}")
    return text


def _boolean(name: str, text: str) -> bool:
    return _one_of(name, text.strip().lower(), ("true", "false")) == "true"


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()) or int(text) < 1:
        raise OptionError(f"option {name}: {text!r} is not a number; use 1 or more")
    return int(text)


def _size(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _SIZES[match[2].lower()] if match else 0
    if size < 1:
        raise OptionError(f"option {name}: {text!r} is not a size such as 33554432 or 32m")
    return size
