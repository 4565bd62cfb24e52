"""The options of `lag-aware`, and the assignment of all topics with them, except `max_moved`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from quorate.assignors.lag_aware.deal import deal
from quorate.assignors.lag_aware.prepare import Table, first_in_turn
from quorate.assignors.topology import Ints

Locality = Literal["replica", "leader"]
"""What makes a partition local to a member: a replica, or the leader, in the member's rack."""


@dataclass(frozen=True, slots=True)
class LagAwareOptions:
    """The options of `LagAwareAssignor`, which documents them.

    Raises `ValueError` for invalid values.
    """

    max_count_skew: int = 1
    locality: Locality | None = None
    local_tolerance: float = 0.0
    max_moved: int | None = None
    spread_idle: bool = False
    shuffle: bool = False

    def __post_init__(self) -> None:
        if self.max_count_skew < 1:
            raise ValueError(
                f"max_count_skew is {self.max_count_skew}; give 1 (even partition counts) or more, "
                "as partitions do not always divide evenly"
            )
        if self.locality not in (None, "replica", "leader"):
            raise ValueError(f"unknown locality {self.locality!r}; use replica, leader or None")
        if not self.local_tolerance >= 0:
            raise ValueError(
                f"local_tolerance is {self.local_tolerance}; give 0 or more, in fair shares of a topic's lag"
            )
        if self.local_tolerance and self.locality is None:
            raise ValueError("local_tolerance has no effect without locality; give locality too")
        if self.max_moved is not None and self.max_moved < 0:
            raise ValueError(f"max_moved is {self.max_moved}; give the number of partitions that may move, 0 or more")


class TopicDealer:
    """Assigns the topics of one table with the given options."""

    def __init__(self, table: Table, options: LagAwareOptions) -> None:
        self.table = table
        self.options = options
        self._places: dict[int, list[Ints]] = {}

    def all_topics(self) -> Ints:
        """Return the member of each partition; -1 without subscribers."""
        table, first = self.table, self.table.topology.first
        owner: Ints = np.full(len(table.lags), -1, np.int64)
        idle = []
        totals = np.zeros(len(table.number_of), np.int64)
        for topic in table.topics:
            partitions = table.by_lag[first[topic] : first[topic + 1]]
            members = table.subscribers(topic)
            nothing = np.zeros(len(members), np.int64)
            busy = int(np.count_nonzero(table.lags[partitions])) if self.options.spread_idle else len(partitions)
            chosen = self.deal(topic, partitions[:busy], nothing, nothing)
            owner[partitions[:busy]] = members[chosen]
            np.add.at(totals, members[chosen], 1)
            if busy < len(partitions):
                idle.append((topic, partitions[busy:], chosen))
        for topic, partitions, taken in idle:
            members = table.subscribers(topic)
            counts = np.bincount(taken, minlength=len(members))
            chosen = self.deal(topic, partitions, totals[members], counts, idle=True)
            owner[partitions] = members[chosen]
            np.add.at(totals, members[chosen], 1)
        return owner

    def deal(self, topic: int, partitions: Ints, weights: Ints, counts: Ints, *, idle: bool = False) -> Ints:
        """Assign partitions of one topic to its subscribers, by lag or, if `idle`, by counts.

        The latter are counts over all topics. `weights`, `counts`: the current values of each
        subscriber. Returns positions in `Table.subscribers`.
        """
        if not len(partitions):
            return np.empty(0, np.int64)
        table, options = self.table, self.options
        members = table.subscribers(topic)
        owners = None
        if options.max_moved is not None:
            owners = np.searchsorted(members, table.owners[partitions])
            owners[table.owners[partitions] < 0] = -1
        fewest = int(counts.min())
        at_fewest = int(np.count_nonzero(counts == fewest))
        # While one member has the smallest count, that count stays, so of each rack at most as many
        # members can get a partition as there are partitions.
        if at_fewest > len(partitions):
            places = self._some(topic, len(partitions), weights, counts, fewest, owners)
        else:
            places = np.arange(len(members))
        if options.shuffle:
            places = places[np.argsort(table.in_turn(topic, members[places]), kind="stable")]
        weights, counts = weights[places], counts[places]
        lane_of = self._rack_of[members[places]] if options.locality is not None else np.zeros(len(places), np.int64)
        order = np.lexsort((counts, weights, lane_of))
        lanes = np.split(order, np.searchsorted(lane_of[order], np.arange(1, self._lanes)))
        local = None
        if options.locality is not None:
            local = [self._local_lanes[one] for one in table.topology.replica_racks_of[partitions].tolist()]
        lags = table.lags[partitions].tolist()
        everything = int(table.lags[table.topology.first[topic] : table.topology.first[topic + 1]].sum())
        chosen = deal(
            [1] * len(lags) if idle else lags,
            weights.tolist(),
            counts.tolist(),
            [lane.tolist() for lane in lanes],
            lane_of.tolist(),
            skew=options.max_count_skew,
            fewest=fewest,
            others=at_fewest - int(np.count_nonzero(counts == fewest)),
            local_lanes=local,
            tolerance=0 if idle else int(options.local_tolerance * everything / len(members)),
            owners=None if owners is None else _renumbered(owners, places, len(members)),
        )
        return places[chosen]

    def _some(self, topic: int, size: int, weights: Ints, counts: Ints, fewest: int, owners: Ints | None) -> Ints:
        """Return the first `size` candidates of each rack, and owners not excluded, ascending."""
        allowed = (
            None
            if int(counts.max()) - fewest < self.options.max_count_skew
            else counts - fewest < self.options.max_count_skew
        )
        found = []
        for lane in self._lanes_of(topic):
            places = lane if allowed is None else lane[allowed[lane]]
            found.append(
                places if len(places) <= size else self._first(topic, size, places, weights[places], counts[places])
            )
        if owners is not None:
            owners = owners[owners >= 0]
            found.append(owners if allowed is None else owners[allowed[owners]])
        return np.unique(np.concatenate(found))

    def _first(self, topic: int, size: int, places: Ints, weights: Ints, counts: Ints) -> Ints:
        """Return the first `size` positions by weight, count, and tie-breaker."""
        shift = int(counts.max()) + 1
        if int(weights.max()) > (1 << 62) // shift:
            turns = self.table.in_turn(topic, self.table.subscribers(topic)[places])
            return places[np.lexsort((turns, counts, weights))][:size]
        keys = weights * shift + counts
        before, equal = places[:0], places
        if int(keys.max()) > int(keys.min()):
            limit = np.partition(keys, size - 1)[size - 1]
            before, equal = places[keys < limit], places[keys == limit]
        left = size - len(before)
        if left < len(equal) and self.options.shuffle:
            turns = self.table.in_turn(topic, self.table.subscribers(topic)[equal])
            equal = equal[first_in_turn(turns, left)]
        return np.concatenate([before, equal[:left]])

    @cached_property
    def _lanes(self) -> int:
        return 1 if self.options.locality is None else len(self.table.group.racks) + 1

    def _lanes_of(self, topic: int) -> list[Ints]:
        """Return the positions of subscribers by rack; those without one come last."""
        members = self.table.subscribers(topic)
        if id(members) not in self._places:  # the table keeps these arrays
            positions = np.arange(len(members))
            racks = None if self.options.locality is None else self._rack_of[members]
            self._places[id(members)] = (
                [positions] if racks is None else [positions[racks == lane] for lane in range(self._lanes)]
            )
        return self._places[id(members)]

    @cached_property
    def _rack_of(self) -> Ints:
        """The lane of each member: its rack, or the last one."""
        group = self.table.group
        racks = group.rack_of[self.table.number_of]
        return np.where(racks < 0, len(group.racks), racks)

    @cached_property
    def _local_lanes(self) -> list[list[int]]:
        """For each list of replica racks, the lanes of members for which it is local."""
        index = {rack: number for number, rack in enumerate(self.table.group.racks)}
        return [
            sorted(
                {index[rack] for rack in (racks if self.options.locality == "replica" else racks[:1]) if rack in index}
            )
            for racks in self.table.topology.replica_racks
        ]


def _renumbered(owners: Ints, places: Ints, size: int) -> list[int]:
    """Convert owners to indexes of `places`; -1 for owners that are not among them."""
    index: Ints = np.full(size + 1, -1, np.int64)
    index[places] = np.arange(len(places))
    index[-1] = -1
    found: list[int] = index[owners].tolist()
    return found
