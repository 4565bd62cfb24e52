"""The tables of `quorate groups`, with the headings of kafka-consumer-groups.sh."""

from collections.abc import Mapping, Sequence
from typing import Any

from quorate.cli.output import table_lines
from quorate.codecs.printable import cut, hash_text, printable, spans, time_text

_HEADINGS = {
    "assignment": "CURRENT-ASSIGNMENT",
    "available": "#AVAILABLE",
    "acknowledged": "#ACKNOWLEDGED",
    "archived": "#ARCHIVED",
    "committed_ms": "COMMITTED",
    "coordinator": "COORDINATOR (ID)",
    "in_flight": "#IN-FLIGHT",
    "local": "#LOCAL",
    "max_delivery_count": "MAX-DELIVERIES",
    "log_partition": "IN",
    "member_epoch": "CURRENT-EPOCH",
    "members": "#MEMBERS",
    "partitions": "#PARTITIONS",
    "racks": "PARTITION-RACKS",
    "remote": "#REMOTE",
}
"""Headings that differ from the names of the columns."""

_RIGHT = {
    "members", "group_epoch", "target_epoch", "member_epoch", "partitions", "local", "remote", "partition",
    "current_offset", "log_end_offset", "lag", "log_partition", "leader_epoch", "start_offset", "state_epoch",
    "in_flight", "available", "acknowledged", "archived", "max_delivery_count",
}  # fmt: skip


_NAMES = {"group", "consumer_id", "group_instance_id", "host", "client_id", "topic"}
LONGEST_NAME = 150
"""Longest name in a table, in characters, as one name widens all rows. JSON has the whole name."""


def table(rows: Sequence[Mapping[str, Any]], columns: str, *, optional: str = "") -> list[str]:
    """Return a heading and a line for each row.

    `columns` are keys of the rows; `optional` columns are omitted if they are empty in all rows.
    """
    may_be_missing = optional.split()
    shown = [
        name
        for name in columns.split()
        if name not in may_be_missing or any(row[name] not in (None, [], {}, "", False) for row in rows)
    ]
    cells = [
        [_HEADINGS.get(name, name.upper().replace("_", "-")) for name in shown],
        *([_cell(name, row[name]) for name in shown] for row in rows),
    ]
    return table_lines(cells, right=[index for index, name in enumerate(shown) if name in _RIGHT])


_OFFSETS = "group topic partition leader_epoch current_offset log_end_offset lag committed_ms"
_OWNERS = "pending consumer_id host client_id rack racks locality"
_MAY_BE_EMPTY = "leader_epoch log_end_offset lag pending rack racks locality"
_SHARES = "start_offset state_epoch in_flight available acknowledged archived max_delivery_count"


def offset_columns(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str, str]:
    """Return the rows of offsets with their columns, and which of these are optional.

    If there are share groups, the fields of their share state are columns, too.
    """
    if not any(row["share"] for row in rows):
        return rows, f"{_OFFSETS} {_OWNERS}", _MAY_BE_EMPTY
    names = _SHARES.split()
    flat = [row | {name: row["share"] and row["share"][name] for name in names} for row in rows]
    columns = f"{_OFFSETS} {_OWNERS}".replace("log_end_offset", f"{_SHARES} log_end_offset")
    return flat, columns, f"{_MAY_BE_EMPTY} {_SHARES} current_offset committed_ms consumer_id host client_id"


def _cell(name: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    if name.endswith("_ms"):
        return time_text(value)
    if name == "metadata_hash":
        return hash_text(value)
    if isinstance(value, dict):
        return printable(", ".join(f"{topic} {spans(parts)}" for topic, parts in value.items()))
    if isinstance(value, list):
        return printable(",".join("-" if one is None else str(one) for one in value))
    if isinstance(value, bool):
        return "yes" if value else "-"
    return cut(printable(str(value)), LONGEST_NAME) if name in _NAMES else printable(str(value))
