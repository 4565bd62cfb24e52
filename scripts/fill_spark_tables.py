"""Fill the tables of options and columns in docs/reference/spark-source.md and spark-streams.md.

With --check, only report outdated tables, and exit with status 1 if there are any.
"""

import sys
from pathlib import Path

import pyarrow as pa

from quorate.codecs.messages import RECORD_TYPES
from quorate.pipeline.options import OPTIONS
from quorate.pipeline.schema import COMMON, CONTROL_STRUCT, column_of, record_types, struct_of
from quorate.pipeline.streaming import ALERTS, LAG_CHANGES, REBALANCE_CHANGES, STATE_CHANGES

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

MEANINGS = {
    "topic": "the topic of the record",
    "partition": "the partition of the record; null for a segment outside a partition's folder",
    "offset": "the offset of the record; null in rows about a file",
    "timestamp": "the timestamp of the record; null for none, and after the year 9999",
    "producer_id": "the producer id of the batch; null for none",
    "transactional": "true if the record was written in a transaction",
    "type": "the record type by Kafka's name, such as `OffsetCommit`; null if unknown",
    "type_id": "the number of the record type, or of a transaction marker",
    "value_version": "the version of the value; null in tombstones",
    "group": "the group id; null for types without a group",
    "tombstone": "true if the value is null: the record deletes its key",
    "unknown_tags": "the number of unknown tagged fields in the value",
    "error": "null, or `reason`, `where` (key, value or file), byte `position`, `field`, and `detail` of an error",
    "key": "the bytes of the key, only in rows with an error or with `includeRaw`",
    "value": "the bytes of the value, likewise",
}

OF_LOG = {
    "log_topic": "key: the coordinator topic",
    "log_partition": "key: the partition of the coordinator topic; null for a segment outside a partition's folder",
    "group": "key: the group id",
}
STREAMS = {
    "group state": (
        STATE_CHANGES,
        OF_LOG
        | {
            "kind": "Classic, Consumer, Share or Streams; null if the group only has offsets",
            "protocol_type": "the protocol type, as in the response to ListGroups",
            "state": "the group state, as in the response to ListGroups",
            "epoch": "the group epoch; the generation of a classic group",
            "assignment_epoch": "the epoch of the target assignment",
            "assigned_at": "when the target assignment was computed; null if it is not recorded",
            "metadata_hash": "the metadata hash (KIP-1101); 0 for none, null in classic groups",
            "assignor": "the chosen protocol, or the server-side assignor with the most members",
            "leader": "the leader's member id in a classic group",
            "topics": "subscribed topics",
            "has_topic_record": "true if the group has a record of type 4 (ConsumerGroupPartitionMetadata)",
            "regexes": "resolved regular expressions",
            "members": "members with their assigned, revoking and target partitions",
            "offsets": "committed offsets",
            "version": "the offset of the last record in the row",
            "changed_at": "the time of that record",
            "deleted": "true if the group does not exist any more; the columns above are null then, except the key",
        },
    ),
    "rebalances": (
        REBALANCE_CHANGES,
        OF_LOG
        | {
            "kind": "the kind of group",
            "epoch_before": "the epoch or generation before; 0 for none",
            "epoch": "the group epoch, or the generation",
            "log_offset": "key: the offset of the first record of the write",
            "started_at": "when the epoch was bumped; in a classic group, when all members had joined",
            "completed_at": "when all members owned their target assignment; null until then",
            "superseded_at": "when the next epoch began, if this rebalance was not complete then",
            "duration_ms": "ms from `started_at` to `completed_at`",
            "causes": "a word for each cause: see [the job](spark-jobs.md#rebalances)",
            "why": "the causes in a sentence",
            "members": "the number of members",
            "joined": "ids of members that joined",
            "left_or_fenced": "ids of members that left or were fenced",
            "replaced": "ids of static members whose instance rejoined with a new member id",
            "away": "ids of static members that left temporarily",
            "partitions_moved": "partitions that moved from one member to another",
            "partitions_gained": "partitions that were not assigned before",
            "partitions_lost": "partitions that are not assigned any more",
            "version": "the offset of the last record in the row",
            "deleted": "true if later records of the same write showed that it was not a rebalance",
        },
    ),
    "lags": (
        LAG_CHANGES,
        {
            "group": "key: the group id",
            "topic": "key: the topic that the group reads",
            "partition": "key: the partition of the topic",
            "timestamp": "key: the time of the snapshot",
            "committed_offset": "the last offset committed before the snapshot",
            "committed_at": "the time of that commit",
            "end_offset": "the end offset in the snapshot",
            "lag": "the lag in records, at least 0",
            "production_rate": "records written per second since the snapshot before; null for the first",
            "consumption_rate": "committed records per second since the snapshot before; null for the first",
            "drain_seconds": "seconds until the lag is 0 at these rates; null for never",
            "version": "the number of micro-batches that changed the partition",
            "deleted": "true if the offset was deleted before the snapshot by a record that arrived after it",
        },
    ),
    "alerts": (
        ALERTS,
        {
            "alert": "`storm`, `no-commits`, `not-reconciled` or `lag`",
            "group": "the group id",
            "at": "the time of the record, or of the snapshot, that raised the alert",
            "since": "the time of the storm's first rebalance, the last commit, or the target assignment",
            "member_id": "the member of `not-reconciled`",
            "topic": "the topic of `lag`",
            "partition": "the partition of `lag`",
            "value": "rebalances; ms without a commit; ms since the target assignment; records of lag",
            "limit": "the limit that `value` reached or exceeded",
            "message": "the alert in a sentence",
            "log_topic": "the coordinator topic; null for `lag`",
            "log_partition": "the partition of the coordinator topic; null for `lag`",
            "log_offset": "the offset of the record that raised the alert; null for `lag`",
        },
    ),
}
"""Stream → its schema, and the descriptions of the columns."""


def stream(name: str) -> list[str]:
    """Return a table of the columns of a stream."""
    schema, meanings = STREAMS[name]
    assert schema.names == list(meanings), (name, schema.names)
    rows = [f"| `{field.name}` | `{spark_name(field.type)}` | {meanings[field.name]} |" for field in schema]
    return ["| column | type | |", "|---|---|---|", *rows]


def options() -> list[str]:
    """Return a table of the options."""
    rows = [
        f"| `{option.name}` | {f'`{option.default}`' if option.default else ''} | {option.meaning} |"
        for option in OPTIONS
    ]
    return ["| option | default | |", "|---|---|---|", *rows]


def columns() -> list[str]:
    """Return a table of the common columns."""
    assert [field.name for field in COMMON] == list(MEANINGS)
    rows = [f"| `{field.name}` | `{spark_name(field.type)}` | {MEANINGS[field.name]} |" for field in COMMON]
    return ["| column | type | |", "|---|---|---|", *rows]


def structs() -> list[str]:
    """Return a table of the structs of record types."""
    rows = ["| topic | type | column | fields |", "|---|---|---|---|"]
    for topic in RECORD_TYPES:
        for found in record_types(topic):
            fields = ", ".join(f"`{field.name}`" for field in struct_of(found)) or "none but the group"
            rows.append(f"| `{topic}` | `{found.name}` | `{column_of(found.name)}` | {fields} |")
    fields = ", ".join(f"`{field.name}`" for field in CONTROL_STRUCT)
    return [*rows, f"| all | `Control` | `control` | {fields} |"]


def spark_name(kind: pa.DataType) -> str:
    """Return the name of a type in Spark."""
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
    """Return the page with its tables filled in."""
    for name, lines in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        assert found, f"no comment {begin.strip()} in the page"
        _, _, after = rest.partition(end)
        page = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after
    return page


def main() -> int:
    """Fill the tables, or check them."""
    status = 0
    for name, tables in PAGES.items():
        page = REFERENCE / name
        before = page.read_text("utf-8")
        after = filled(before, tables)
        if "--check" not in sys.argv:
            page.write_text(after, "utf-8")
        elif after != before:
            print(f"{name}: outdated tables; run scripts/fill_spark_tables.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
