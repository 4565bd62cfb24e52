"""Columns of decoded records that jobs use, for Spark and for the local engine."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from quorate.codecs.message import CONSUMER_OFFSETS, RecordType
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.wire import StringType
from quorate.pipeline.schema import CONTROL, GROUP_FIELDS, OptionError, column_of, struct_of

NEEDED = (
    *("topic", "partition", "offset", "timestamp", "producer_id"),
    *("transactional", "type", "value_version", "group", "tombstone"),
)
"""Common columns that jobs use."""

COMMIT_FIELDS = ("topic", "partition", "offset")
"""Fields of an offset commit that `lag` uses."""

OWNED = ("group", "topic", "partition")
"""Columns that identify a committed offset: a partition, for a group."""

END_OFFSETS = ("topic", "partition", "timestamp", "end_offset")

MAX_TIMES = 20_000
"""Highest number of distinct snapshot times that are pushed down to the source."""


def present_in(
    columns: Collection[str],
    fields_of: Callable[[str], Collection[str]],
    wanted: Collection[str] | None,
    fields: Collection[str] | None,
) -> list[RecordType]:
    """Return the record types that rows have columns for, of those in `wanted`.

    `fields_of`: the fields of a column; `fields`: the required fields of a record type, by default
    all. Raises `OptionError` if common columns, all of `wanted`, or required fields are missing.
    """
    if missing := [name for name in NEEDED if name not in columns]:
        raise OptionError(
            f"the DataFrame has no column {', '.join(missing)}: use one of spark.read.format('consumer-offsets') "
            "or of decode(), and with the option `columns`, include these"
        )
    found = [
        one
        for one in RECORD_TYPES[CONSUMER_OFFSETS].values()
        if column_of(one.name) in columns and (wanted is None or one.name in wanted)
    ]
    if not found:
        names = ", ".join(wanted) if wanted is not None else "any record type"
        raise OptionError(f"the DataFrame has no columns of {names}: read it without the option `types`, or with these")
    for one in found:
        column = column_of(one.name)
        present = fields_of(column)
        needed = [field.name for field in struct_of(one) if fields is None or field.name in fields]
        if lacking := [name for name in needed if name not in present]:
            raise OptionError(
                f"the column {column} has no {', '.join(lacking)}: "
                f"read it without the option `columns`, or with {column} as a whole"
            )
    return found


def key_fields(types: Iterable[RecordType]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the columns and fields of keys except the group: texts, and numbers of partitions."""
    texts: list[tuple[str, str]] = []
    numbers: list[tuple[str, str]] = []
    for one in types:
        for field in one.key.fields:
            if field.name not in GROUP_FIELDS:
                where = texts if isinstance(field.type, StringType) else numbers
                where.append((column_of(one.name), field.name))
    return texts, numbers


def check_isolation_level(isolation_level: str | None, has_control: bool) -> None:
    """Raise `OptionError` for an unknown level, or one that needs rows of transaction markers."""
    if isolation_level not in (None, "read_committed", "read_uncommitted"):
        raise OptionError(f"isolation_level is {isolation_level!r}: use read_committed or read_uncommitted, or omit it")
    if isolation_level == "read_uncommitted" and not has_control:
        raise OptionError(
            "read_uncommitted needs the rows of transaction markers: "
            f"read with isolation.level=read_uncommitted, and {CONTROL} among `types`"
        )


WHOLE_NUMBER: Final = r"\+?[0-9]+"
"""A regex: if such a value of a number does not fit its type, it is too large."""

TOO_LARGE: Final = {"partition": "larger than a partition can be", "end_offset": "larger than an offset can be"}
"""What is wrong then, by the column of end offsets."""


def check_end_offsets(columns: Collection[str]) -> None:
    """Raise `OptionError` if columns of end offsets are missing."""
    if missing := [name for name in END_OFFSETS if name not in columns]:
        raise OptionError(f"the end offsets have no column {', '.join(missing)}: they need {', '.join(END_OFFSETS)}")
