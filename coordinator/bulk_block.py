"""What a block of a log leaves to replay: of commits that are overwritten again, only when each key came first and what it was last.

Arrays in, arrays out.

Nothing here knows a `CoordinatorState`. Positions count records and markers of a load from its
beginning; between two barriers of a group, nothing looks at its offsets, and nothing takes the
group or an offset of it away, so of all commits of a key there the first (where it comes in Kafka's
order) and the last (what it says) are enough. Barriers are tombstones of the group and of its
offsets, commits that only a closer look can read, and markers of transactions.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from quorate.codecs import Uuid
from quorate.codecs.columnar.column import Slices
from quorate.codecs.columnar.columns import distinct_keys
from quorate.codecs.columnar.frame import Bools, Buffer, Ints
from quorate.codecs.columnar.slots import Slots, binary_array, int16_at, read_slots, values_in
from quorate.codecs.log.raw import RawBlock
from quorate.codecs.log.state_records import COMMIT_TYPE_IDS
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.messages.offsets import OffsetCommitValue
from quorate.codecs.records import encode_message

__all__ = [
    "Barriers",
    "Commits",
    "Other",
    "commits_of",
    "group_of",
    "kept",
    "marks",
    "names_in",
    "others_of",
    "together",
]

COMMIT = RECORD_TYPES[CONSUMER_OFFSETS][1]
TYPES = RECORD_TYPES[CONSUMER_OFFSETS]

CHUNK = 1 << 14
"""Values that are looked at together: few enough that what is between them, in batches of one
record, stays in the processor's cache.
"""


class Other(NamedTuple):
    """A record that is replayed by itself."""

    position: int
    key: bytes | None
    value: bytes | None
    offset: int
    producer_id: int


@dataclass(slots=True)
class Barriers:
    """What commits must not be moved over: places of single groups, by name, and markers, which concern the groups that have transactions."""

    groups: list[tuple[bytes, int]] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)

    def concerned(self, names: list[bytes], transactional: set[bytes]) -> Bools:
        """Which of these groups have barriers."""
        found = {name for name, _ in self.groups} | (transactional if self.markers else set())
        return np.array([name in found for name in names], np.bool_)

    def intervals(self, names: list[bytes], group: Ints, position: Ints, transactional: set[bytes]) -> Ints | None:
        """For each place a number that is equal for places of one group without a barrier between them; `None` if no barrier concerns any of these groups.

        `names`: of all groups; `group`: which of them each place is about.
        """
        code = {name: number for number, name in enumerate(names)}
        known = [(code[name], place) for name, place in self.groups if name in code]
        by_markers = np.array([name in transactional for name in names], np.bool_)
        found: Ints | None = None
        if known:
            width = max(int(position.max()), max(place for _, place in known)) + 1
            borders = np.sort([number * width + place for number, place in known])
            found = np.searchsorted(borders, group * width + position)
        if self.markers and bool(by_markers.any()):
            passed = np.where(by_markers[group], np.searchsorted(np.array(self.markers), position), 0)
            if found is None:
                return passed
            found, _ = together(found, passed)
        return found


@dataclass(slots=True)
class Commits:
    """Keys with the position of their first and last commit, and the last value with its record's offset in the log.

    A key may come again behind a barrier.
    """

    keys: pa.Array
    first: Ints
    last: Ints
    values: pa.Array
    offset: Ints

    def __len__(self) -> int:
        return len(self.first)


def others_of(block: RawBlock, base: int, rows: Ints) -> list[Other]:
    """Some rows of the block, which begins at position `base`, one by one."""
    return [
        Other(
            base + 2 * row + 1,
            block.keys.bytes_at(row),
            block.values.bytes_at(row),
            int(block.offset[row]),
            int(block.producer_id[row]),
        )
        for row in rows.tolist()
    ]


def group_of(key: bytes) -> bytes:
    """The name of the group that a key is about: the first field of every key."""
    return key[4 : 4 + int.from_bytes(key[2:4], "big")]


def marks(other: Other) -> tuple[bytes, bool] | None:
    """The group of a record, and whether the record is a barrier for it, or (else) part of a transaction; `None` if it is neither."""
    key = other.key
    if key is None or len(key) < 4:
        return None
    type_id = int.from_bytes(key[:2], "big")
    if type_id in COMMIT_TYPE_IDS:
        return group_of(key), other.value is None or other.producer_id < 0
    # Whatever has a value at most makes a group, or replaces it.
    return (group_of(key), True) if other.value is None and type_id in TYPES else None


def commits_of(block: RawBlock, *, repeats: bool = False) -> tuple[Slots, Ints | None, Ints]:
    """The different keys, which of them each row has (`None`: row i has key i), and the rows that are commits outside of transactions, without anything odd.

    `repeats`: it is known that most keys come more than once.
    """
    distinct, code = distinct_keys(block.keys, None, try_first=not repeats)
    usual = int16_at(distinct) == COMMIT.type_id
    some = np.flatnonzero(usual)
    slots = distinct if len(some) == len(distinct) else distinct[some]
    if len(some):
        _, sound, ends, _ = read_slots(COMMIT.key, 0, slots)
        usual[some] = sound & (ends == slots.end)
    plain: Bools | None = None
    if not bool(usual.all()):
        plain = usual if code is None else usual[code]
    null = block.values.null
    outside = block.producer_id < 0
    for which in (None if null is None else ~null, None if bool(outside.all()) else outside):
        if which is not None:
            plain = which if plain is None else plain & which
    rows = np.arange(len(block), dtype=np.int64) if plain is None else np.flatnonzero(plain)
    values = block.values if plain is None else block.values[rows]
    sound = _are_sound(values)
    return distinct, code, rows if bool(sound.all()) else rows[sound]


def _are_sound(values: Slots) -> Bools:
    """Which values columns can settle: all of a version that is known, and nothing behind it."""
    found = _are_of_the_usual_form(values)
    rest = np.flatnonzero(~found)
    for first in range(0, len(rest), CHUNK):
        rows = rest[first : first + CHUNK]
        part = values[rows]
        versions = int16_at(part)
        present = values_in(versions)
        for version in present:
            if version in COMMIT.versions:
                which = slice(None) if len(present) == 1 else np.flatnonzero(versions == version)
                slots = part[which]
                _, sound, ends, unknown = read_slots(COMMIT.value, version, slots)
                found[rows[which]] = sound & (ends == slots.end) & (unknown == 0)
    return found


def _usual_form() -> tuple[int, list[tuple[int, int]]]:
    """How long a value is that says nothing but an offset and a topic id, and the places of the bytes that make it one, with these bytes.

    The bytes of lengths, counts and tags are those that stay when all else changes.
    """
    version = COMMIT.versions[-1]
    told = [
        encode_message(
            OffsetCommitValue(
                offset=fill,
                leader_epoch=fill & 0x7FFFFFFF,
                metadata="",
                commit_timestamp=fill,
                topic_id=Uuid(bytes([fill & 0xFF]) * 16),
            ),
            version,
        )
        for fill in (0x1111111111111111, 0x2222222222222222)
    ]
    one, other = (version.to_bytes(2, "big") + each for each in told)
    return len(one), [(place, byte) for place, byte in enumerate(one) if byte == other[place]]


_USUAL_BYTES, _USUAL_PLACES = _usual_form()


def _are_of_the_usual_form(values: Slots) -> Bools:
    """Which values are of the form that nearly all have: in a third of the time that it takes to read them."""
    found: Bools = values.end - values.start == _USUAL_BYTES
    if len(values.data) < _USUAL_BYTES or not bool(found.any()):
        return found
    windows = Buffer(values.data, values.end).window(_USUAL_BYTES)
    for first in range(0, len(values), CHUNK):
        part = slice(first, first + CHUNK)
        start = np.minimum(values.start[part], len(windows) - 1)
        shown = windows[start].view(np.uint8).reshape(len(start), _USUAL_BYTES)
        for place, byte in _USUAL_PLACES:
            found[part] &= shown[:, place] == byte
    return found


def kept(
    block: RawBlock,
    base: int,
    found: tuple[Slots, Ints | None, Ints],
    barriers: Barriers,
    transactional: set[bytes],
) -> Commits:
    """The commits that are left of what `commits_of` found. `barriers` are those in this block."""
    distinct, code, rows = found
    key = rows if code is None else code[rows]
    number, count = key, len(distinct)
    if len(rows) and (barriers.groups or (barriers.markers and transactional)):
        number, count = _numbered(key, base + 2 * rows + 1, distinct, barriers, transactional)
    last = np.full(count, -1, np.int64)
    last[number] = rows
    there = np.flatnonzero(last >= 0)
    first = np.empty(count, np.int64)
    first[number[::-1]] = rows[::-1]
    first, last = first[there], last[there]
    return Commits(
        binary_array(block.keys[last]),
        base + 2 * first + 1,
        base + 2 * last + 1,
        binary_array(block.values[last]),
        block.offset[last],
    )


def _numbered(
    key: Ints, position: Ints, distinct: Slots, barriers: Barriers, transactional: set[bytes]
) -> tuple[Ints, int]:
    """A number for each commit, the same for those of a key without a barrier between them; and how many numbers there are, at most."""
    there = np.flatnonzero(np.bincount(key, minlength=len(distinct)))
    names, group = names_in(distinct[there], "group")
    group_of_key = np.zeros(len(distinct), np.int64)
    group_of_key[there] = group
    group = group_of_key[key]
    # As a rule few groups have barriers, and what follows sorts.
    some = np.flatnonzero(barriers.concerned(names, transactional)[group])
    interval = barriers.intervals(names, group[some], position[some], transactional) if len(some) else None
    if interval is None:
        return key, len(distinct)
    number = key.copy()
    number[some], more = together(key[some], interval)
    number[some] += len(distinct)
    return number, len(distinct) + more


def together(one: Ints, other: Ints) -> tuple[Ints, int]:
    """A number for each pair, and how many numbers there are."""
    different, number = np.unique(one * (int(other.max()) + 1) + other, return_inverse=True)
    return number, len(different)


def names_in(keys: Slots, field: Literal["group", "topic"]) -> tuple[list[bytes], Ints]:
    """The names of groups or topics in keys of commits, and which of them each key has."""
    columns, _, _, _ = read_slots(COMMIT.key, 0, keys)
    name = columns.fields[field]
    assert isinstance(name, Slices)
    coded = binary_array(Slots(keys.data, name.start, name.start + name.length)).dictionary_encode()
    return coded.dictionary.to_pylist(), np.asarray(coded.indices).astype(np.int64)
