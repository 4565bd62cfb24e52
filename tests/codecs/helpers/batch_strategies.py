"""Hypothesis strategies for records and batches."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from quorate.codecs.batches import COMPRESSIONS, BatchRecord, encode_batch

INT64_MAX = (1 << 63) - 1

payloads = (
    st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"\x00" * 63, b"k" * 64, b"v" * 8191, b"w" * 70_000])
)
header_lists = st.just(()) | st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), st.none() | st.binary(max_size=6)),
    max_size=3,
).map(tuple)
timestamps = st.integers(0, 1 << 45) | st.sampled_from([0, -1, 1_700_000_000_000])


@dataclass(frozen=True)
class Written:
    """Records, and the arguments of `encode_batch` for them."""

    records: list[BatchRecord]
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return encode_batch(self.records, **self.arguments)


@st.composite
def record_lists(draw: st.DrawFn, magic: int, min_size: int = 1) -> list[BatchRecord]:
    offset = draw(st.integers(0, 1 << 40))
    records = []
    for _ in range(draw(st.integers(min_size, 6))):
        records.append(
            BatchRecord(
                offset=offset,
                timestamp_ms=draw(timestamps) if magic else -1,
                key=draw(payloads),
                value=draw(payloads),
                headers=draw(header_lists) if magic == 2 else (),
            )
        )
        offset += draw(st.sampled_from([1, 1, 1, 2, 200]))
    return records


@st.composite
def batches(draw: st.DrawFn, magic: int | None = None, compression: str | None = None) -> Written:
    """Generate a batch of any magic, compression and producer."""
    magic = draw(st.sampled_from([0, 1, 2, 2, 2])) if magic is None else magic
    usable = COMPRESSIONS if magic == 2 else COMPRESSIONS[:4]
    arguments: dict[str, Any] = {
        "magic": magic,
        "compression": draw(st.sampled_from(usable)) if compression is None else compression,
    }
    if magic > 0 and draw(st.booleans()):
        arguments["log_append_time_ms"] = draw(st.integers(0, 1 << 45))
    if magic == 2 and draw(st.booleans()):
        arguments |= {
            "producer_id": draw(st.integers(0, INT64_MAX)),
            "producer_epoch": draw(st.integers(0, 0x7FFF)),
            "base_sequence": draw(st.integers(0, 0x7FFFFFFF) | st.sampled_from([0, 0x7FFFFFFE])),
            "transactional": draw(st.booleans()),
        }
    if magic == 2:
        arguments["partition_leader_epoch"] = draw(st.integers(-1, 0x7FFFFFFF))
    return Written(draw(record_lists(magic)), arguments)
