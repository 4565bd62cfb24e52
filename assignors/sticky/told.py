"""What the members of a `sticky` group tell in their user data, read from all of them at once: entry by entry, each time of every member that has one more.

Only what every Java client writes is read here (V1, whole, partitions that are there). Everything
else is left to `quorate.codecs.sticky_user_data`, member by member, which also says what damaged
and older user data mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints, Topology

__all__ = ["FEW", "Told", "read_together"]

FEW = 32
"""Members with one more entry up to which they are quicker read one by one."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Told:
    """`member[i]` claims partition `number[i]` (-1: of a topic that is not there), member after member.

    Only members that are `read` are in it.
    """

    member: Ints
    number: Ints
    read: npt.NDArray[np.bool_]
    generation: Ints


def read_together(data: Sequence[bytes | None], topology: Topology) -> Told:
    """Read the user data of all members, as far as they are such as Java clients of today write."""
    told = [one or b"" for one in data]
    blob = b"".join(told)
    read = np.zeros(len(told), np.bool_)
    generation: Ints = np.full(len(told), -1, np.int64)
    nothing: Ints = np.empty(0, np.int64)
    if len(blob) < 8:
        return Told(nothing, nothing, read, generation)
    ints = np.ndarray((len(blob) - 3,), ">i4", blob, strides=(1,))  # at any byte
    entries = _entries(told, blob, ints, read, generation)
    member, name, length, first, count = entries[:, np.argsort(entries[0], kind="stable")]
    topic = _topics(blob, name, length, topology)
    starts = np.cumsum(count) - count
    partition = ints[np.repeat(first - 4 * starts, count) + 4 * np.arange(int(count.sum()))].astype(np.int64)
    # An odd one sends its member the other way: topics of unreadable names, or with gaps, and
    # partitions that are not there.
    sizes = np.append(topology.sizes, 0)
    sizes[[index for index, one in enumerate(topology.topics) if one.numbers is not None]] = -1
    of = np.repeat(topic, count)
    odd = (of < -1) | ((of >= 0) & ((partition < 0) | (partition >= sizes[of])))
    owner = np.repeat(member, count)
    read[owner[odd]] = False
    read[member[topic < -1]] = False
    kept = read[owner]
    number = np.where(of >= 0, topology.first[of] + partition, -1)
    return Told(owner[kept], number[kept], read, generation)


def _entries(
    told: Sequence[bytes],
    blob: bytes,
    ints: npt.NDArray[np.signedinteger],
    read: npt.NDArray[np.bool_],
    generation: Ints,
) -> Ints:
    """Entries of members that are `read`, which is found out here, like `generation`: member, start and length of the name, start and number of partitions."""
    shorts = np.ndarray((len(blob) - 1,), ">i2", blob, strides=(1,))
    sizes = np.fromiter(map(len, told), np.int64, len(told))
    ends = np.cumsum(sizes)
    live = np.flatnonzero(sizes >= 8)
    at, end = (ends - sizes)[live], ends[live]
    left = ints[at].astype(np.int64)
    at += 4
    found: list[Ints] = []
    while len(live):
        last = (left == 0) & (at + 4 == end)
        generation[live[last]] = ints[at[last]]
        read[live[last]] = True
        # The shortest entry takes six bytes, and the generation four.
        more = (left > 0) & (at + 10 <= end)
        if np.count_nonzero(more) < FEW:
            break
        live, at, end, left = live[more], at[more], end[more], left[more]
        length = shorts[at].astype(np.int64)
        first = at + 2 + length
        fits = (length > 0) & (first + 8 <= end)
        if not fits.all():
            live, at, end, left, length, first = (one[fits] for one in (live, at, end, left, length, first))
        count = ints[first].astype(np.int64)
        fits = (count >= 0) & (first + 8 + 4 * count <= end)
        if not fits.all():
            live, at, end, left, length, first, count = (
                one[fits] for one in (live, at, end, left, length, first, count)
            )
        found.append(np.stack([live, at + 2, length, first + 4, count]))
        at = first + 4 + 4 * count
        left = left - 1
    entries = np.concatenate([np.empty((5, 0), np.int64), *found], axis=1)
    return entries[:, read[entries[0]]]


def _topics(blob: bytes, start: Ints, length: Ints, topology: Topology) -> Ints:
    """The topic of each name; -1 for one that is not there, -2 for one that is not ASCII and not there."""
    topics: Ints = np.full(len(start), -1, np.int64)
    by_length: dict[int, list[tuple[bytes, int]]] = {}
    for name, index in topology.index.items():
        text = name.encode("utf-8", "surrogatepass")
        by_length.setdefault(len(text), []).append((text, index))
    for size in np.flatnonzero(np.bincount(length)).tolist():
        which = np.flatnonzero(length == size)
        rows = np.ndarray((len(blob) - size + 1, size), np.uint8, blob, strides=(1, 1))[start[which]]
        found = _look_up(rows, by_length.get(size, []))
        found[(found < 0) & (rows >= 128).any(axis=1)] = -2
        topics[which] = found
    return topics


def _look_up(rows: npt.NDArray[np.uint8], names: Sequence[tuple[bytes, int]]) -> Ints:
    """For each row of bytes the number of the name that is equal; -1 where none is."""
    if not names:
        return np.full(len(rows), -1, np.int64)
    table = _words(np.frombuffer(b"".join(text for text, _ in names), np.uint8).reshape(len(names), -1))
    keys = _keys(table)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():  # two names that somebody chose so
        known = dict(names)
        return np.array([known.get(row.tobytes(), -1) for row in rows], np.int64)
    words = _words(rows)
    place = order[np.minimum(np.searchsorted(keys, _keys(words)), len(keys) - 1)]
    numbers = np.array([index for _, index in names], np.int64)
    return np.where((table[place] == words).all(axis=1), numbers[place], -1)


def _words(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Rows of bytes as rows of whole words."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)


def _keys(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of each row."""
    key = np.zeros(len(words), np.uint64)
    for column in words.T:
        key = (key ^ (key >> np.uint64(29)) ^ column) * _MIX
    return key
