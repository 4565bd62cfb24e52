"""Push-down: what a job needs of a log, so that the rest is left out where the log is read: before it is decoded, and before it goes to the JVM, which is what takes the longest.

Always more is kept than the job will use, never less: it looks at the rows as if they were all.
Where offsets do not rise, everything is kept.
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

__all__ = ["Log", "PushDown", "What", "is_later"]

What: TypeAlias = Literal["state", "groups", "commits"]
Log: TypeAlias = tuple[str | None, int]
"""Topic and partition; without a topic that partition of any."""

NO_TIMESTAMP: Final = -1
"""What a record has that does not say when it was written, which is therefore later than nothing."""

_DENSE: Final = 1 << 22
"""Up to so many different numbers, the last place of each is found without sorting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushDown:
    """What is needed of a log.

    * `state`: of each key the last record, the last tombstone and the last record that is none;
    * `groups`: every record of groups, no commits;
    * `commits`: of each key the last commit and the last tombstone before each of `times_ms`
      (ascending), or all of them if there are no times.

    The log ends at `until_offsets` (other logs have nothing then), or with its first record later
    than `until_ms`, which is kept, too, since it tells where that is.
    """

    what: What
    until_ms: int | None = None
    until_offsets: Mapping[Log, int] | None = None
    times_ms: tuple[int, ...] = field(default=())

    def text(self) -> str:
        """As an option of the source."""
        ends = None if self.until_offsets is None else [[*at, end] for at, end in self.until_offsets.items()]
        return json.dumps([self.what, self.until_ms, ends, self.times_ms])

    @classmethod
    def parsed(cls, text: str) -> "PushDown":
        """What `text` gave."""
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
        """What is needed of the records of a block.

        `batches`: those that the records are of; `end_offset`: where the log is known to end for
        this.
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
        if not read_committed:  # how a transaction ended is not known here
            needed |= (batches.attributes[records.batch] & TRANSACTIONAL) != 0
        numbers[needed] = -1  # neither that nor what is later replaces anything
        return NeededRecords(records, needed, numbers)

    def _end(self, topic: str, partition: int | None) -> int:
        assert self.until_offsets is not None
        if partition is None:
            return -1
        return self.until_offsets.get((topic, partition), self.until_offsets.get((None, partition), -1))

    def _numbers(self, records: Records) -> Ints:
        """A number for each record, the same for those of which only the last is needed."""
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
    """The records of a block that are `needed` in any case (`None`: all of them), and the last of each of the `numbers` that are not negative."""

    records: Records
    needed: Bools | None
    numbers: Ints | None

    def places(self) -> Ints:
        """Which of the records are needed, in their order."""
        if self.needed is None:
            return np.arange(len(self.records))
        needed = self.needed
        if self.numbers is not None:
            needed = needed.copy()
            needed[_last_places(self.numbers)] = True
        return np.flatnonzero(needed)

    def leave_out(self, places: Ints) -> bool:
        """Have records replace no others, because they turned out to be damaged.

        Returns whether others are needed now.
        """
        if self.numbers is None or not bool((self.numbers[places] >= 0).any()):
            return False
        self.numbers[places] = -1
        return True

    def of_places(self, places: Ints) -> Records:
        """These of the records."""
        return self.records if len(places) == len(self.records) else self.records[places]


def is_later(timestamp: Ints, moment_ms: int) -> Bools:
    """Which records say that they were written after a moment, as the rows tell that are made of them."""
    return (timestamp > max(moment_ms, NO_TIMESTAMP)) & (timestamp <= LATEST_MS)


def _last_places(numbers: Ints) -> Ints:
    """Where each of the numbers is for the last time."""
    size = int(numbers.max()) + 1
    if size > _DENSE:
        there = np.flatnonzero(numbers >= 0)[::-1]
        return there[np.unique(numbers[there], return_index=True)[1]]
    last = np.full(size + 1, -1, np.int64)
    last[numbers] = np.arange(
        len(numbers)
    )  # of several assignments to one place the last one counts; those of -1 have the last place
    last = last[:size]
    return last[last >= 0]
