"""Writes the tables of options and columns into docs/reference/spark-source.md and spark-streams.md, from the code; with --check, says whether they are as they should be."""

import sys
from pathlib import Path

import pyarrow as pa

from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.options import OPTIONS
from quorate.pipeline.schema import COMMON, CONTROL_STRUCT, column_of, record_types, struct_of
from quorate.pipeline.streaming import ALERTS, LAG_CHANGES, REBALANCE_CHANGES, STATE_CHANGES

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

MEANINGS = {
    "topic": "the topic that the record was in",
    "partition": "null for a segment outside a partition's folder",
    "offset": "null in rows about a file",
    "timestamp": "of the record; null if it has none, or one after the year 9999",
    "producer_id": "null without one",
    "transactional": "whether the record was written in a transaction",
    "type": "the record type by Kafka's name, such as `OffsetCommit`; null where the key does not tell a known one",
    "type_id": "its number; of `Control`, Kafka's number of the marker",
    "value_version": "version of the value; null in tombstones",
    "group": "the group that the record is about; null where the type has none",
    "tombstone": "whether the record deletes what its key names",
    "unknown_tags": "how many tagged fields the value has that we do not know",
    "error": "what is wrong, null if nothing is: the `reason`, `where` it is (key, value or file), the byte `position`, the `field`, and the `detail`",
    "key": "the bytes, in rows with an error, or with `includeRaw` in all",
    "value": "likewise",
}

OF_LOG = {
    "log_topic": "key: the coordinator topic",
    "log_partition": "key: its partition; null for a segment outside a partition's folder",
    "group": "key",
}
STREAMS = {
    "group state": (
        STATE_CHANGES,
        OF_LOG
        | {
            "kind": "Classic, Consumer, Share or Streams; null where only offsets are left",
            "protocol_type": "as ListGroups tells it",
            "state": "likewise",
            "epoch": "the group's; of classic groups the generation",
            "assignment_epoch": "the target assignment's",
            "assigned_at": "when that was computed, where it is recorded",
            "metadata_hash": "KIP-1101; 0 for none, null in classic groups",
            "assignor": "the protocol that was chosen, or the server-side assignor that most members ask for",
            "leader": "of a classic group",
            "topics": "what the group subscribes to",
            "has_topic_record": "a record of type 4 waits for its tombstone",
            "regexes": "resolved expressions",
            "members": "with what each has, gives up, and is to have",
            "offsets": "that were committed",
            "version": "offset of the last record that is in the row",
            "changed_at": "the time of that record",
            "deleted": "nothing is left of the group; all columns but the key, `version` and `changed_at` are null then",
        },
    ),
    "rebalances": (
        REBALANCE_CHANGES,
        OF_LOG
        | {
            "kind": "of the group",
            "epoch_before": "0 for none",
            "epoch": "or generation",
            "log_offset": "key: of the first record of the write",
            "started_at": "when the epoch went up; of a classic group, when all members had joined",
            "completed_at": "when all members had what the target assignment gives them; null until then",
            "superseded_at": "when the next epoch began, if that was before",
            "duration_ms": "from `started_at` to `completed_at`",
            "causes": "a word for each: see [the job](spark-jobs.md#rebalances)",
            "why": "a sentence",
            "members": "how many there were then",
            "joined": "member ids",
            "left_or_fenced": "likewise",
            "replaced": "members whose place a static member of the same name took",
            "away": "static members that may come back",
            "partitions_moved": "from one member to another",
            "partitions_gained": "that nobody had",
            "partitions_lost": "that nobody has now",
            "version": "offset of the last record that is in the row",
            "deleted": "what was taken for a rebalance was none, as the rest of the write shows",
        },
    ),
    "lags": (
        LAG_CHANGES,
        {
            "group": "key",
            "topic": "key",
            "partition": "key",
            "timestamp": "key: of the snapshot",
            "committed_offset": "the last one before the snapshot",
            "committed_at": "when it was written",
            "end_offset": "of the snapshot",
            "lag": "in records, at least 0",
            "production_rate": "records per second since the snapshot before; null for the first",
            "consumption_rate": "likewise, of commits",
            "drain_seconds": "until the lag is 0 at these rates; null if never",
            "version": "counts the micro-batches that changed the partition",
            "deleted": "a deletion of the offset came late: there is no lag at this snapshot",
        },
    ),
    "alerts": (
        ALERTS,
        {
            "alert": "`storm`, `no-commits`, `not-reconciled` or `lag`",
            "group": "which one",
            "at": "the time in the log, or of the snapshot, at which it was noticed",
            "since": "the first rebalance of the storm, the last commit, the target assignment, or the commit that the lag is behind",
            "member_id": "of `not-reconciled`",
            "topic": "of `lag`",
            "partition": "of `lag`",
            "value": "rebalances; ms without a commit; ms since the target assignment; records",
            "limit": "that `value` is above, or has reached",
            "message": "in words",
            "log_topic": "not of `lag`",
            "log_partition": "not of `lag`",
            "log_offset": "of the record at which it was noticed; not of `lag`",
        },
    ),
}
"""The columns of each stream, and what they mean."""


def stream(name: str) -> list[str]:
    """A row for each column of a stream."""
    schema, meanings = STREAMS[name]
    assert schema.names == list(meanings), (name, schema.names)
    rows = [f"| `{field.name}` | `{spark_name(field.type)}` | {meanings[field.name]} |" for field in schema]
    return ["| column | type | |", "|---|---|---|", *rows]


def options() -> list[str]:
    """A row for each option."""
    rows = [f"| `{one.name}` | {f'`{one.default}`' if one.default else ''} | {one.meaning} |" for one in OPTIONS]
    return ["| option | default | |", "|---|---|---|", *rows]


def columns() -> list[str]:
    """A row for each column that all rows have."""
    assert [field.name for field in COMMON] == list(MEANINGS)
    rows = [f"| `{field.name}` | `{spark_name(field.type)}` | {MEANINGS[field.name]} |" for field in COMMON]
    return ["| column | type | |", "|---|---|---|", *rows]


def structs() -> list[str]:
    """A row for each record type."""
    rows = ["| topic | type | column | fields |", "|---|---|---|---|"]
    for topic in RECORD_TYPES:
        for found in record_types(topic):
            fields = ", ".join(f"`{field.name}`" for field in struct_of(found)) or "none but the group"
            rows.append(f"| `{topic}` | `{found.name}` | `{column_of(found.name)}` | {fields} |")
    fields = ", ".join(f"`{field.name}`" for field in CONTROL_STRUCT)
    return [*rows, f"| all | `Control` | `control` | {fields} |"]


def spark_name(kind: pa.DataType) -> str:
    """A type as Spark writes it."""
    if pa.types.is_struct(kind):
        return "struct"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    names = {"int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
    return "timestamp" if pa.types.is_timestamp(kind) else names.get(str(kind), str(kind))


PAGES = {
    "spark-source.md": {"options": options(), "columns": columns(), "structs": structs()},
    "spark-streams.md": {name: stream(name) for name in STREAMS},
}


def filled(page: str, tables: dict[str, list[str]]) -> str:
    """The page with its tables."""
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        assert found, f"there is no place for {name}"
        _, _, after = rest.partition(end)
        page = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after
    return page


def main() -> int:
    """Fill in the tables, or check them."""
    status = 0
    for name, tables in PAGES.items():
        page = REFERENCE / name
        before = page.read_text("utf-8")
        after = filled(before, tables)
        if "--check" not in sys.argv:
            page.write_text(after, "utf-8")
        elif after != before:
            print(f"{name}: the tables are not as the code has them; run scripts/fill_spark_tables.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
