"""Selects the records of a block that must be replayed.

Of several commits of a key, only the first (for Kafka's order) and the last (for its value) are
needed, unless a barrier of the group lies between them. Between two barriers, no record reads the
group's offsets, or removes the group or an offset. Barriers are tombstones of the group and of its
offsets, commits that columns cannot decode, and transaction markers.

Positions count records and markers from the beginning of a load. This module does not know
`CoordinatorState`.
"""

from dataclasses import field, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from quorate.codecs import Uuid
from quorate.codecs.columnar.assemble import numbers_of
from quorate.codecs.columnar.column import Slices
from quorate.codecs.columnar.columns import distinct_keys
from quorate.codecs.columnar.frame import Bools, Buffer, Ints
from quorate.codecs.columnar.slots import Slots, binary_array, int16_at, read_slots, values_in
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.log.raw import RawBlock
from quorate.codecs.log.state_records import COMMIT_TYPE_IDS, GROUP_TYPES
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.messages.offsets import OffsetCommitValue
from quorate.codecs.records import encode_message

COMMIT = RECORD_TYPES[CONSUMER_OFFSETS][1]
TYPES = RECORD_TYPES[CONSUMER_OFFSETS]

_DELETING = [type_id for type_id, one in TYPES.items() if one.name in GROUP_TYPES]

CHUNK = 1 << 14
"""Number of values processed together, so that intermediate arrays fit into the CPU cache."""


class Other(NamedTuple):
    """A record that is replayed on its own."""

    position: int
    key: bytes | None
    value: bytes | None
    offset: int
    producer_id: int
    timestamp_ms: int


FoundCommits: TypeAlias = tuple[Slots, Ints | None, Ints]
"""The result of `commits_of`."""


@dataclass(slots=True)
class Barriers:
    """Positions that commits must not be moved across.

    `groups`: of single groups, by name. `markers`: of markers, for groups with transactions.
    """

    groups: list[tuple[bytes, int]] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)

    def affect(self, names: list[bytes], transactional: set[bytes]) -> Bools:
        """Return which of these groups have barriers."""
        found = {name for name, _ in self.groups} | (transactional if self.markers else set())
        return np.array([name in found for name in names], np.bool_)

    def intervals(self, names: list[bytes], group: Ints, position: Ints, transactional: set[bytes]) -> Ints | None:
        """Return a number per position, equal for a group's positions without a barrier in between.

        `names`: of all groups. `group`: each position's group. Returns `None` if no barrier affects
        these groups.
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
            found, _ = pair_numbers(found, passed)
        return found


@dataclass(slots=True)
class Commits:
    """Keys with the positions of their first and last commit, and the last value and log offset.

    A key may occur again after a barrier.
    """

    keys: pa.Array
    first: Ints
    last: Ints
    values: pa.Array
    offset: Ints

    def __len__(self) -> int:
        return len(self.first)


def others_of(block: RawBlock, base: int, rows: Ints) -> list[Other]:
    """Return rows of the block, which begins at position `base`, as single records."""
    columns = (
        (base + 2 * rows + 1).tolist(),
        binary_array(block.keys[rows]).to_pylist(),
        binary_array(block.values[rows]).to_pylist(),
        block.offset[rows].tolist(),
        block.producer_id[rows].tolist(),
        block.timestamp_ms[rows].tolist(),
    )
    return list(map(Other._make, zip(*columns, strict=True)))


def group_of(key: bytes) -> bytes:
    """Return the group id of a key, which is the first field of every key."""
    return key[4 : 4 + int.from_bytes(key[2:4], "big")]


def barrier_or_transaction(other: Other) -> tuple[bytes, bool] | None:
    """Return the group of a barrier or of a transaction's record, else `None`.

    The second value is True for a barrier.
    """
    key = other.key
    if key is None or len(key) < 4:
        return None
    type_id = int.from_bytes(key[:2], "big")
    if type_id in COMMIT_TYPE_IDS:
        return group_of(key), other.value is None or other.producer_id < 0
    # Other records with a value at most create or replace a group.
    return (group_of(key), True) if other.value is None and type_id in TYPES else None


def commits_of(block: RawBlock, *, repeats: bool = False) -> FoundCommits:
    """Return the distinct keys, the key of each row, and the rows that are plain commits.

    The key of each row is `None` if row i has key i. Plain commits are outside of transactions, and
    can be decoded by columns. `repeats`: most keys are known to occur more than once.
    """
    distinct, code = distinct_keys(block.keys, None, try_first=not repeats)
    usual = _are_commit_keys(distinct)
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


def _are_commit_keys(keys: Slots) -> Bools:
    """Return which keys are of commits, and can be decoded by columns without trailing bytes."""
    usual: Bools = int16_at(keys) == COMMIT.type_id
    some = np.flatnonzero(usual)
    slots = keys if len(some) == len(keys) else keys[some]
    if len(some):
        _, sound, ends, _ = read_slots(COMMIT.key, 0, slots)
        usual[some] = sound & (ends == slots.end)
    return usual


def _are_sound(values: Slots) -> Bools:
    """Return which values columns can decode: of a known version, without trailing bytes."""
    found = _have_common_form(values)
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


def _common_form() -> tuple[int, list[tuple[int, int]]]:
    """Return the length of the most common form of a value, and its constant bytes by position.

    That form has only an offset and a topic id. The constant bytes are lengths, counts and tags.
    """
    version = COMMIT.versions[-1]
    samples = [
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
    one, other = (version.to_bytes(2, "big") + sample for sample in samples)
    return len(one), [(place, byte) for place, byte in enumerate(one) if byte == other[place]]


_COMMON_BYTES, _COMMON_PLACES = _common_form()


def _have_common_form(values: Slots) -> Bools:
    """Return which values have the most common form, in a third of the time of decoding them."""
    found: Bools = values.end - values.start == _COMMON_BYTES
    if len(values.data) < _COMMON_BYTES or not bool(found.any()):
        return found
    windows = Buffer(values.data, values.end).window(_COMMON_BYTES)
    for first in range(0, len(values), CHUNK):
        part = slice(first, first + CHUNK)
        start = np.minimum(values.start[part], len(windows) - 1)
        shown = windows[start].view(np.uint8).reshape(len(start), _COMMON_BYTES)
        for place, byte in _COMMON_PLACES:
            found[part] &= shown[:, place] == byte
    return found


def needed_commits(
    block: RawBlock,
    base: int,
    found: FoundCommits,
    barriers: Barriers,
    transactional: set[bytes],
) -> Commits:
    """Return the needed commits of those that `commits_of` found.

    `barriers`: those in this block.
    """
    distinct, code, rows = found
    key = rows if code is None else code[rows]
    number, count = key, len(distinct)
    if len(rows) and (barriers.groups or (barriers.markers and transactional)):
        number, count = _numbered(key, base + 2 * rows + 1, distinct, barriers, transactional)
    last = np.full(count, -1, np.int64)
    last[number] = rows
    present = np.flatnonzero(last >= 0)
    first = np.empty(count, np.int64)
    first[number[::-1]] = rows[::-1]
    first, last = first[present], last[present]
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
    """Return a number per commit, equal for commits of a key without a barrier in between.

    Also returns an upper limit of these numbers.
    """
    present = np.flatnonzero(np.bincount(key, minlength=len(distinct)))
    names, group = names_in(distinct[present], "group")
    group_of_key = np.zeros(len(distinct), np.int64)
    group_of_key[present] = group
    return _split(key, len(distinct), names, group_of_key[key], position, barriers, transactional)


def _split(
    number: Ints,
    count: int,
    names: list[bytes],
    group: Ints,
    position: Ints,
    barriers: Barriers,
    transactional: set[bytes],
) -> tuple[Ints, int]:
    """Return other numbers, less than the returned limit, that differ across barriers of the group.

    `number`: below `count`, with the index of its group in `names` and its position.
    """
    # Usually few groups have barriers, and the rest of this function sorts.
    some = np.flatnonzero(barriers.affect(names, transactional)[group])
    interval = barriers.intervals(names, group[some], position[some], transactional) if len(some) else None
    if interval is None:
        return number, count
    split = number.copy()
    split[some], more = pair_numbers(number[some], interval)
    split[some] += count
    return split, count + more


def without_offsets(block: RawBlock) -> RawBlock:
    """Return a block that leads to the same groups, without most commits and without markers.

    The commits in it are outside of transactions.
    """
    found = block.rows(rows_of_groups(block))
    return replace(found, producer_id=np.full(len(found), -1, np.int64))


def rows_of_groups(block: RawBlock) -> Ints:
    """Return the rows of a block that groups need, ascending.

    Of commits, these are the first after each tombstone of the group, which creates it, and those
    that columns cannot decode.
    """
    distinct, code = distinct_keys(block.keys, None, try_first=False)
    assert code is not None
    usual = _are_commit_keys(distinct)
    kept = ~usual[code]
    null = block.values.null
    rows = np.flatnonzero(~kept if null is None else ~kept & ~null)
    barriers = Barriers()
    if null is not None:
        deleting = np.isin(int16_at(distinct), _DELETING)
        deleted = others_of(block, 0, np.flatnonzero(deleting[code] & null))
        barriers.groups += [(group_of(one.key), one.position) for one in deleted if one.key is not None]
    some = np.flatnonzero(usual)
    names, group = names_in(distinct[some], "group")
    group_of_key = np.zeros(len(distinct), np.int64)
    group_of_key[some] = group

    def first_of(rows: Ints) -> Ints:
        group = group_of_key[code[rows]]
        number, count = _split(group, len(names), names, group, 2 * rows + 1, barriers, set())
        first = np.full(count, -1, np.int64)
        first[number[::-1]] = rows[::-1]
        return first[first >= 0]

    if len(rows):
        first = first_of(rows)
        if not bool(_are_sound(block.values[first]).all()):
            sound = _are_sound(block.values[rows])
            kept[rows[~sound]] = True
            first = first_of(rows[sound])
        kept[first] = True
    return np.flatnonzero(kept)


def pair_numbers(one: Ints, other: Ints) -> tuple[Ints, int]:
    """Return a number per distinct pair, and the count of these numbers."""
    width = int(other.max()) + 1
    pair = one * width + other
    size = (int(one.max()) + 1) * width
    if size > 4 * len(pair):
        different, number = np.unique(pair, return_inverse=True)
        return number, len(different)
    found = np.zeros(size, np.int64)  # counting takes a tenth of the time of sorting
    found[pair] = 1
    number = np.cumsum(found)
    return number[pair] - 1, int(number[-1])


def names_in(keys: Slots, field: Literal["group", "topic"]) -> tuple[list[bytes], Ints]:
    """Return the distinct groups or topics in keys of commits, and the index of each key's."""
    columns, _, _, _ = read_slots(COMMIT.key, 0, keys)
    name = columns.fields[field]
    assert isinstance(name, Slices)
    coded = binary_array(Slots(keys.data, name.start, name.start + name.length)).dictionary_encode()
    return coded.dictionary.to_pylist(), numbers_of(coded.indices).astype(np.int64)
