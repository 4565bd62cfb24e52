"""Changes of the state of share-partitions (KIP-932), as facts with a sentence."""

from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.history.facts import Fact
from quorate.coordinator.history.labels import Labels, Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateInitialized(Fact):
    """State appeared; `start_offset` is -1 until the first share fetch sets it.

    `from_snapshot`: earlier records were removed from the log, so that it existed before.
    """

    partition: Partition
    start_offset: int
    from_snapshot: bool

    def _sentence(self, labels: Labels) -> str:
        where = labels.partitions([self.partition])
        offset = "without a start offset" if self.start_offset < 0 else f"with start offset {self.start_offset:,}"
        if self.from_snapshot:
            return f"share state of {where} exists {offset}; its earlier records are not in the log"
        return f"share state of {where} initialized {offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateReset(Fact):
    """The state epoch increased, as by AlterShareGroupOffsets; batches were dropped."""

    partition: Partition
    before: int
    after: int
    state_epoch: int

    def _sentence(self, labels: Labels) -> str:
        return (
            f"share state of {labels.partitions([self.partition])} reset to state epoch {self.state_epoch}: "
            f"start offset {_offset(self.before)} → {_offset(self.after)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateDeleted(Fact):
    """The state was deleted."""

    partition: Partition

    def _sentence(self, labels: Labels) -> str:
        return f"share state of {labels.partitions([self.partition])} deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOffsetMoved(Fact):
    """The start offset changed, in one or more writes."""

    partition: Partition
    before: int
    after: int

    def _sentence(self, labels: Labels) -> str:
        return f"start offset of {labels.partitions([self.partition])} {_offset(self.before)} → {_offset(self.after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsArchived(Fact):
    """Records were rejected, or reached the delivery limit: `runs` of first and last offset.

    Archived records at the start offset are not stored; they look like acknowledged ones.
    """

    partition: Partition
    runs: tuple[tuple[int, int], ...]
    delivery_count: int

    def _sentence(self, labels: Labels) -> str:
        count = sum(last - first + 1 for first, last in self.runs)
        offsets = ", ".join(f"{first:,}" if first == last else f"{first:,}–{last:,}" for first, last in self.runs)
        deliveries = f"{self.delivery_count:,} deliver{'y' if self.delivery_count == 1 else 'ies'}"
        return (
            f"{count:,} record{'s' * (count != 1)} of {labels.partitions([self.partition])} archived "
            f"after {deliveries}: offset{'s' * (count != 1)} {offsets}"
        )


def _offset(offset: int) -> str:
    return "unknown" if offset < 0 else f"{offset:,}"
