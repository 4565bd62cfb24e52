"""The captures of tests/data, and what Kafka's own tools and classes read from them."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.codecs.batches import BatchHeader

CAPTURES = Path(__file__).resolve().parents[2] / "data" / "captures"


@dataclass(frozen=True)
class CapturedPartition:
    """One partition of a capture."""

    folder: Path

    @property
    def topic(self) -> str:
        return self.folder.name.rpartition("-")[0]

    @property
    def partition(self) -> int:
        return int(self.folder.name.rpartition("-")[2])

    @property
    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def __str__(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    def lines(self, suffix: str) -> Iterator[str]:
        """Yield the lines of the file next to the folder with this suffix, if it exists."""
        path = self.folder.with_name(f"{self.folder.name}.{suffix}.gz")
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    yield line.rstrip("\n")

    def oracle(self) -> Iterator[dict[str, Any]]:
        """Yield the batches and records that Kafka's own classes read, in the order of the log."""
        return map(json.loads, self.lines("oracle.jsonl"))


PARTITIONS = [
    CapturedPartition(folder)
    for folder in sorted(CAPTURES.glob("*/__*-*"))
    if folder.is_dir() and any(segment.stat().st_size for segment in folder.glob("*.log"))
]


def header_form(header: BatchHeader) -> dict[str, Any]:
    """Return a header as the oracle does."""
    form = {
        "position": header.position,
        "sizeInBytes": header.size_bytes,
        "magic": header.magic,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "crc": header.crc,
        "valid": header.crc_valid,
        "compression": header.compression,
        "timestampType": header.timestamp_type,
        "maxTimestamp": header.max_timestamp_ms,
        "count": header.count,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "transactional": header.transactional,
        "control": header.control,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
    }
    if header.delete_horizon_ms is not None:
        form["deleteHorizonMs"] = header.delete_horizon_ms
    return form
