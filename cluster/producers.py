"""Producer state of a partition (KIP-98): epochs, sequences, open and aborted transactions.

Batches are checked before the write without changing the state. The state is updated after the
write, or when a log is loaded, so a failed write changes nothing.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import field

from quorate.cluster.storage.files import AbortedTransaction, ProducerEntry
from quorate.cluster.storage.segment import BatchFacts
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.log import AppendError

_CACHED_BATCHES = 5
"""How many batches of a producer are cached to detect duplicates (KIP-98)."""
_SEQUENCES = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class KnownBatch:
    """A batch that a producer wrote."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class Producer:
    """The state of a producer: epoch, last batches, open transaction.

    `coordinator_epoch`: that of the last marker.
    """

    epoch: int
    batches: deque[KnownBatch] = field(default_factory=lambda: deque(maxlen=_CACHED_BATCHES))
    last_timestamp_ms: int = -1
    transaction_start: int | None = None
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else -1


@dataclass(slots=True)
class _Verification:
    """Transactional batches under verification by the transaction coordinator (KIP-890).

    Kept until a batch is appended, as Kafka's VerificationStateEntry. `adds`: whether the client
    leaves it to the broker to add partitions.
    """

    epoch: int
    lowest_sequence: int
    adds: bool


class Producers:
    """All producers of a partition, by id.

    `open`: producer id → first offset of its open transaction; `aborted`: in the order of markers.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self._verifications: dict[int, _Verification] = {}
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    # ---- checks

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, *, adds: bool) -> None:
        """Note that the coordinator verifies whether a batch belongs to an open transaction.

        `adds`: whether the broker adds the partition.
        """
        producer = self.by_id.get(producer_id)
        if producer is not None and producer.epoch == epoch and producer.transaction_start is not None:
            return
        entry = self._verifications.setdefault(producer_id, _Verification(epoch, sequence, adds))
        if epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)

    def known(self, facts: BatchFacts) -> KnownBatch | None:
        """Return the cached batch with the same sequences, if this is a duplicate."""
        producer = self.by_id.get(facts.producer_id)
        if producer is None or producer.epoch != facts.producer_epoch:
            return None
        sequences = (facts.base_sequence, _last_sequence(facts))
        return next(
            (batch for batch in producer.batches if (batch.first_sequence, batch.last_sequence) == sequences), None
        )

    def check(self, facts: BatchFacts) -> None:
        """Raise `AppendError` unless the batch is the producer's next one.

        An unknown producer may begin with any sequence, because its batches may have been deleted
        (KIP-360), but not with one after that under verification. If the broker adds its
        partitions, it must begin with 0 (KIP-890).
        """
        producer = self.by_id.get(facts.producer_id)
        if producer is None:
            self._check_verification(facts, begins=True)
            return
        epoch, sequence = facts.producer_epoch, facts.base_sequence
        if epoch < producer.epoch:
            raise AppendError(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"producer epoch {epoch} is older than {producer.epoch}"
            )
        if not facts.transactional and producer.transaction_start is not None:
            raise AppendError(ErrorCode.INVALID_TXN_STATE, "a batch outside the producer's open transaction")
        self._check_verification(facts, begins=not producer.batches)
        if epoch > producer.epoch:
            if sequence != 0:
                raise AppendError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence} in a new epoch, expected 0"
                )
            return
        expected = (producer.last_sequence + 1) & _SEQUENCES
        if sequence != expected:
            raise AppendError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence}, expected {expected}")

    def _check_verification(self, facts: BatchFacts, *, begins: bool) -> None:
        entry = self._verifications.get(facts.producer_id) if facts.transactional else None
        if entry is None:
            return
        sequence = facts.base_sequence
        if entry.adds and begins and sequence != 0:
            raise AppendError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {sequence} of an unknown producer, expected 0"
            )
        if sequence > entry.lowest_sequence:
            problem = f"sequence {sequence}, but {entry.lowest_sequence} is still under verification"
            raise AppendError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, problem)

    def aborted_between(self, first: int, until: int) -> list[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions, as in a fetch response."""
        start = bisect_left(self.aborted, first, key=lambda one: one.last_offset)
        return [(one.producer_id, one.first_offset) for one in self.aborted[start:] if one.first_offset < until]

    def aborted_from(self, offset: int) -> int:
        """Return the number of aborted transactions whose marker is at or after an offset."""
        return len(self.aborted) - bisect_left(self.aborted, offset, key=lambda one: one.last_offset)

    def aborted_by(self, facts: BatchFacts) -> AbortedTransaction | None:
        """Return the transaction that a marker aborts, if one is open."""
        start = self.open.get(facts.producer_id)
        if start is None:
            return None
        others = (one for producer_id, one in self.open.items() if producer_id != facts.producer_id)
        return AbortedTransaction(
            facts.last_offset, facts.producer_id, start, min(others, default=facts.last_offset + 1)
        )

    # ---- updates

    def take(self, facts: BatchFacts) -> None:
        """Update the state after a batch of a producer was appended."""
        self._verifications.pop(facts.producer_id, None)
        producer = self._at_epoch(facts.producer_id, facts.producer_epoch)
        if facts.base_sequence >= 0:
            producer.batches.append(
                KnownBatch(
                    facts.base_sequence,
                    _last_sequence(facts),
                    facts.base_offset,
                    facts.last_offset,
                    facts.max_timestamp_ms,
                )
            )
        producer.last_timestamp_ms = facts.max_timestamp_ms
        # A batch emptied by compaction opens no transaction: its marker may have been removed.
        if facts.transactional and producer.transaction_start is None and facts.count:
            producer.transaction_start = self.open[facts.producer_id] = facts.base_offset

    def take_marker(self, facts: BatchFacts, *, commit: bool, coordinator_epoch: int) -> None:
        """Update the state after a marker was appended."""
        aborted = None if commit else self.aborted_by(facts)
        producer = self._at_epoch(facts.producer_id, facts.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = facts.max_timestamp_ms
        producer.transaction_start = None
        self.open.pop(facts.producer_id, None)
        if aborted is None:
            return
        if not self.aborted or self.aborted[-1] < aborted:
            self.aborted.append(aborted)
        elif aborted not in self.aborted:
            insort(self.aborted, aborted)

    def _at_epoch(self, producer_id: int, epoch: int) -> Producer:
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        elif epoch > producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def expire(self, before_ms: int) -> None:
        """Forget producers that wrote nothing since a time, unless they have an open transaction.

        See `producer.id.expiration.ms`.
        """
        gone = [
            producer_id
            for producer_id, one in self.by_id.items()
            if one.transaction_start is None and one.last_timestamp_ms <= before_ms
        ]
        for producer_id in gone:
            del self.by_id[producer_id]
        self._verifications.clear()

    def forget_aborted(self, before: int) -> None:
        """Forget aborted transactions that ended before an offset."""
        del self.aborted[: bisect_left(self.aborted, before, key=lambda one: one.last_offset)]

    # ---- snapshots

    def entries(self) -> list[ProducerEntry]:
        """Return a snapshot's entries by producer id, with the last batch of each, as in Kafka."""
        found = []
        for producer_id, one in sorted(self.by_id.items()):
            last = one.batches[-1] if one.batches else None
            found.append(
                ProducerEntry(
                    producer_id=producer_id,
                    epoch=one.epoch,
                    last_sequence=-1 if last is None else last.last_sequence,
                    last_offset=-1 if last is None else last.last_offset,
                    offset_delta=0 if last is None else last.last_offset - last.base_offset,
                    timestamp_ms=one.last_timestamp_ms,
                    coordinator_epoch=one.coordinator_epoch,
                    transaction_start=-1 if one.transaction_start is None else one.transaction_start,
                )
            )
        return found

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the state by a snapshot."""
        self.by_id.clear()
        self.open.clear()
        for entry in entries:
            producer = self.by_id[entry.producer_id] = Producer(entry.epoch)
            if entry.last_offset >= 0:
                first = (entry.last_sequence - entry.offset_delta) & _SEQUENCES
                producer.batches.append(
                    KnownBatch(
                        first,
                        entry.last_sequence,
                        entry.last_offset - entry.offset_delta,
                        entry.last_offset,
                        entry.timestamp_ms,
                    )
                )
            producer.last_timestamp_ms = entry.timestamp_ms
            producer.coordinator_epoch = entry.coordinator_epoch
            if entry.transaction_start >= 0:
                producer.transaction_start = self.open[entry.producer_id] = entry.transaction_start


def _last_sequence(facts: BatchFacts) -> int:
    return (facts.base_sequence + facts.last_offset - facts.base_offset) & _SEQUENCES
