"""Decodes the user data of all `sticky` members at once, with one array operation per entry.

Only the form that all Java clients write is decoded here: V1, complete, of existing partitions.
Other user data is left to `quorate.codecs.sticky_user_data`, member by member, which defines the
meaning of damaged and older user data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints, Topology

MIN_BATCH = 32
"""Groups of up to this many members are decoded faster one by one."""

_BLOCK = 1 << 13
"""Entries that are looked up together: their arrays stay in the cache and need no new memory."""

_PADDING = bytes(1 << 16)
"""After the user data, so that bytes after a name can be read before its length is checked."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MASKS = np.array([(1 << 8 * (size or 8)) - 1 for size in range(8)], np.uint64)
"""For the last word of a name, by the length of the name modulo 8."""

UInts = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class DecodedUserData:
    """Decoded claims: `member[i]` claims partition `number[i]` (-1: of an unknown topic).

    Claims are grouped by member. Only members marked in `complete` are included.
    """

    member: Ints
    number: Ints
    complete: npt.NDArray[np.bool_]
    generation: Ints


def decode_user_data(data: Sequence[bytes | None], topology: Topology) -> DecodedUserData:
    """Decode the user data of all members that current Java clients could have written."""
    parts = [one or b"" for one in data]
    blob = b"".join([*parts, _PADDING])
    complete = np.zeros(len(parts), np.bool_)
    generation: Ints = np.full(len(parts), -1, np.int64)
    ints = np.ndarray((len(blob) - 3,), ">i4", blob, strides=(1,))  # at any byte offset
    owner, starts, lengths, counts = _entries(parts, blob, ints, complete, generation)
    names = _Names(blob, topology)
    # Members with irregular entries are decoded one by one: topic names that cannot be decoded
    # here, topics with gaps, and partitions that do not exist. The last two numbers are for topics
    # -2 and -1.
    limits = np.append(topology.sizes, (0, 1 << 32))
    limits[[index for index, one in enumerate(topology.topics) if one.numbers is not None]] = 0
    first = np.append(topology.first[:-1], (0, 0))
    numbers: list[Ints] = [np.empty(0, np.int64)]
    for begin in range(0, len(owner), _BLOCK):
        start, length, count = (one[begin : begin + _BLOCK] for one in (starts, lengths, counts))
        topic = names.topics(start, length)
        of = np.repeat(topic, count)
        at = np.repeat(start + length + 4 * (1 + count - np.cumsum(count)), count)
        at += np.arange(0, 4 * len(at), 4)
        number = ints[at].astype(np.int64)
        odd = (number < 0) | (number >= limits[of])
        if odd.any() or topic.min() < -1:
            claiming = owner[begin : begin + _BLOCK]
            complete[np.repeat(claiming, count)[odd]] = False
            complete[claiming[topic < -1]] = False
        number += first[of]
        number[of < 0] = -1
        numbers.append(number)
    member, number = np.repeat(owner, counts), np.concatenate(numbers)
    kept = complete[member]
    if not kept.all():
        member, number = member[kept], number[kept]
    return DecodedUserData(member, number, complete, generation)


def _entries(
    parts: Sequence[bytes],
    blob: bytes,
    ints: npt.NDArray[np.signedinteger],
    complete: npt.NDArray[np.bool_],
    generation: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the entries of all members; set `complete` and `generation`.

    Returns the member of each entry, start and length of the name, and number of partitions.
    Entries are grouped by member. Those of members that are not complete have no meaning.
    """
    shorts = np.ndarray((len(blob) - 1,), ">u2", blob, strides=(1,))
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    live = np.flatnonzero(sizes >= 8)
    end = np.cumsum(sizes)[live]
    at = end - sizes[live]
    left = ints[at].astype(np.int64)
    # The shortest entry has six bytes, and the generation four.
    possible = (left >= 0) & (at + 8 + 6 * left <= end)
    live, at, end, left = live[possible], at[possible] + 4, end[possible], left[possible]
    member = np.repeat(live, left)
    starts, lengths, counts = np.zeros((3, len(member)), np.int64)
    place = np.cumsum(left) - left
    entries = left  # of each member
    while True:
        more = (left > 0) & (at + 10 <= end)
        if not more.all():
            last = (left == 0) & (at + 4 == end)
            generation[live[last]] = ints[at[last]]
            complete[live[last]] = True
            live, at, end, left, place, entries = (one[more] for one in (live, at, end, left, place, entries))
        # The last ones are decoded one by one, from their beginning, if that takes less time.
        if len(live) <= MIN_BATCH and entries.sum() <= MIN_BATCH * left.max(initial=0):
            break
        length = shorts[at].astype(np.int64)
        count = ints[at + 2 + length].astype(np.int64)
        after = at + 6 + length + 4 * count
        inside = (length > 0) & (count >= 0) & (after + 4 <= end)
        if not inside.all():
            live, at, end, left, place, entries, length, count, after = (
                one[inside] for one in (live, at, end, left, place, entries, length, count, after)
            )
        starts[place] = at + 2
        lengths[place] = length
        counts[place] = count
        at, left, place = after, left - 1, place + 1
    return member, starts, lengths, counts


class _Names:
    """Finds the topics of names in the user data, by the number of words that names take."""

    def __init__(self, blob: bytes, topology: Topology) -> None:
        self._blob = blob
        self._words = _words_of(blob)
        by_words: dict[int, list[tuple[bytes, int]]] = {}
        for name, index in topology.index.items():
            text = name.encode("utf-8", "surrogatepass")
            by_words.setdefault(_word_count(len(text)), []).append((text, index))
        self._tables = {count: _Table(names) for count, names in by_words.items() if count}

    def topics(self, start: Ints, length: Ints) -> Ints:
        """Return the topic of each name; -1 for an unknown one, -2 if it is not ASCII either."""
        topics: Ints = np.full(len(start), -1, np.int64)
        counts = _word_count(length)
        for count, table in self._tables.items():
            which = np.flatnonzero(counts == count)
            if len(which):
                topics[which] = table.look_up(self._words, start[which], length[which])
        unknown = np.flatnonzero(topics < 0)
        for place, begin, size in zip(unknown.tolist(), start[unknown].tolist(), length[unknown].tolist(), strict=True):
            if not self._blob[begin : begin + size].isascii():
                topics[place] = -2
        return topics


class _Table:
    """Names that take the same number of words, sorted by a hash."""

    def __init__(self, names: Sequence[tuple[bytes, int]]) -> None:
        """`names`: name and number."""
        blob = b"".join(name for name, _ in names)
        lengths = np.array([len(name) for name, _ in names], np.int64)
        self._count = int(_word_count(lengths[0]))
        words = _words(_words_of(blob + _PADDING), np.cumsum(lengths) - lengths, lengths, self._count)
        keys = _keys(words)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._columns = [lengths[order], *(word[order] for word in words)]
        self._numbers = np.array([number for _, number in names], np.int64)[order]
        self._most_equal = int(np.unique(keys, return_counts=True)[1].max())

    def look_up(self, view: UInts, start: Ints, length: Ints) -> Ints:
        """Return the number of each name, or -1."""
        words = _words(view, start, length, self._count)
        first = np.searchsorted(self._keys, _keys(words))
        found: Ints = np.full(len(start), -1, np.int64)
        for place in range(self._most_equal):
            candidate = np.minimum(first + place, len(self._keys) - 1)
            same = np.ones(len(start), np.bool_)
            for column, given in zip(self._columns, (length, *words), strict=True):
                same &= column[candidate] == given
            found = np.where(same, self._numbers[candidate], found)
        return found


def _word_count(length: Any) -> Any:
    return (length + 7) >> 3


def _words_of(blob: bytes) -> UInts:
    """Return a view of the word of eight bytes at each byte."""
    return np.ndarray((len(blob) - 7,), "<u8", blob, strides=(1,))


def _words(view: UInts, start: Ints, length: Ints, count: int) -> list[UInts]:
    """Return texts in `count` words each, the last one padded with zeros."""
    words = [view[start + offset] for offset in range(0, 8 * count, 8)]
    words[-1] &= _MASKS[length % 8]
    return words


def _keys(words: Sequence[UInts]) -> UInts:
    """Return a hash of each text."""
    key = np.zeros(len(words[0]), np.uint64)
    for word in words:
        key = (key ^ (key >> np.uint64(29)) ^ word) * _MIX
    return key
