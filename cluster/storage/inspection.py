"""Whether a partition's folder has everything that it had, before anything in it is changed.

With `segment-checksums` every byte of every segment is held against its checksum. Without (an older
quorate wrote the folder, or the file is damaged), batches are held against their CRCs, offsets
against their neighbours, and the end against `recovery-point-offset-checkpoint`.

A torn tail is what a crash leaves of the last write: it is cut off, as Kafka's LogLoader does.
Everything else is a `Loss`, for which Kafka has replicas.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import google_crc32c

from quorate.cluster.storage.checksums import CHECKSUMS, SegmentSum, decode_checksums
from quorate.cluster.storage.files import BadFileError, decode_producers, decode_time_index
from quorate.cluster.storage.findings import FolderFindings, FoundSegment, Loss, Place
from quorate.cluster.storage.log_files import INDEXES, METADATA, topic_id_of
from quorate.cluster.storage.segment import BatchFacts
from quorate.codecs.batches import BatchProblem
from quorate.codecs.batches.frames import frames, next_batch
from quorate.codecs.batches.reader import check
from quorate.codecs.batches.v2 import HEADER_BYTES, LOG_OVERHEAD
from quorate.codecs.log.files import segment_path, segments_in

__all__ = ["inspect"]

_BLOCK_BYTES = 1 << 20
_MOST_OFFSETS = 1 << 31
"""Indexes have offsets as int32, relative to the segment's base offset."""
_ENTRY_BYTES = 8  # of an index, at least
_MAGIC_AT = 16
_STOPPED = "were not on the disk when the machine stopped, and are lost"


def inspect(folder: Path, place: Place) -> FolderFindings:
    """What is in a partition's folder, and what is not any more.

    Changes nothing. Raises `OSError`.
    """
    found = FolderFindings(
        folder,
        start_offset=place.start_offset,
        flushed_offset=place.flushed_offset,
        clean=place.clean,
        has_gaps=place.has_gaps,
    )
    if not folder.is_dir():
        if place.same_boot or place.clean or place.flushed_offset:
            found.losses.append(Loss(folder, "the folder is missing", "all its records"))
        else:  # it may be that the topic was deleted, and the metadata was not on the disk
            found.notes.append(f"{folder}: the folder is missing; its records {_STOPPED}")
        return found
    bases = [int(path.stem) for path in segments_in(folder)]
    _read_checksums(found, place, bases)
    if found.losses:
        return found
    sums = found.checksums
    if sums is not None:
        found.end_offset = sums.end.next_offset
        for one in sums.all():
            if one.base_offset not in bases and one.size and one.next_offset > found.start_offset:
                _miss(found, place, one, last=one.base_offset > max(bases, default=-1))
    else:
        _look_for_orphans(found, bases)
    next_offset = None
    for place_in_row, base in enumerate(bases):
        following = bases[place_in_row + 1] if place_in_row + 1 < len(bases) else None
        next_offset = _Segment(found, place, base, following).look(next_offset)
    found.end_offset = max(found.end_offset, next_offset or 0)
    _check_end(found, place, next_offset)
    _check_producers(found)
    return found


def _miss(found: FolderFindings, place: Place, one: SegmentSum, *, last: bool) -> None:
    """A segment is missing: the newest ones may have been written only into the memory of a machine that then stopped."""
    path = segment_path(found.folder, one.base_offset)
    lost = _offsets(max(one.base_offset, found.start_offset), one.next_offset)
    if last and not place.same_boot and not place.clean and one.base_offset >= place.flushed_offset:
        found.notes.append(f"{path}: {lost} {_STOPPED}")
        found.end_offset = min(found.end_offset, one.base_offset)
        found.is_whole = False
    else:
        found.losses.append(Loss(path, "the segment is missing", lost))


def _read_checksums(found: FolderFindings, place: Place, bases: Sequence[int]) -> None:
    path, sums = found.folder / CHECKSUMS, None
    try:
        sums = decode_checksums(path.read_bytes())
    except FileNotFoundError:
        pass
    except (BadFileError, ValueError, LookupError, TypeError) as error:
        found.notes.append(f"{path}: {error}; the segments are checked batch by batch, and the file is written again")
    said = topic_id_of(found.folder)
    metadata = found.folder / METADATA
    if sums is not None and sums.topic_id == place.topic_id:
        found.checksums = sums
        found.is_whole = True
        found.has_gaps |= sums.has_gaps
        found.start_offset = sums.start_offset if place.same_boot else max(sums.start_offset, place.start_offset)
    elif said is not None and str(said) != place.topic_id:
        found.foreign = str(said)
        detail = f"the folder is of topic id {said}, the cluster's metadata has {place.topic_id} for this name"
        found.losses.append(Loss(metadata, detail, "its records"))
    elif said is None and sums is None and not bases:
        if place.same_boot or place.clean or place.flushed_offset:
            found.losses.append(Loss(found.folder, "the folder is empty", "all its records"))
        else:
            found.notes.append(f"{found.folder}: the folder is empty; its records {_STOPPED}")
    if str(said) != place.topic_id and not found.losses:
        found.notes.append(f"{metadata}: does not have the topic's id, {place.topic_id}; it is written again")


def _look_for_orphans(found: FolderFindings, bases: Sequence[int]) -> None:
    """Without checksums an index shows that there was something in a segment."""
    there = [base for base in bases if segment_path(found.folder, base).stat().st_size]
    named = {
        int(path.stem)
        for path in found.folder.iterdir()
        if path.suffix in INDEXES and path.stat().st_size >= _ENTRY_BYTES
    }
    for base in sorted(named.difference(there)):
        if base >= found.start_offset:
            lost = f"the records from offset {base:,} on"
            found.losses.append(
                Loss(segment_path(found.folder, base), "the segment is missing or empty, its index is not", lost)
            )


def _check_end(found: FolderFindings, place: Place, next_offset: int | None) -> None:
    """Without checksums the recovery point says how far the log went at least."""
    known = place.flushed_offset
    there = max(next_offset or 0, found.start_offset)
    if found.checksums is None and not found.losses and known > there:
        found.end_offset = known
        detail = f"the log ends at offset {there:,}, recovery-point-offset-checkpoint has {known:,}"
        found.losses.append(Loss(found.folder, detail, _offsets(there, known)))


def _check_producers(found: FolderFindings) -> None:
    """Where the oldest segments are deleted, a snapshot is all that is known of their producers."""
    sums = found.checksums
    first = min(found.segments, default=0)
    if sums is None or not first or not sums.snapshot[1] or found.losses:
        return
    offset, count = sums.snapshot
    reasons = []
    for path in sorted(found.folder.glob("*.snapshot"), reverse=True):
        try:
            decode_producers(path.read_bytes())
        except BadFileError as error:
            reasons.append(str(error))
            continue
        if int(path.stem) >= first:
            return
    path = found.folder / f"{offset:020}.snapshot"
    detail = reasons[0] if path.exists() and reasons else "the file is missing"
    lost = f"the sequence numbers of producers ({count:,} of them) before offset {first:,}"
    found.losses.append(Loss(path, detail, lost))


def _offsets(start: int, end: int) -> str:
    return (
        f"the records at offset {start:,}" if end == start + 1 else f"the records at offsets {start:,} to {end - 1:,}"
    )


class _Segment:
    """One segment, with what is known of it."""

    def __init__(self, found: FolderFindings, place: Place, base: int, following: int | None) -> None:
        self.found = found
        self.place = place
        self.base = base
        self.following = following
        self.path = segment_path(found.folder, base)
        self.size = self.path.stat().st_size
        self.known = None if found.checksums is None else found.checksums.of(base)

    def look(self, before: int | None) -> int:
        """Enter it into what was found.

        `before`: where the segment before it ends. Returns where this one ends.
        """
        known = self.known
        if known is not None and known.size <= self.size and self._crc((0, known.size)) == known.crc:
            end, following, detail = self._walk(known.size, known.next_offset)
            if self.following is not None and end == known.size:
                detail = None  # the rest of a write that failed before the segment was closed
            later = self._later(self._announced(end), following) if detail is not None else []
            if detail is not None and (later or following < self.found.flushed_offset):
                return self._lose(end, detail, [(0, end), *later] if end else later)
            self._keep(end, following, known.crc if end == known.size else None)
            self._cut(end)
            return following
        self.found.is_whole &= known is None
        self._check_gap(before)
        end, following, detail = self._walk(0, self.base)
        later = self._later(end, following) if detail is not None else []
        whole = [(0, end), *later] if end else later
        ends_early = known is not None and following < known.next_offset
        strict = known is not None and (
            self.place.same_boot or following < self.found.flushed_offset or (ends_early and self.following is not None)
        )
        if known is not None and detail is None:
            if ends_early and strict:
                detail = f"the file ends here, it had {known.size:,} bytes"
            elif not ends_early:
                # Also after a power failure: what was appended does not change but by compaction,
                # of which the checksums know.
                at, detail = self._odd_epoch(known)
                return self._lose(at, detail, whole)
        torn = self.following is None and not later and not strict and not (self.place.clean and detail is not None)
        torn |= known is None and end > 0 and not later and following == self.following
        if detail is None or (torn and following >= self.found.flushed_offset):
            self._keep(end, following, None)
            self._cut(end)
            if known is not None and ends_early and self.following is None:
                told = _offsets(following, known.next_offset)
                self.found.notes.append(f"{self.path}: {told} {_STOPPED}")
                self.found.end_offset = following
                self.found.is_whole = False
            return following
        return self._lose(end, detail, whole)

    def _check_gap(self, before: int | None) -> None:
        """Whether records between the segment before and this one are missing."""
        first = self.found.start_offset if before is None else before
        if (
            self.known is None
            and self.base > first
            and not self.found.has_gaps
            and not (before is None and self.place.any_first)
        ):
            lost = _offsets(first, self.base)
            if before is not None and self._is_cut_nowhere(before):
                self._note_gap(first, self.base)
                return
            where = segment_path(self.found.folder, first)
            self.found.losses.append(Loss(where, f"the records before {self.path.name} are missing", lost))

    def _is_cut_nowhere(self, before: int) -> bool:
        """Without checksums: whether the index of the segment before this one, too, has nothing after its last batch, as after compaction."""
        base = max((one for one in self.found.segments if one < self.base), default=None)
        if self.found.checksums is not None or base is None:
            return False
        index = segment_path(self.found.folder, base).with_suffix(".timeindex")
        try:
            _, named = decode_time_index(base, index.read_bytes())
        except (BadFileError, FileNotFoundError):
            return False
        return max(named, default=-1) < before

    def _note_gap(self, first: int, until: int) -> None:
        """The topic may have been compacted before: an older directory does not have it written down."""
        if not self.found.has_gaps:
            self.found.has_gaps = True
            offsets = f"offset {first:,}" if until == first + 1 else f"offsets {first:,} to {until - 1:,}"
            self.found.notes.append(
                f"{self.path}: no records at {offsets}; taken for compacted, as there is no {CHECKSUMS}"
            )

    @property
    def _is_exact(self) -> bool:
        """Whether each offset follows the one before it.

        The segment that is written to is never compacted.
        """
        if self.found.checksums is not None:
            return not self.found.has_gaps
        return not self.place.has_gaps and self.following is None

    def _crc(self, *ranges: tuple[int, int]) -> int:
        crc = 0
        with self.path.open("rb") as file:
            for begin, end in ranges:
                file.seek(begin)
                left = end - begin
                while left and (block := file.read(min(_BLOCK_BYTES, left))):
                    crc = google_crc32c.extend(crc, block)
                    left -= len(block)
        return crc

    def _walk(self, position: int, next_offset: int) -> tuple[int, int, str | None]:
        """From a position to where whole batches in their order end; the next offset there; and why they end, unless it is the end of the file."""
        exact = self._is_exact and not (position == 0 and self.place.any_first)
        for frame in self._frames(position):
            if isinstance(frame, BatchProblem):
                return position, next_offset, frame.detail
            buffer, start, stop, _ = frame
            problem = check(buffer, start, stop, position)
            if problem is not None:
                return position, next_offset, problem.detail
            facts = BatchFacts.of(buffer, start)
            if (why := self._misplaced(facts, next_offset, exact)) is not None:
                return position, next_offset, why
            if self.known is not None and position < self.known.size and facts.last_offset >= self.known.next_offset:
                return position, next_offset, f"the batch has offset {facts.last_offset:,}, which is too large"
            if facts.base_offset > next_offset and not (position == 0 and self.place.any_first):
                self._note_gap(next_offset, facts.base_offset)
            position += stop - start
            next_offset = facts.last_offset + 1
            exact = self._is_exact
        return position, next_offset, None if position == self.size else "the rest of the file is zeros"

    def _odd_epoch(self, known: SegmentSum) -> tuple[int, str]:
        """Position and description of a change that no CRC of a batch and no offset shows."""
        epochs = self.found.checksums.epochs if self.found.checksums is not None else []
        for frame in self._frames(0, min(known.size, self.size)):
            if isinstance(frame, BatchProblem):  # the segment is another one, whose batches end elsewhere
                break
            facts = BatchFacts.of(frame[0], frame[1])
            led = next((epoch for epoch, start in reversed(epochs) if start <= facts.base_offset), facts.leader_epoch)
            if facts.leader_epoch != led:
                return frame[3], f"the batch has leader epoch {facts.leader_epoch}, it was written in {led}"
        return 0, f"the first {known.size:,} bytes do not have the CRC {known.crc:08x} that is in {CHECKSUMS}"

    def _misplaced(self, facts: BatchFacts, next_offset: int, exact: bool) -> str | None:
        """Why a batch cannot be there: the CRC does not cover its base offset."""
        late = self.following is not None and facts.last_offset >= self.following
        if exact and facts.base_offset != next_offset:
            return f"the batch begins at offset {facts.base_offset:,}, {next_offset:,} would follow"
        if facts.base_offset < next_offset or facts.last_offset < facts.base_offset:
            return f"the batch has offsets {facts.base_offset:,} to {facts.last_offset:,}, at least {next_offset:,} would follow"
        if late or facts.last_offset - self.base >= _MOST_OFFSETS:
            return f"the batch has offsets {facts.base_offset:,} to {facts.last_offset:,}, which are too large for the segment"
        return None

    def _frames(self, position: int, end: int | None = None) -> Iterator[tuple[bytes, int, int, int] | BatchProblem]:
        with self.path.open("rb") as file:
            file.seek(position)
            yield from frames(file, self.size if end is None else end, position=position)

    def _announced(self, position: int) -> int:
        """The last byte of a batch by its header, or of the file; `position` if no header is there.

        Records may hold whole batches, as those of an archive of segments do: these do not follow
        the torn batch.
        """
        with self.path.open("rb") as file:
            file.seek(position)
            header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES or header[_MAGIC_AT] != 2:
            return position
        end = position + LOG_OVERHEAD + int.from_bytes(header[8:12], signed=True)
        return max(position, min(end, self.size) - 1)

    def _later(self, position: int, next_offset: int) -> list[tuple[int, int]]:
        """Where there are whole batches behind damage, with offsets that may follow."""
        found: list[tuple[int, int]] = []
        while True:
            with self.path.open("rb") as file:
                file.seek(position)
                batch = next_batch(file.read(1), position, file, self.size)
            if batch is None:
                return found
            position = begin = batch[1]
            for frame in self._frames(position):
                if isinstance(frame, BatchProblem):
                    break
                buffer, start, stop, _ = frame
                facts = BatchFacts.of(buffer, start) if check(buffer, start, stop, position) is None else None
                if facts is None or self._misplaced(facts, next_offset, exact=False) is not None:
                    break
                position += stop - start
                next_offset = facts.last_offset + 1
            if position > begin:
                found.append((begin, position))
                position -= 1  # the search begins behind it

    def _offsets_in(self, begin: int, end: int) -> tuple[int, int]:
        """First and next offset of the batches in a range."""
        facts = [BatchFacts.of(one[0], one[1]) for one in self._frames(begin, end) if not isinstance(one, BatchProblem)]
        return facts[0].base_offset, facts[-1].last_offset + 1

    def _keep(self, end: int, next_offset: int, crc: int | None) -> None:
        known = self.known
        summed = SegmentSum(self.base, next_offset, end, self._crc((0, end)) if crc is None else crc)
        unchanged = None
        if known is not None:
            there = {suffix: _crc_of(self.path.with_suffix(suffix)) for suffix in INDEXES}
            unchanged = crc is not None and there == known.index_crcs
        self.found.segments[self.base] = FoundSegment(summed, [(0, end)], unchanged)

    def _cut(self, end: int) -> None:
        if end < self.size:
            self.found.cut_bytes += self.size - end
            self.found.notes.append(
                f"{self.path}, position {end:,}: {self.size - end:,} bytes of an unfinished write were cut off"
            )

    def _lose(self, position: int, detail: str, keep: list[tuple[int, int]]) -> int:
        """Damage at a position.

        `keep`: what would be left of the segment. Returns the next offset.
        """
        until = self.known.next_offset if self.known is not None else self.following
        if until is not None and self.following is None:
            until = max(until, self.found.flushed_offset)
        lost = []
        at = self.base
        for begin, end in keep:
            first, following = self._offsets_in(begin, end)
            if begin and first > at:
                lost.append(_offsets(at, first))
            at = following
        if until is not None and until > at:
            lost.append(_offsets(at, until))
        elif until is None and (not keep or keep[-1][1] < self.size):
            lost.append(f"the records from offset {at:,} on")
        size = sum(end - begin for begin, end in keep)
        summed = SegmentSum(self.base, at, size, self._crc(*keep))
        self.found.segments[self.base] = FoundSegment(summed, keep, False)
        told = " and ".join(lost) or "the leader epochs or offsets of some records"
        self.found.losses.append(Loss(self.path, detail, told, position))
        return at


def _crc_of(path: Path) -> int:
    try:
        crc: int = google_crc32c.value(path.read_bytes())
    except FileNotFoundError:
        return 0
    return crc
