"""`segment-checksums`: a file with checksums of a partition's segments.

With it a start detects segments that are missing or changed. CRCs of batches do not cover base
offsets and leader epochs, and a missing segment has none. Kafka has replicas for that, but replicas
of the embedded cluster share their files.

The first line describes the active segment. Each append replaces it in place, after writing the
batch. After a process was killed, it covers at least all acknowledged batches. The second line
describes the other segments. Each line ends with its own CRC. Kafka's tools ignore the file.
"""

import json
from collections.abc import Mapping
from dataclasses import field

import google_crc32c

from quorate.cluster.storage.files import BadFileError
from quorate.codecs.lazy_dataclass import dataclass

CHECKSUMS = "segment-checksums"
_VERSION = 1
_CRC_BYTES = 10  # a space, eight digits, a line feed


@dataclass(frozen=True, slots=True)
class SegmentSum:
    """A segment: offsets from `base_offset` up to `next_offset` (exclusive), in `size` bytes.

    `index_crcs`: CRCs of its indexes by suffix, once it is closed.
    """

    base_offset: int
    next_offset: int
    size: int
    crc: int
    index_crcs: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Checksums:
    """Checksums of a log.

    `epochs`: pairs of leader epoch and start offset. `snapshot`: offset of the newest producer
    snapshot, and its number of producers. `closed`: closed segments by base offset. `end`: the
    active segment. `has_gaps`: whether some offsets may have no record, as after compaction.
    """

    topic_id: str
    start_offset: int
    epochs: list[tuple[int, int]]
    snapshot: tuple[int, int]
    closed: dict[int, SegmentSum]
    end: SegmentSum
    has_gaps: bool = False

    def of(self, base_offset: int) -> SegmentSum | None:
        """Return the entry of a segment, or `None`."""
        found = self.closed.get(base_offset)
        if base_offset != self.end.base_offset:
            return found
        return found if found is not None and (found.size, found.crc) == (self.end.size, self.end.crc) else self.end

    def all(self) -> list[SegmentSum]:
        """Return the entries of all segments, by base offset."""
        return [found for base in sorted({*self.closed, self.end.base_offset}) if (found := self.of(base)) is not None]


def end_line(base_offset: int, next_offset: int, size: int, crc: int) -> bytes:
    """Encode the first line, whose length is the same for all values."""
    return _with_crc(b"%020d %020d %020d %08x" % (base_offset, next_offset, size, crc))


def encode_checksums(of: Checksums) -> bytes:
    """Encode the file."""
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
    """Decode the file. Raises `BadFileError` if it is damaged."""
    lines = data.splitlines(keepends=True)
    if len(lines) != 2 or any(line != _with_crc(line[:-_CRC_BYTES]) for line in lines):
        raise BadFileError("the file is truncated, or the CRC of a line does not match")
    end, body = (line[:-_CRC_BYTES] for line in lines)
    plain = json.loads(body)
    if plain["version"] != _VERSION:
        raise BadFileError(f"unknown version {plain['version']}; version {_VERSION} is supported")
    segments = [SegmentSum(*segment) for segment in plain["segments"]]
    offset, producers = plain["snapshot"]
    base, next_one, size, crc = end.split()
    return Checksums(
        topic_id=plain["topic_id"],
        start_offset=plain["start_offset"],
        epochs=[(epoch, start) for epoch, start in plain["epochs"]],
        snapshot=(offset, producers),
        has_gaps=plain["has_gaps"],
        closed={segment.base_offset: segment for segment in segments},
        end=SegmentSum(int(base), int(next_one), int(size), int(crc, 16)),
    )


def _with_crc(text: bytes) -> bytes:
    return text + b" %08x\n" % google_crc32c.value(text)
