"""Push-down: skip records that a job does not need, before decoding and the transfer to the JVM.

The transfer takes most of the time. The source may keep more records than the job needs, never
fewer, and the job gives the same result on all rows. Everything is kept where offsets do not
increase.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from quorate.codecs.batches.v2 import TRANSACTIONAL
from quorate.codecs.columnar.frame import Bools, Ints
from quorate.codecs.columnar.slots import binary_array, int16_at
from quorate.codecs.log.blocks import Batches, Records
from quorate.codecs.log.state_records import COMMIT_TYPE_IDS
from quorate.pipeline.schema import LATEST_MS

What: TypeAlias = Literal["state", "groups", "commits"]
Log: TypeAlias = tuple[str | None, int]
"""Topic and partition; a topic of `None` matches every topic."""

NO_TIMESTAMP: Final = -1
"""Timestamp of a record without one. Such a record is not later than any time."""

_DENSE: Final = 1 << 22
"""With up to this many different numbers, the last place of each is found without sorting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDown:
    """The records that a job needs.

    * `state`: the last tombstone and the last other record of each key;
    * `groups`: every record except offset commits;
    * `commits`: the last commit and the last tombstone of each key before each of `times_ms`
      (ascending), or all of them without times.

    Records after `until_offsets` are not needed, nor those of logs that are missing in it. With
    `until_ms`, the first later record is kept, because it marks the end, and all after it are not
    needed.
    """

    what: What
    until_ms: int | None = None
    until_offsets: Mapping[Log, int] | None = None
    times_ms: tuple[int, ...] = field(default=())

    def text(self) -> str:
        """Return the value for the option `PUSH_DOWN`."""
        ends = None if self.until_offsets is None else [[*at, end] for at, end in self.until_offsets.items()]
        return json.dumps([self.what, self.until_ms, ends, self.times_ms])

    @classmethod
    def parsed(cls, text: str) -> "PushDown":
        """Parse the result of `text`."""
        what, until_ms, ends, times_ms = json.loads(text)
        by_log = None if ends is None else {(topic, partition): end for topic, partition, end in ends}
        return cls(what=what, until_ms=until_ms, until_offsets=by_log, times_ms=tuple(times_ms))

    def choice(
        self,
        records: Records,
        batches: Batches,
        topic: str,
        partition: int | None,
        *,
        read_committed: bool,
        end_offset: int | None = None,
    ) -> "NeededRecords":
        """Return the needed records of a block.

        `batches`: the batches of the records; `end_offset`: only earlier records are needed.
        """
        if self.until_offsets is not None:
            records = records[np.flatnonzero(records.offset <= self._end(topic, partition))]
        if end_offset is not None:
            records = records[np.flatnonzero(records.offset < end_offset)]
        if not len(records) or not bool((records.offset[1:] > records.offset[:-1]).all()):
            return NeededRecords(records, None, None)
        needed = np.zeros(len(records), np.bool_)
        if self.until_ms is not None:
            later = is_later(records.timestamp, self.until_ms)
            if bool(later.any()):
                end = int(later.argmax()) + 1
                records, needed = records[:end], needed[:end]
                needed[-1] = True
        if self.what != "state":
            commits = np.isin(int16_at(records.keys), COMMIT_TYPE_IDS)
            if self.what == "groups" or not self.times_ms:
                return NeededRecords(records, needed | (~commits if self.what == "groups" else commits), None)
            numbers = np.where(commits, self._numbers(records), -1)
        else:
            numbers = self._numbers(records)
        if not read_committed:  # a transaction may have been aborted
            needed |= (batches.attributes[records.batch] & TRANSACTIONAL) != 0
        numbers[needed] = -1  # such records and the one after the end replace no others
        return NeededRecords(records, needed, numbers)

    def _end(self, topic: str, partition: int | None) -> int:
        assert self.until_offsets is not None
        if partition is None:
            return -1
        return self.until_offsets.get((topic, partition), self.until_offsets.get((None, partition), -1))

    def _numbers(self, records: Records) -> Ints:
        """Return a number for each record; only the last record of each number is needed."""
        coded = binary_array(records.keys).dictionary_encode(null_encoding="encode")
        numbers = np.asarray(coded.indices).astype(np.int64) * 2
        if records.values.null is not None:
            numbers += records.values.null
        if self.times_ms:
            known = np.where(records.timestamp > LATEST_MS, NO_TIMESTAMP, records.timestamp)
            span = np.searchsorted(np.array(self.times_ms, np.int64), known)
            low = int(span.min())
            numbers = numbers * (int(span.max()) - low + 1) + (span - low)
        return numbers


@dataclass(slots=True)
class NeededRecords:
    """The needed records of a block.

    These are the ones in the mask `needed` (`None`: all), and the last record of each of `numbers`
    that is not negative.
    """

    records: Records
    needed: Bools | None
    numbers: Ints | None

    def places(self) -> Ints:
        """Return the indices of the needed records, ascending."""
        if self.needed is None:
            return np.arange(len(self.records))
        needed = self.needed
        if self.numbers is not None:
            needed = needed.copy()
            needed[_last_places(self.numbers)] = True
        return np.flatnonzero(needed)

    def leave_out(self, places: Ints) -> bool:
        """Mark records as damaged, so that they replace no others.

        Returns whether other records are needed now.
        """
        if self.numbers is None or not bool((self.numbers[places] >= 0).any()):
            return False
        self.numbers[places] = -1
        return True

    def of_places(self, places: Ints) -> Records:
        """Return the records at these indices."""
        return self.records if len(places) == len(self.records) else self.records[places]


def is_later(timestamp: Ints, moment_ms: int) -> Bools:
    """Return which timestamps are later than a time, by the same rule as `rows.timestamps`."""
    return (timestamp > max(moment_ms, NO_TIMESTAMP)) & (timestamp <= LATEST_MS)


def _last_places(numbers: Ints) -> Ints:
    """Return the last index of each number that is not negative."""
    size = int(numbers.max()) + 1
    if size > _DENSE:
        backwards = np.flatnonzero(numbers >= 0)[::-1]
        return backwards[np.unique(numbers[backwards], return_index=True)[1]]
    last = np.full(size + 1, -1, np.int64)
    # The last assignment to an index counts. Index -1 is the extra last element.
    last[numbers] = np.arange(len(numbers))
    last = last[:size]
    return last[last >= 0]
