"""Recorded logs up to each checkpoint, and the brokers' responses there (tests/data/README.md)."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from quorate.codecs import LogEntry, Uuid, read_log
from quorate.coordinator.image import MetadataImage, TopicImage

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures"


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a capture at which the brokers were described while nothing was written."""

    capture: str
    label: str
    end_offsets: dict[str, int]
    image: MetadataImage
    groups: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.capture} at {self.label}"


def folders(capture: str) -> list[Path]:
    """Return the folders of the partitions of `__consumer_offsets`."""
    return [path for path in sorted((CAPTURES / capture).glob("__consumer_offsets-*")) if path.is_dir()]


@cache
def entries(folder: Path) -> list[LogEntry]:
    """Return all records of a partition."""
    return [entry for entry in read_log(folder) if isinstance(entry, LogEntry)]


def checkpoints(capture: str) -> Iterator[Checkpoint]:
    """Yield the checkpoints that the log still contains: only the last one of a compacted log."""
    manifest = json.loads(gzip.decompress((CAPTURES / capture / "manifest.json.gz").read_bytes()))
    for checkpoint in manifest["checkpoints"]:
        if "compacted" in capture and checkpoint["label"] != "end":
            continue
        cluster = checkpoint["cluster"]
        image = MetadataImage(brokers={broker["id"]: broker["rack"] for broker in cluster["brokers"]}).with_topics(
            TopicImage(
                name=topic["name"],
                id=Uuid.parse(topic["topicId"]),
                replicas=tuple(tuple(part["replicas"]) for part in topic["partitions"]),
            )
            for topic in cluster["topics"]
        )
        yield Checkpoint(capture, checkpoint["label"], checkpoint["logEndOffsets"], image, checkpoint["groups"])
