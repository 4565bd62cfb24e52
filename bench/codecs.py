"""Compare the speed of decoding and encoding with Kafka's Java serdes and plain `construct`.

Measures columns, single records, and segment files. Java's figures are its steady state on one
thread, after JIT compilation (tests/oracle, SerdeBench). Ours are on one thread, too.
"""

import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _data import Dataset, dataset, write_pairs, write_segment
from _measure import JAVA, SMOKE_JAVA, java, need_java
from _report import Report

from quorate.codecs import decode_columns, decode_record, encode_record, read_columns, read_log
from quorate.codecs.layout import record_key_layout, record_value_layout

CONSTRUCT = "construct alone"
FLAT = ("ConsumerGroupMetadata", "ConsumerGroupTargetAssignmentMetadata")
LISTS = (
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupCurrentMemberAssignment",
    "GroupMetadata",
)


def kafka(report: Report, file: Path, mode: str) -> dict[str, Any]:
    """Return Kafka's figures for a file of pairs or a segment.

    They are `records_per_s` and `first_round_records_per_s`.
    """
    short = ("-Dserde.warmUpMs=0", "-Dserde.roundMs=0", *SMOKE_JAVA)
    (found,) = java("oracle.SerdeBench", str(file), mode, options=short if report.smoke else ("-XX:+UseSerialGC",))
    return found


def columns(report: Report, data: Dataset, *, dictionary: bool = False) -> float:
    """Return records per second of `decode_columns`."""
    keys, values = (pa.array(column, pa.binary()) for column in zip(*data.raw, strict=True))
    seconds = report.steady(lambda: decode_columns(keys, values, dictionary=dictionary))
    return len(keys) / seconds


def through_columns(report: Report, folder: Path, count: int) -> None:
    """Compare columns of every record type with Java's steady state."""
    goals = (
        dict.fromkeys(FLAT, "≥ 5 M/s")
        | dict.fromkeys(LISTS, "≥ 1 M/s")
        | {"OffsetCommit": "ratio ≥ 1", "OffsetCommit, mixed": "ratio ≥ 1"}
    )
    kinds = report.pick(
        ("OffsetCommit", "OffsetCommit, mixed", *FLAT, *LISTS),
        quick=("OffsetCommit",),
        smoke=("OffsetCommit",),
    )
    for kind in kinds:
        data = dataset(kind, count)
        pairs = folder / "pairs"
        write_pairs(pairs, data.raw)
        # The better one of before and after the peer: a busy machine changes while a JVM warms up.
        ours, coded = columns(report, data), columns(report, data, dictionary=True)
        peer = kafka(report, pairs, "decode")
        ours, coded = max(ours, columns(report, data)), max(coded, columns(report, data, dictionary=True))
        report.rate(f"columns: {kind}", ours, peer["records_per_s"], JAVA, goal=goals.get(kind, ""))
        if kind == "OffsetCommit":
            report.rate(f"columns: {kind}, keys as dictionaries", coded, peer["records_per_s"], JAVA)
            report.rate(
                f"columns: {kind}, Java not yet warm", ours, peer["first_round_records_per_s"], f"{JAVA}, first round"
            )


@cache
def _layouts(cls: type) -> Any:
    return record_value_layout(cls)


def last_of(results: Iterable[Any]) -> deque[Any]:
    """Consume the results like a reader of a log, and keep the last few, as in Java."""
    return deque(results, maxlen=64)


def record_by_record(report: Report, folder: Path) -> None:
    """Compare decoding and encoding of single records with plain construct and with Java."""
    key_layout = record_key_layout()
    one = ("OffsetCommit",)
    kinds = report.pick((*one, "ConsumerGroupMetadata", "ConsumerGroupCurrentMemberAssignment"), quick=one, smoke=one)
    for kind in kinds:
        data = dataset(kind, report.pick(20_000, quick=20_000, smoke=100))
        raw = data.raw
        few, few_raw = data.records[:1000], raw[:1000]
        value_layout = _layouts(data.records[0].type.value.cls)
        write_layout = record_value_layout(data.records[0].type.value.cls, write_version=data.records[0].version)
        decode = len(raw) / report.steady(lambda raw=raw: last_of(decode_record(key, value) for key, value in raw))
        plain = len(few) / report.steady(
            lambda raw=few_raw, v=value_layout: last_of((key_layout.parse(key), v.parse(value)) for key, value in raw)
        )
        encode = len(raw) / report.steady(
            lambda records=data.records: last_of(encode_record(record) for record in records)
        )
        built = len(few) / report.steady(
            lambda records=few, v=write_layout: last_of((key_layout.build(r.key), v.build(r.value)) for r in records)
        )
        report.rate(f"decode_record: {kind}", decode, plain, CONSTRUCT, goal="≥ 0.5 M/s")
        report.rate(f"encode_record: {kind}", encode, built, CONSTRUCT, goal="≥ 0.5 M/s")
        if not report.quick:
            pairs = folder / "pairs"
            write_pairs(pairs, raw)
            report.rate(f"decode_record: {kind}", decode, kafka(report, pairs, "decode")["records_per_s"], JAVA)
            report.rate(f"encode_record: {kind}", encode, kafka(report, pairs, "encode")["records_per_s"], JAVA)


def from_segments(report: Report, folder: Path, count: int) -> None:
    """Compare reading files to Arrow with Java's reading to objects; both check CRCs."""
    data = dataset("OffsetCommit, mixed", count)
    shapes = report.pick(
        ((1, "none"), (10, "none"), (1000, "none"), (100, "lz4"), (100, "zstd")),
        quick=((1, "none"),),
        smoke=((1, "none"),),
    )
    for per_batch, compression in shapes:
        segment = write_segment(
            folder / f"{per_batch}-{compression}" / "__consumer_offsets-0",
            data.raw,
            per_batch=per_batch,
            compression=compression,
        )
        before = report.steady(lambda path=segment: [block.batches for block in read_columns(path)])
        peer = kafka(report, segment, "segment")["records_per_s"]
        ours = count / min(before, report.steady(lambda path=segment: [block.batches for block in read_columns(path)]))
        how = f"{per_batch:,} per batch" + ("" if compression == "none" else f", {compression}")
        report.rate(
            f"segment → Arrow: {how}",
            ours,
            peer,
            JAVA,
            goal="≥ 3 M/s" if per_batch == 1 else "",
        )
        if per_batch == 1:
            entries = count / report.steady(lambda path=segment: sum(1 for _ in read_log(path)))
            report.rate(f"segment → entries: {how}", entries, None, "")


MEMORY = """
import sys
from pathlib import Path
from quorate.codecs import read_columns, read_log
rows = 0
if sys.argv[2] == "columns":
    for block in read_columns(sys.argv[1]):
        rows += sum(len(batch) for batch in block.batches.values())
else:
    for rows, entry in enumerate(read_log(sys.argv[1])):
        if rows > int(sys.argv[3]):
            break
# Not ru_maxrss, which includes the memory before exec.
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)
"""


def memory(report: Report, folder: Path) -> None:
    """Measure peak resident memory of reading log directories.

    One segment is linked under many names: plain ones up to 2 GB (0.2 GB with --quick), and well
    compressed ones.
    """
    data = dataset("OffsetCommit, mixed", report.pick(300_000, quick=100_000, smoke=1000))
    size = report.pick(2_000_000_000, quick=200_000_000, smoke=200_000)
    most = report.pick(2_000_000, quick=200_000, smoke=200)
    for compression, per_batch, size_bytes in (("none", 3, size), ("zstd", 500, size // 20)):
        logs = folder / compression
        segment = write_segment(logs / "__consumer_offsets-0", data.raw, per_batch=per_batch, compression=compression)
        copies = -(-size_bytes // segment.stat().st_size)
        for partition in range(1, copies):
            other = logs / f"__consumer_offsets-{partition}"
            other.mkdir()
            (other / segment.name).hardlink_to(segment)
        ways = [("columns", "columns")] + ([] if per_batch > 3 else [("entries", f"entries (the first {most:,})")])
        for way, name in ways:
            command = [sys.executable, "-c", MEMORY, str(logs), way, str(most)]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            of_what = "" if compression == "none" else f" of {compression}"
            what = f"peak memory, {size_bytes / 1e9:.2g} GB{of_what} as {name}"
            report.cost(what, float(run.stdout), 500.0, "the bound", "MB", goal="< 500 MB")


def main() -> None:
    report = Report("quorate.codecs", __doc__ or "")
    need_java()
    count = report.pick(1 << 18, quick=1 << 17, smoke=1 << 10)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        through_columns(report, folder, count)
        from_segments(report, folder / "segments", count)
        record_by_record(report, folder)
        memory(report, folder / "memory")
    report.finish()


if __name__ == "__main__":
    main()
