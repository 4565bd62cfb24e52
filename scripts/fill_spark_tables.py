"""Writes the tables of options and columns into docs/reference/spark-source.md, from the code; with --check, says whether they are as they should be."""

import sys
from pathlib import Path

import pyarrow as pa

from quorate.codecs.message import RECORD_TYPES
from quorate.pipeline.options import OPTIONS
from quorate.pipeline.schema import COMMON, CONTROL_STRUCT, column_of, record_types, struct_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "spark-source.md"

MEANINGS = {
    "topic": "the topic that the record was in",
    "partition": "null for a segment outside a partition's folder",
    "offset": "null in rows about a file",
    "timestamp": "of the record; null if it has none",
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
    names = {"int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
    return "timestamp" if pa.types.is_timestamp(kind) else names.get(str(kind), str(kind))


def filled(page: str) -> str:
    """The page with its tables."""
    for name, lines in (("options", options()), ("columns", columns()), ("structs", structs())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after
    return page


def main() -> int:
    """Fill in the tables, or check them."""
    before = PAGE.read_text("utf-8")
    after = filled(before)
    if "--check" in sys.argv:
        if after != before:
            print(f"{PAGE.name}: the tables are not as the code has them; run scripts/fill_spark_tables.py")
        return int(after != before)
    PAGE.write_text(after, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
