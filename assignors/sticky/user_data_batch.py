"""Decodes the user data of all `sticky` members at once, with one array operation per entry.

Only the form that all Java clients write is decoded here: V1, complete, of existing partitions.
Other user data is left to `quorate.codecs.sticky_user_data`, member by member, which defines the
meaning of damaged and older user data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors.topology import Ints, Topology

MIN_BATCH = 32
"""Groups of up to this many members are decoded faster one by one."""

_MIX = np.uint64(0x9E3779B97F4A7C15)


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
    blob = b"".join(parts)
    complete = np.zeros(len(parts), np.bool_)
    generation: Ints = np.full(len(parts), -1, np.int64)
    nothing: Ints = np.empty(0, np.int64)
    if len(blob) < 8:
        return DecodedUserData(nothing, nothing, complete, generation)
    ints = np.ndarray((len(blob) - 3,), ">i4", blob, strides=(1,))  # at any byte offset
    entries = _entries(parts, blob, ints, complete, generation)
    member, name, length, first, count = entries[:, np.argsort(entries[0], kind="stable")]
    topic = _topics(blob, name, length, topology)
    starts = np.cumsum(count) - count
    partition = ints[np.repeat(first - 4 * starts, count) + 4 * np.arange(int(count.sum()))].astype(np.int64)
    # Members with irregular entries are decoded one by one: topic names that cannot be decoded
    # here, topics with gaps, and partitions that do not exist.
    sizes = np.append(topology.sizes, 0)
    sizes[[index for index, one in enumerate(topology.topics) if one.numbers is not None]] = -1
    of = np.repeat(topic, count)
    odd = (of < -1) | ((of >= 0) & ((partition < 0) | (partition >= sizes[of])))
    owner = np.repeat(member, count)
    complete[owner[odd]] = False
    complete[member[topic < -1]] = False
    kept = complete[owner]
    number = np.where(of >= 0, topology.first[of] + partition, -1)
    return DecodedUserData(owner[kept], number[kept], complete, generation)


def _entries(
    parts: Sequence[bytes],
    blob: bytes,
    ints: npt.NDArray[np.signedinteger],
    complete: npt.NDArray[np.bool_],
    generation: Ints,
) -> Ints:
    """Return the entries of members whose user data is complete; set `complete` and `generation`.

    Rows: member, start and length of the name, start and number of partitions.
    """
    shorts = np.ndarray((len(blob) - 1,), ">i2", blob, strides=(1,))
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    ends = np.cumsum(sizes)
    live = np.flatnonzero(sizes >= 8)
    at, end = (ends - sizes)[live], ends[live]
    left = ints[at].astype(np.int64)
    at += 4
    found: list[Ints] = []
    while len(live):
        last = (left == 0) & (at + 4 == end)
        generation[live[last]] = ints[at[last]]
        complete[live[last]] = True
        # The shortest entry has six bytes, and the generation four.
        more = (left > 0) & (at + 10 <= end)
        if np.count_nonzero(more) < MIN_BATCH:
            break
        live, at, end, left = live[more], at[more], end[more], left[more]
        length = shorts[at].astype(np.int64)
        first = at + 2 + length
        inside = (length > 0) & (first + 8 <= end)
        if not inside.all():
            live, at, end, left, length, first = (one[inside] for one in (live, at, end, left, length, first))
        count = ints[first].astype(np.int64)
        inside = (count >= 0) & (first + 8 + 4 * count <= end)
        if not inside.all():
            live, at, end, left, length, first, count = (
                one[inside] for one in (live, at, end, left, length, first, count)
            )
        found.append(np.stack([live, at + 2, length, first + 4, count]))
        at = first + 4 + 4 * count
        left = left - 1
    entries = np.concatenate([np.empty((5, 0), np.int64), *found], axis=1)
    return entries[:, complete[entries[0]]]


def _topics(blob: bytes, start: Ints, length: Ints, topology: Topology) -> Ints:
    """Return the topic of each name; -1 for an unknown one, -2 if it is not ASCII either."""
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
    """Return for each row of bytes the number of the equal name, or -1."""
    if not names:
        return np.full(len(rows), -1, np.int64)
    table = _words(np.frombuffer(b"".join(text for text, _ in names), np.uint8).reshape(len(names), -1))
    keys = _keys(table)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():  # two names with the same hash
        known = dict(names)
        return np.array([known.get(row.tobytes(), -1) for row in rows], np.int64)
    words = _words(rows)
    place = order[np.minimum(np.searchsorted(keys, _keys(words)), len(keys) - 1)]
    numbers = np.array([index for _, index in names], np.int64)
    return np.where((table[place] == words).all(axis=1), numbers[place], -1)


def _words(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Convert rows of bytes to rows of 8-byte words, padded."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)


def _keys(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a hash of each row."""
    key = np.zeros(len(words), np.uint64)
    for column in words.T:
        key = (key ^ (key >> np.uint64(29)) ^ column) * _MIX
    return key
