"""What can be asked of `lag-aware` beyond the KIP, and the dealing of all topics that honours it, but for the bound on moves (`bounded`)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from quorate.assignors.lag_aware.deal import deal
from quorate.assignors.lag_aware.prepare import Table
from quorate.assignors.topology import Ints

__all__ = ["Dealer", "Locality", "Options"]

Locality = Literal["replica", "leader"]
"""What makes a partition local to a member: a replica in the member's rack, or its leader."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `LagAwareAssignor`, which explains them. Raises `ValueError` for values that cannot be."""

    max_count_skew: int = 1
    locality: Locality | None = None
    local_tolerance: float = 0.0
    max_moved: int | None = None
    spread_idle: bool = False
    shuffle: bool = False

    def __post_init__(self) -> None:
        if self.max_count_skew < 1:
            raise ValueError(
                f"max_count_skew is {self.max_count_skew}: give 1 (partitions of a topic are even) or more, as they do not always divide evenly"
            )
        if self.locality not in (None, "replica", "leader"):
            raise ValueError(f"locality {self.locality!r} is not known; use replica, leader or None")
        if not self.local_tolerance >= 0:
            raise ValueError(
                f"local_tolerance is {self.local_tolerance}: give 0 or more, in fair shares of a topic's lag"
            )
        if self.local_tolerance and self.locality is None:
            raise ValueError("local_tolerance without locality does nothing: give locality, too")
        if self.max_moved is not None and self.max_moved < 0:
            raise ValueError(f"max_moved is {self.max_moved}: give the number of partitions that may move, 0 or more")


class Dealer:
    """Deals the topics of one table, by certain options."""

    def __init__(self, table: Table, options: Options) -> None:
        self.table = table
        self.options = options
        self._lanes: dict[int, tuple[list[list[int]], list[int]]] = {}

    def all_topics(self) -> Ints:
        """The member of each partition; -1 where nobody subscribes."""
        table, first = self.table, self.table.topology.first
        owner: Ints = np.full(len(table.lags), -1, np.int64)
        idle = []
        totals = np.zeros(len(table.number_of), np.int64)
        for topic in table.topics:
            partitions = table.by_lag[first[topic] : first[topic + 1]]
            members = table.subscribers(topic)
            busy = int(np.count_nonzero(table.lags[partitions])) if self.options.spread_idle else len(partitions)
            chosen = self.deal(topic, members, partitions[:busy], [0] * len(members), [0] * len(members))
            owner[partitions[:busy]] = members[chosen]
            if busy < len(partitions):
                totals += np.bincount(members[chosen], minlength=len(totals))
                idle.append((topic, members, partitions[busy:], chosen))
            elif self.options.spread_idle:
                totals += np.bincount(members[chosen], minlength=len(totals))
        for topic, members, partitions, taken in idle:
            counts = np.bincount(taken, minlength=len(members))
            chosen = self.deal(topic, members, partitions, totals[members].tolist(), counts.tolist(), idle=True)
            owner[partitions] = members[chosen]
            totals += np.bincount(members[chosen], minlength=len(totals))
        return owner

    def deal(
        self, topic: int, members: Ints, partitions: Ints, weights: list[int], counts: list[int], *, idle: bool = False
    ) -> Ints:
        """Deal some partitions of one topic to its subscribers, as `deal` does: by lag, or, `idle`, by the number of partitions of all topics."""
        if not len(partitions):
            return np.empty(0, np.int64)
        table, options = self.table, self.options
        lanes, lane_of = self._lanes_of(topic, members, weights, counts)
        lags = table.lags[partitions]
        local = None
        if options.locality is not None:
            local_lanes, lists = self._local_lanes, table.topology.replica_racks_of[partitions]
            local = [local_lanes[one] for one in lists.tolist()]
        owners = None
        if options.max_moved is not None:
            place = np.full(len(table.number_of) + 1, -1, np.int64)
            place[members] = np.arange(len(members))
            owners = place[table.owners[partitions]].tolist()
        everything = int(table.lags[table.topology.first[topic] : table.topology.first[topic + 1]].sum())
        chosen = deal(
            [1] * len(lags) if idle else lags.tolist(),
            weights,
            counts,
            lanes,
            lane_of,
            skew=options.max_count_skew,
            local_lanes=local,
            tolerance=0 if idle else int(options.local_tolerance * everything / len(members)),
            owners=owners,
        )
        return np.array(chosen, np.int64)

    def _lanes_of(
        self, topic: int, members: Ints, weights: list[int], counts: list[int]
    ) -> tuple[list[list[int]], list[int]]:
        equal = not any(weights) and not any(counts)
        key = id(members)  # the table keeps the arrays of subscribers that are not shuffled
        if equal and not self.options.shuffle and key in self._lanes:
            return self._lanes[key]
        order = np.arange(len(members)) if equal else np.lexsort((np.array(counts), np.array(weights)))
        if self.options.locality is None:
            made = [order.tolist()], [0] * len(members)
        else:
            racks = self._rack_of[members]
            lanes = [order[racks[order] == rack].tolist() for rack in range(len(self.table.group.racks) + 1)]
            made = lanes, racks.tolist()
        if equal and not self.options.shuffle:
            self._lanes[key] = made
        return made

    @cached_property
    def _rack_of(self) -> Ints:
        """The lane of each member: its rack, or the last one."""
        group = self.table.group
        racks = group.rack_of[self.table.number_of]
        return np.where(racks < 0, len(group.racks), racks)

    @cached_property
    def _local_lanes(self) -> list[list[int]]:
        """For each list of replica racks, the lanes of members that are local to it."""
        index = {rack: number for number, rack in enumerate(self.table.group.racks)}
        return [
            sorted(
                {index[rack] for rack in (racks if self.options.locality == "replica" else racks[:1]) if rack in index}
            )
            for racks in self.table.topology.replica_racks
        ]
