"""Groups of interchangeable partitions and members, which make the problem small.

Partitions are of one kind (a *cell*) if the same members subscribe to their topics and can read
them locally. Members are of one kind if they have the same subscription, the same rack, and own the
same number of partitions of each cell. Numbers follow member ids and names, so the order of the
input does not matter.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.owners import previous_owners
from quorate.assignors.subscribers import by_topic, topics_by_name
from quorate.assignors.topology import Ints, runs

Locality = Literal["replica", "leader"]
"""What makes a partition local to a member: a replica, or the leader, in the member's rack."""

LARGEST_TABLE = 1 << 22
"""Numbers up to this one are compared by a table, larger ones by sorting."""


class Kinds:
    """The kinds of members and partitions of a group.

    Members are numbered (ranked) by id: `number_of[rank]` is the group's number. Racks are numbered
    by name; the last number means no rack.

    `partitions`: the topology's numbers of all partitions with a subscriber, by topic name and
    partition; `cell_of` and `owner_of` (a rank, or -1) belong to them. A cell has
    `topics_of[cell]`, a kind of topic, `local[cell, rack]`, whether it is local to members of a
    rack, and `size_of[cell]` partitions.

    Kind of topic `subscribed_topics[i]` has the subscription `subscribed_by[i]`; topics ascend, and
    so do the subscriptions of a topic.

    Members with owned partitions have *pairs* with the cells of these, sorted by member and cell:
    `pair_member`, `pair_cell`, and `pair_size`, the number of partitions. Those of a member are
    pairs `pairs_from[rank]` to `pairs_from[rank + 1] - 1`. `owned` are the partitions that have an
    owner, as positions in `partitions`, and `pair_of` are their pairs.

    `kind_of[rank]` is a member's kind; `members_of_kind[kind]` counts its members, and
    `first_of[kind]` is the first of them, whose subscription, rack and pairs are those of the kind.
    """

    def __init__(self, group: GroupSpec, locality: Locality) -> None:
        topology = group.topology
        self.number_of: Ints = group.id_order
        racks = sorted(group.racks)
        rack_number = np.array([racks.index(rack) for rack in group.racks] + [len(racks)], np.int64)
        self.racks = len(racks)
        self.rack_of: Ints = rack_number[group.rack_of[self.number_of]]
        # Subscriptions by first member, so that their numbers depend on ids only.
        self.subscription_of, first = _by_first(group.subscription_of[self.number_of], len(group.subscriptions))
        self.members_of: Ints = np.bincount(self.subscription_of, minlength=len(first))
        kind_of_topic = self._topics(group, group.subscription_of[self.number_of[first]])
        topics = topics_by_name(group, np.flatnonzero(kind_of_topic >= 0))
        self.partitions = topology.partitions_of(topics)

        local_of, set_of = self._local(group, racks, locality)
        codes = set_of[self.partitions]
        if self.topic_kinds > 1:
            codes += np.repeat(kind_of_topic[topics] * len(local_of), topology.sizes[topics])
        cells, self.cell_of, self.size_of = numbered(codes, self.topic_kinds * len(local_of))
        self.topics_of: Ints = cells // len(local_of)
        self.local: npt.NDArray[np.bool_] = local_of[cells % len(local_of)]

        rank: Ints = np.empty(len(self.number_of) + 1, np.int64)
        rank[self.number_of] = np.arange(len(self.number_of))
        rank[-1] = -1
        self.owner_of: Ints = rank[previous_owners(group)[self.partitions]]
        self._pairs()
        self._kinds()

    def _topics(self, group: GroupSpec, given: Ints) -> Ints:
        """Return the kind of each topic of the topology by its subscribers; -1 without subscribers.

        `given`: the group's numbers of the subscriptions. Kinds are sorted by their subscriptions.
        """
        listed = [group.subscriptions[number].topics for number in given.tolist()]
        topics, subscriptions, starts, ends = by_topic(listed, len(group.topology))
        data = subscriptions.astype(">u4").tobytes()
        subscribers = [data[4 * start : 4 * end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        different = sorted(set(subscribers))
        index = {each: number for number, each in enumerate(different)}
        self.topic_kinds = len(different)
        self.subscribed_topics: Ints = np.repeat(np.arange(len(different)), [len(each) // 4 for each in different])
        self.subscribed_by: Ints = np.frombuffer(b"".join(different), ">u4").astype(np.int64)
        kind_of: Ints = np.full(len(group.topology), -1, np.int64)
        kind_of[topics[starts]] = [index[each] for each in subscribers]
        return kind_of

    @staticmethod
    def _local(group: GroupSpec, racks: list[str], locality: Locality) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Return the distinct sets of local member racks, and the set of each partition.

        A set is a row with a column for each rack, and one for no rack.
        """
        topology = group.topology
        number = {rack: index for index, rack in enumerate(racks)}
        sets = [
            tuple(
                sorted({number[rack] for rack in (listed if locality == "replica" else listed[:1]) if rack in number})
            )
            for listed in topology.replica_racks
        ]
        different = sorted(set(sets))
        index = {each: place for place, each in enumerate(different)}
        local = np.zeros((len(different), len(racks) + 1), np.bool_)
        for place, each in enumerate(different):
            local[place, list(each)] = True
        return local, np.array([index[each] for each in sets], np.int64)[topology.replica_racks_of]

    def _pairs(self) -> None:
        """Compute the pairs of members and cells."""
        cells = max(1, len(self.size_of))
        self.owned: Ints = np.flatnonzero(self.owner_of >= 0)
        codes = self.owner_of * cells + self.cell_of
        if len(self.owned) < len(codes):
            codes = codes[self.owned]
        pairs, self.pair_of, self.pair_size = numbered(codes, len(self.number_of) * cells)
        self.pair_member: Ints = pairs // cells
        self.pair_cell: Ints = pairs % cells
        self.pairs_from: Ints = np.searchsorted(self.pair_member, np.arange(len(self.number_of) + 1))

    def _kinds(self) -> None:
        """Compute kinds of members, numbered by first member."""
        counts, pairs = self.pair_size, np.diff(self.pairs_from)
        sums = np.zeros(len(counts) + 1, np.uint64)
        np.cumsum(_hashed(self.pair_cell * (1 << 32) + counts), out=sums[1:])
        owned = sums[self.pairs_from[1:]] - sums[self.pairs_from[:-1]]
        codes = owned ^ _hashed(-1 - self.subscription_of * (self.racks + 1) - self.rack_of)
        _, first, kind_of = np.unique(codes, return_index=True, return_inverse=True)
        # Members whose hash collides with that of other members are of a kind of their own.
        like = first[kind_of]
        same = (self.subscription_of == self.subscription_of[like]) & (self.rack_of == self.rack_of[like])
        same &= pairs == pairs[like]
        compared = np.flatnonzero(same[self.pair_member])
        member = self.pair_member[compared]
        other = self.pairs_from[like[member]] + compared - self.pairs_from[member]
        differs = (self.pair_cell[compared] != self.pair_cell[other]) | (counts[compared] != counts[other])
        same[member[differs]] = False
        kind_of[~same] = len(first) + np.arange(np.count_nonzero(~same))
        self.kind_of, self.first_of = _by_first(kind_of, len(kind_of) + len(first))
        self.members_of_kind: Ints = np.bincount(self.kind_of, minlength=len(self.first_of))

    def pairs_of_kinds(self) -> tuple[Ints, Ints]:
        """Return the pairs of all kinds: those of their first members, and the kind of each."""
        counts = self.pairs_from[self.first_of + 1] - self.pairs_from[self.first_of]
        return runs(self.pairs_from[self.first_of], counts), np.repeat(np.arange(len(counts)), counts)


def numbered(codes: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Return the different codes, ascending, the position of each code among them, and counts.

    `counts[i]`: how often the `i`-th occurs. Codes are below `count`.
    """
    if count > LARGEST_TABLE:
        different, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
        return different, places, counts
    counts = np.bincount(codes, minlength=count)
    different = np.flatnonzero(counts)
    if len(different) == count:
        return different, codes, counts
    counts = counts[different]
    table = np.empty(count, np.int64)
    table[different] = np.arange(len(different))
    return different, table[codes], counts


def _by_first(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Replace codes below `count` by numbers in order of first appearance.

    Returns the number of each entry, and the first entry of each number.
    """
    first = np.full(count, len(codes), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    starts = np.zeros(len(codes), np.bool_)
    starts[first[codes]] = True
    numbers = np.cumsum(starts) - 1
    return numbers[first[codes]], np.flatnonzero(starts)


def _hashed(numbers: Ints) -> npt.NDArray[np.uint64]:
    """Return well distributed hashes (the finalizer of SplitMix64)."""
    mixed = numbers.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
