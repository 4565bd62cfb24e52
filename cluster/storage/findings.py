"""What a start finds in a partition's folder, and what is not there any more."""

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from quorate.cluster.storage.checksums import Checksums, SegmentSum

__all__ = ["FolderFindings", "FoundSegment", "Loss", "Place"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a folder does not have any more.

    `lost`: in words, as the subject of a sentence in the plural.
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
    """What is known of a partition from elsewhere.

    `start_offset`, `flushed_offset`: by the brokers' checkpoints; `clean`: the cluster was stopped
    in order; `same_boot`: the machine has not been restarted since, so what was written is there
    whether it was flushed or not; `has_gaps`: compaction may have left gaps between offsets;
    `any_first`: the first batch may have any offset.
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
    """A segment as it is: `keep`, positions of whole batches from and to, and what a log of them has.

    `indexes_unchanged`: whether the files next to it are as they were; `None`: not known.
    """

    sum: SegmentSum
    keep: list[tuple[int, int]]
    indexes_unchanged: bool | None = None


@dataclass(slots=True)
class FolderFindings:
    """What is in a folder.

    `checksums`: if they can be read; `end_offset`: where the log ended, as far as is known;
    `cut_bytes`: of torn tails.

    `foreign`: the id of another topic, whose folder this is; `repaired`: the losses are accepted;
    `is_whole`: the checksums show that nothing is missing.
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
