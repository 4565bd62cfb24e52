"""Groups of interchangeable partitions and members, which make the problem small.

Partitions are of one kind (a *cell*) if the same members subscribe to their topics and can read
them locally. Members are of one kind if they have the same subscription, the same rack, and own the
same number of partitions of each cell. Numbers follow member ids and names, so the order of the
input does not matter.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.owners import previous_owners
from quorate.assignors.topology import Ints

__all__ = ["Kinds", "Locality"]

Locality = Literal["replica", "leader"]
"""What makes a partition local to a member: a replica, or the leader, in the member's rack."""


@dataclass(frozen=True, slots=True)
class MemberKind:
    """Interchangeable members (by rank); `owned`: cell → partitions that each of them owns."""

    members: list[int]
    subscription: int
    rack: int
    owned: dict[int, int]


class Kinds:
    """The kinds of members and partitions of a group.

    Members are numbered (ranked) by id: `number_of[rank]` is the group's number. Racks are numbered
    by name; the last number means no rack.

    `partitions`: the topology's numbers of all partitions with a subscriber, by topic name and
    partition; `cell_of` and `owner_of` (a rank, or -1) belong to them. A cell has
    `topics_of[cell]`, a kind of topic, `racks_of[cell]`, the member racks in which it is local, and
    `size_of[cell]` partitions.
    """

    def __init__(self, group: GroupSpec, locality: Locality) -> None:
        topology = group.topology
        keys = [java_order.string_key(member_id) for member_id in group.member_ids]
        self.number_of: Ints = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        racks = sorted(group.racks)
        rack_number = np.array([racks.index(rack) for rack in group.racks] + [len(racks)], np.int64)
        self.racks = len(racks)
        self.rack_of: Ints = rack_number[group.rack_of[self.number_of]]
        # Subscriptions by first member, so that their numbers depend on ids only.
        given = group.subscription_of[self.number_of]
        seen, first = np.unique(given, return_index=True)
        by_first = seen[np.argsort(first)]
        renumbered = np.zeros(len(group.subscriptions), np.int64)
        renumbered[by_first] = np.arange(len(by_first))
        self.subscription_of: Ints = renumbered[given]
        self.members_of: Ints = np.bincount(self.subscription_of, minlength=len(by_first))

        self.subscribed: list[tuple[int, ...]] = []
        """Kind of topic → subscriptions."""
        kind_of_topic = self._topics(group, by_first)
        names = {
            topic: java_order.string_key(topology.topics[topic].name)
            for topic in np.flatnonzero(kind_of_topic >= 0).tolist()
        }
        topics = np.array(sorted(names, key=names.__getitem__), np.int64)
        self.partitions = topology.partitions_of(topics)

        local_sets, set_of = self._local(group, racks, locality)
        codes = kind_of_topic[topology.topic_of[self.partitions]] * len(local_sets) + set_of[self.partitions]
        cells, self.cell_of = np.unique(codes, return_inverse=True)
        self.topics_of: list[int] = (cells // len(local_sets)).tolist()
        self.racks_of = [local_sets[one] for one in (cells % len(local_sets)).tolist()]
        self.size_of: list[int] = np.bincount(self.cell_of, minlength=len(cells)).tolist()

        rank: Ints = np.empty(len(self.number_of) + 1, np.int64)
        rank[self.number_of] = np.arange(len(self.number_of))
        rank[-1] = -1
        self.owner_of: Ints = rank[previous_owners(group)[self.partitions]]
        self._members()

    def _topics(self, group: GroupSpec, by_first: Ints) -> Ints:
        """Return the kind of each topic of the topology by its subscribers; -1 without subscribers.

        Kinds are numbered by their subscriptions.
        """
        listed = [group.subscriptions[one].topics for one in by_first.tolist()]
        topics = np.concatenate([np.empty(0, np.int64), *listed])
        naming = np.repeat(np.arange(len(listed)), [len(one) for one in listed])
        order = np.argsort(topics, kind="stable")
        topics, naming = topics[order], naming[order]
        starts = np.flatnonzero(np.diff(topics, prepend=-1))
        ends = np.append(starts[1:], len(topics))[: len(starts)]
        kinds = {
            topic: tuple(naming[start:end].tolist())
            for topic, start, end in zip(topics[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
        }
        self.subscribed = sorted(set(kinds.values()))
        index = {subscribed: number for number, subscribed in enumerate(self.subscribed)}
        kind_of: Ints = np.full(len(group.topology), -1, np.int64)
        kind_of[list(kinds)] = [index[subscribed] for subscribed in kinds.values()]
        return kind_of

    @staticmethod
    def _local(group: GroupSpec, racks: list[str], locality: Locality) -> tuple[list[frozenset[int]], Ints]:
        """Return the distinct sets of local member racks, and the set of each partition."""
        topology = group.topology
        number = {rack: index for index, rack in enumerate(racks)}
        sets = [
            tuple(
                sorted({number[rack] for rack in (listed if locality == "replica" else listed[:1]) if rack in number})
            )
            for listed in topology.replica_racks
        ]
        different = sorted(set(sets))
        index = {one: place for place, one in enumerate(different)}
        return [frozenset(one) for one in different], np.array([index[one] for one in sets], np.int64)[
            topology.replica_racks_of
        ]

    def _members(self) -> None:
        """Compute kinds of members, numbered by first member, and owned partitions by cell."""
        has = np.flatnonzero(self.owner_of >= 0)
        cells = max(1, len(self.size_of))
        # Owned partitions sorted by (member, cell, partition); `held[i]:held[i + 1]` are those of
        # pair i.
        self.owned_by_pair: Ints = has[np.argsort(self.owner_of[has] * cells + self.cell_of[has], kind="stable")]
        codes = self.owner_of[self.owned_by_pair] * cells + self.cell_of[self.owned_by_pair]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        self.held: Ints = np.append(starts, len(codes))
        self.pair_member: Ints = codes[starts] // cells
        self.pair_cell: Ints = codes[starts] % cells
        bounds = np.searchsorted(self.pair_member, np.arange(len(self.number_of) + 1)).tolist()
        self.pairs_from: list[int] = bounds
        counts = np.stack([self.pair_cell, np.diff(self.held)], axis=1)
        data, width = counts.tobytes(), counts.dtype.itemsize * 2
        found: dict[tuple[int, int, bytes], int] = {}
        self.kinds: list[MemberKind] = []
        places = zip(self.subscription_of.tolist(), self.rack_of.tolist(), bounds[:-1], bounds[1:], strict=True)
        for member, (subscription, rack, start, end) in enumerate(places):
            key = (subscription, rack, data[start * width : end * width])
            kind = found.setdefault(key, len(self.kinds))
            if kind == len(self.kinds):
                owned = dict(counts[start:end].tolist())
                self.kinds.append(MemberKind([], subscription, rack, owned))
            self.kinds[kind].members.append(member)
