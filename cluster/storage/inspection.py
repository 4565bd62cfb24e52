"""Checks for missing or damaged data in a partition's folder, before anything in it is changed.

With `segment-checksums` every segment is checked against its CRC. Without that file (an older
quorate wrote the folder, or the file is damaged), the checks are the CRCs of batches, the order of
offsets, and the end offset in `recovery-point-offset-checkpoint`.

An incomplete last write (a torn tail) is truncated, as Kafka's LogLoader does. Everything else is a
`Loss`, which Kafka would restore from other replicas.

The module is longer than others, because all checks of a segment follow its batches in one pass.
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

_BLOCK_BYTES = 1 << 20
_MAX_OFFSETS = 1 << 31
"""Offsets in indexes are int32, relative to the segment's base offset."""
_ENTRY_BYTES = 8  # of an index, at least
_MAGIC_AT = 16
_STOPPED = "were not on the disk when the machine stopped, and are lost"


def inspect(folder: Path, place: Place) -> FolderFindings:
    """Return the segments and losses of a partition's folder. Changes nothing. Raises `OSError`."""
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
        else:  # the topic may have been deleted, and the record of that was not flushed
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
                _add_missing_segment(found, place, one, last=one.base_offset > max(bases, default=-1))
    else:
        _find_orphaned_indexes(found, bases)
    next_offset = None
    for number, base in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else None
        next_offset = _Segment(found, place, base, following).inspect(next_offset)
    found.end_offset = max(found.end_offset, next_offset or 0)
    _check_end(found, place, next_offset)
    _check_producers(found)
    return found


def _add_missing_segment(found: FolderFindings, place: Place, one: SegmentSum, *, last: bool) -> None:
    """Add a missing segment to the findings.

    It is no loss if it is one of the newest segments, was not flushed, and the machine restarted.
    """
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
        found.notes.append(f"{path}: {error}; the segments are checked batch by batch, and the file is rewritten")
    folder_topic_id = topic_id_of(found.folder)
    metadata = found.folder / METADATA
    if sums is not None and sums.topic_id == place.topic_id:
        found.checksums = sums
        found.is_whole = True
        found.has_gaps |= sums.has_gaps
        found.start_offset = sums.start_offset if place.same_boot else max(sums.start_offset, place.start_offset)
    elif folder_topic_id is not None and str(folder_topic_id) != place.topic_id:
        found.foreign = str(folder_topic_id)
        detail = f"the folder has topic id {found.foreign}, the cluster's metadata has {place.topic_id} for this name"
        found.losses.append(Loss(metadata, detail, "its records"))
    elif folder_topic_id is None and sums is None and not bases:
        if place.same_boot or place.clean or place.flushed_offset:
            found.losses.append(Loss(found.folder, "the folder is empty", "all its records"))
        else:
            found.notes.append(f"{found.folder}: the folder is empty; its records {_STOPPED}")
    if str(folder_topic_id) != place.topic_id and not found.losses:
        found.notes.append(f"{metadata}: does not have the topic id {place.topic_id}; it is rewritten")


def _find_orphaned_indexes(found: FolderFindings, bases: Sequence[int]) -> None:
    """Find missing or empty segments that have an index. It is used without checksums."""
    not_empty = [base for base in bases if segment_path(found.folder, base).stat().st_size]
    named = {
        int(path.stem)
        for path in found.folder.iterdir()
        if path.suffix in INDEXES and path.stat().st_size >= _ENTRY_BYTES
    }
    for base in sorted(named.difference(not_empty)):
        if base >= found.start_offset:
            lost = f"the records from offset {base:,} on"
            found.losses.append(
                Loss(segment_path(found.folder, base), "the segment is missing or empty, but has an index", lost)
            )


def _check_end(found: FolderFindings, place: Place, next_offset: int | None) -> None:
    """Check the log's end against the recovery point. It is used without checksums."""
    expected = place.flushed_offset
    end = max(next_offset or 0, found.start_offset)
    if found.checksums is None and not found.losses and expected > end:
        found.end_offset = expected
        detail = f"the log ends at offset {end:,}, recovery-point-offset-checkpoint has {expected:,}"
        found.losses.append(Loss(found.folder, detail, _offsets(end, expected)))


def _check_producers(found: FolderFindings) -> None:
    """Check that there is a producer snapshot for segments that were deleted."""
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
    """One segment, with its entry in the checksums (`known`)."""

    def __init__(self, found: FolderFindings, place: Place, base: int, following: int | None) -> None:
        self.found = found
        self.place = place
        self.base = base
        self.following = following
        self.path = segment_path(found.folder, base)
        self.size = self.path.stat().st_size
        self.known = None if found.checksums is None else found.checksums.of(base)

    def inspect(self, before: int | None) -> int:
        """Add the segment to the findings, and return its next offset.

        `before`: next offset of the segment before it.
        """
        known = self.known
        if known is not None and known.size <= self.size and self._crc((0, known.size)) == known.crc:
            end, following, detail = self._walk(known.size, known.next_offset)
            if self.following is not None and end == known.size:
                detail = None  # a write that failed before the segment was closed
            later = self._later(self._last_byte_of_batch(end), following) if detail is not None else []
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
                detail = f"the file ends here; it had {known.size:,} bytes"
            elif not ends_early:
                # That is also an error after a power failure: only compaction changes written
                # bytes, and it updates the checksums.
                at, detail = self._odd_epoch(known)
                return self._lose(at, detail, whole)
        torn = self.following is None and not later and not strict and not (self.place.clean and detail is not None)
        torn |= known is None and end > 0 and not later and following == self.following
        if detail is None or (torn and following >= self.found.flushed_offset):
            self._keep(end, following, None)
            self._cut(end)
            if known is not None and ends_early and self.following is None:
                self.found.notes.append(f"{self.path}: {_offsets(following, known.next_offset)} {_STOPPED}")
                self.found.end_offset = following
                self.found.is_whole = False
            return following
        return self._lose(end, detail, whole)

    def _check_gap(self, before: int | None) -> None:
        """Add a loss if records between the segment before and this one are missing."""
        first = self.found.start_offset if before is None else before
        if (
            self.known is None
            and self.base > first
            and not self.found.has_gaps
            and not (before is None and self.place.any_first)
        ):
            lost = _offsets(first, self.base)
            if before is not None and self._index_ends_with_segment(before):
                self._note_gap(first, self.base)
                return
            where = segment_path(self.found.folder, first)
            self.found.losses.append(Loss(where, f"the records before {self.path.name} are missing", lost))

    def _index_ends_with_segment(self, before: int) -> bool:
        """Return whether the time index of the segment before agrees with its last batch.

        Then a gap is the result of compaction. It is used without checksums.
        """
        base = max((segment for segment in self.found.segments if segment < self.base), default=None)
        if self.found.checksums is not None or base is None:
            return False
        index = segment_path(self.found.folder, base).with_suffix(".timeindex")
        try:
            _, named = decode_time_index(base, index.read_bytes())
        except (BadFileError, FileNotFoundError):
            return False
        return max(named, default=-1) < before

    def _note_gap(self, first: int, until: int) -> None:
        """Note a gap, which compaction may have left. An older directory does not record that."""
        if not self.found.has_gaps:
            self.found.has_gaps = True
            offsets = f"offset {first:,}" if until == first + 1 else f"offsets {first:,} to {until - 1:,}"
            self.found.notes.append(
                f"{self.path}: no records at {offsets}; assumed to be compacted, because {CHECKSUMS} is missing"
            )

    @property
    def _is_exact(self) -> bool:
        """Whether offsets have no gaps. The active segment is never compacted."""
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
        """Check batches from a position on.

        Returns the position and the next offset at the end of the valid ones, and what follows them
        unless that is the end of the file.
        """
        exact = self._is_exact and not (position == 0 and self.place.any_first)
        for frame in self._frames(position):
            if isinstance(frame, BatchProblem):
                return position, next_offset, frame.detail
            buffer, start, stop, _ = frame
            problem = check(buffer, start, stop, position)
            if problem is not None:
                return position, next_offset, problem.detail
            facts = BatchFacts.of(buffer, start)
            if (detail := self._misplaced(facts, next_offset, exact)) is not None:
                return position, next_offset, detail
            if self.known is not None and position < self.known.size and facts.last_offset >= self.known.next_offset:
                return position, next_offset, f"the batch has offset {facts.last_offset:,}, which is too large"
            if facts.base_offset > next_offset and not (position == 0 and self.place.any_first):
                self._note_gap(next_offset, facts.base_offset)
            position += stop - start
            next_offset = facts.last_offset + 1
            exact = self._is_exact
        return position, next_offset, None if position == self.size else "the rest of the file is zeros"

    def _odd_epoch(self, known: SegmentSum) -> tuple[int, str]:
        """Return position and description of a change that batch CRCs and offsets do not show."""
        epochs = self.found.checksums.epochs if self.found.checksums is not None else []
        for frame in self._frames(0, min(known.size, self.size)):
            if isinstance(frame, BatchProblem):  # another segment has this name
                break
            facts = BatchFacts.of(frame[0], frame[1])
            epoch = next((one for one, start in reversed(epochs) if start <= facts.base_offset), facts.leader_epoch)
            if facts.leader_epoch != epoch:
                return frame[3], f"the batch has leader epoch {facts.leader_epoch}; it was written with {epoch}"
        return 0, f"the first {known.size:,} bytes do not have the CRC {known.crc:08x} in {CHECKSUMS}"

    def _misplaced(self, facts: BatchFacts, next_offset: int, exact: bool) -> str | None:
        """Return a description of invalid offsets, or `None`. The batch CRC does not cover them."""
        late = self.following is not None and facts.last_offset >= self.following
        if exact and facts.base_offset != next_offset:
            return f"the batch starts at offset {facts.base_offset:,}; expected {next_offset:,}"
        offsets = f"the batch has offsets {facts.base_offset:,} to {facts.last_offset:,}"
        if facts.base_offset < next_offset or facts.last_offset < facts.base_offset:
            return f"{offsets}; expected at least {next_offset:,}"
        if late or facts.last_offset - self.base >= _MAX_OFFSETS:
            return f"{offsets}, which are too large for the segment"
        return None

    def _frames(self, position: int, end: int | None = None) -> Iterator[tuple[bytes, int, int, int] | BatchProblem]:
        with self.path.open("rb") as file:
            file.seek(position)
            yield from frames(file, self.size if end is None else end, position=position)

    def _last_byte_of_batch(self, position: int) -> int:
        """Return the position of a batch's last byte by its header, at most that of the file.

        `position` itself if there is no header. A record's value can contain whole batches; those
        do not count as batches after the torn one.
        """
        with self.path.open("rb") as file:
            file.seek(position)
            header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES or header[_MAGIC_AT] != 2:
            return position
        end = position + LOG_OVERHEAD + int.from_bytes(header[8:12], signed=True)
        return max(position, min(end, self.size) - 1)

    def _later(self, position: int, next_offset: int) -> list[tuple[int, int]]:
        """Return the ranges of whole batches after damage, with offsets from `next_offset` on."""
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
                position -= 1  # the search starts at the following byte

    def _offsets_in(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first and the next offset of the batches in a range."""
        facts = [
            BatchFacts.of(frame[0], frame[1])
            for frame in self._frames(begin, end)
            if not isinstance(frame, BatchProblem)
        ]
        return facts[0].base_offset, facts[-1].last_offset + 1

    def _keep(self, end: int, next_offset: int, crc: int | None) -> None:
        known = self.known
        summed = SegmentSum(self.base, next_offset, end, self._crc((0, end)) if crc is None else crc)
        unchanged = None
        if known is not None:
            crcs = {suffix: _crc_of(self.path.with_suffix(suffix)) for suffix in INDEXES}
            unchanged = crc is not None and crcs == known.index_crcs
        self.found.segments[self.base] = FoundSegment(summed, [(0, end)], unchanged)

    def _cut(self, end: int) -> None:
        if end < self.size:
            self.found.cut_bytes += self.size - end
            self.found.notes.append(
                f"{self.path}, position {end:,}: {self.size - end:,} bytes of an unfinished write were cut off"
            )

    def _lose(self, position: int, detail: str, keep: list[tuple[int, int]]) -> int:
        """Add damage at a position to the findings, and return the next offset.

        `keep`: the ranges of the segment's intact batches.
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
        description = " and ".join(lost) or "the leader epochs or offsets of some records"
        self.found.losses.append(Loss(self.path, detail, description, position))
        return at


def _crc_of(path: Path) -> int:
    try:
        crc: int = google_crc32c.value(path.read_bytes())
    except FileNotFoundError:
        return 0
    return crc
