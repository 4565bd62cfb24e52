"""`segment-checksums`: what a partition's log consists of, in a file next to its segments, so that a start notices what is missing or has changed.

Batches have CRCs, but these cover neither base offsets nor leader epochs, and a segment that is
gone has none. Kafka has replicas for that; here they share files. The first line is the segment
that is written to. It is replaced in place with each append, after the batch: of a process that was
killed it says at least what was acknowledged. The second line is the rest. Each has its own CRC.
Kafka's tools ignore the file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import google_crc32c

from quorate.cluster.storage.files import BadFileError

__all__ = ["CHECKSUMS", "Checksums", "SegmentSum", "decode_checksums", "encode_checksums", "end_line"]

CHECKSUMS = "segment-checksums"
_VERSION = 1
_CRC_BYTES = 10  # a space, eight digits, a line feed


@dataclass(frozen=True, slots=True)
class SegmentSum:
    """A segment: offsets from `base_offset` up to `next_offset`, excluded, in `size` bytes.

    `index_crcs`: of its indexes, by suffix, once it is closed.
    """

    base_offset: int
    next_offset: int
    size: int
    crc: int
    index_crcs: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Checksums:
    """A log: where it begins, its leader epochs, its closed segments by base offset, and the last segment, `end`.

    `snapshot`: the newest snapshot of producers: for which offset, and how many producers are in
    it; `has_gaps`: some offsets may have no record, as after compaction.
    """

    topic_id: str
    start_offset: int
    epochs: list[tuple[int, int]]
    snapshot: tuple[int, int]
    closed: dict[int, SegmentSum]
    end: SegmentSum
    has_gaps: bool = False

    def of(self, base_offset: int) -> SegmentSum | None:
        """What is known of a segment, if it is."""
        found = self.closed.get(base_offset)
        if base_offset != self.end.base_offset:
            return found
        return found if found is not None and (found.size, found.crc) == (self.end.size, self.end.crc) else self.end

    def all(self) -> list[SegmentSum]:
        """All segments, in their order."""
        return [found for base in sorted({*self.closed, self.end.base_offset}) if (found := self.of(base)) is not None]


def end_line(base_offset: int, next_offset: int, size: int, crc: int) -> bytes:
    """The first line, which has the same length for all values."""
    return _with_crc(b"%020d %020d %020d %08x" % (base_offset, next_offset, size, crc))


def encode_checksums(of: Checksums) -> bytes:
    """The file."""
    body = json.dumps(
        {
            "version": _VERSION,
            "topic_id": of.topic_id,
            "start_offset": of.start_offset,
            "epochs": of.epochs,
            "snapshot": of.snapshot,
            "has_gaps": of.has_gaps,
            "segments": [
                [one.base_offset, one.next_offset, one.size, one.crc, dict(one.index_crcs)]
                for one in of.closed.values()
            ],
        }
    ).encode()
    end = of.end
    return end_line(end.base_offset, end.next_offset, end.size, end.crc) + _with_crc(body)


def decode_checksums(data: bytes) -> Checksums:
    """What the file says. Raises `BadFileError` if any of it is damaged."""
    lines = data.splitlines(keepends=True)
    if len(lines) != 2 or any(line != _with_crc(line[:-_CRC_BYTES]) for line in lines):
        raise BadFileError("it is cut off, or a line does not have the CRC at its end")
    end, body = (line[:-_CRC_BYTES] for line in lines)
    plain = json.loads(body)
    if plain["version"] != _VERSION:
        raise BadFileError(f"version {plain['version']}; {_VERSION} is known")
    segments = [SegmentSum(*one) for one in plain["segments"]]
    offset, producers = plain["snapshot"]
    base, following, size, crc = end.split()
    return Checksums(
        topic_id=plain["topic_id"],
        start_offset=plain["start_offset"],
        epochs=[(epoch, start) for epoch, start in plain["epochs"]],
        snapshot=(offset, producers),
        has_gaps=plain["has_gaps"],
        closed={one.base_offset: one for one in segments},
        end=SegmentSum(int(base), int(following), int(size), int(crc, 16)),
    )


def _with_crc(text: bytes) -> bytes:
    return text + b" %08x\n" % google_crc32c.value(text)
