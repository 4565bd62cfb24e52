"""Results of inspecting a partition's folder at a start: segments, and losses of data."""

from dataclasses import KW_ONLY, field
from pathlib import Path

from quorate.cluster.storage.checksums import Checksums, SegmentSum
from quorate.codecs.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """Data that is missing or damaged.

    `detail`: what was found. `lost`: the lost data, worded as a plural subject ("the records ...").
    """

    path: Path
    detail: str
    lost: str
    position: int | None = None

    def __str__(self) -> str:
        at = "" if self.position is None else f", position {self.position:,}"
        return f"{self.path}{at}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Place:
    """Facts about a partition that do not come from its folder.

    `start_offset`, `flushed_offset`: from the brokers' checkpoints. `clean`: the cluster was shut
    down cleanly. `same_boot`: the machine has not restarted since, so that unflushed writes are not
    lost. `has_gaps`: compaction may have left gaps between offsets. `any_first`: the first batch
    may have any offset.
    """

    topic_id: str
    _: KW_ONLY
    start_offset: int = 0
    flushed_offset: int = 0
    clean: bool = False
    same_boot: bool = True
    has_gaps: bool = False
    any_first: bool = False


@dataclass(slots=True)
class FoundSegment:
    """A segment that was found.

    `sum`: checksum of its whole batches. `keep`: their ranges of positions, end exclusive.
    `indexes_unchanged`: whether the indexes match their checksums; `None` if unknown.
    """

    sum: SegmentSum
    keep: list[tuple[int, int]]
    indexes_unchanged: bool | None = None


@dataclass(slots=True)
class FolderFindings:
    """Contents of a folder.

    `checksums`: `None` if the file is missing or damaged. `end_offset`: the known end of the log.
    `cut_bytes`: size of incomplete writes. `foreign`: the topic id, if the folder belongs to
    another topic. `repaired`: the losses are accepted. `is_whole`: the checksums show that nothing
    is missing.
    """

    folder: Path
    checksums: Checksums | None = None
    start_offset: int = 0
    end_offset: int = 0
    flushed_offset: int = 0
    clean: bool = False
    segments: dict[int, FoundSegment] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cut_bytes: int = 0
    foreign: str | None = None
    repaired: bool = False
    has_gaps: bool = False
    is_whole: bool = False
