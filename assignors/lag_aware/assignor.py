"""The assignor itself: what its options mean, and which way of dealing answers them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.lag_aware.bounded import moved, within_bound
from quorate.assignors.lag_aware.options import LagAwareOptions, Locality, TopicDealer
from quorate.assignors.lag_aware.prepare import GivenLags, Missing, Table, lag_array
from quorate.assignors.lag_aware.rounds import by_rounds
from quorate.assignors.lags import LagSource, as_lag_source
from quorate.assignors.model import Assignment, Member
from quorate.assignors.topology import Ints, TopicPartition, Topology

__all__ = ["LagAwareAssignor"]


class LagAwareAssignor(Assignor):
    """KIP-169: topic by topic, partitions by decreasing lag go to the subscriber with the fewest partitions of the topic, ties to the least total lag.

    What is equal in both goes by member id (and partitions of equal lag by number), as in the KIP's
    prototype. `lags` is where lags come from when `assign` is not given them: a mapping of (topic,
    partition) to lag, a function of the partitions, or a `LagSource` such as `AdminLags`; without
    any, all count as unknown. `missing`: an unknown lag counts as `zero`, or as the `median` of the
    topic's known lags (the lower one of two).

    The options, none of which is in the KIP. Where they contradict each other, the one listed first
    wins:

    - `max_moved`: at most this many partitions move. A partition moves if a member of the group has
      it (`Member.owned`; of several claims the one of the highest generation counts), subscribes to
      its topic, and does not get it. Partitions of members that left or unsubscribed, and of which
      two members claim the same generation, are nobody's: they have to be placed and do not count.
      The bound always holds, even where numbers of partitions stay uneven then: if the answer
      without a bound moves more, members keep what they have and moves are spent where numbers,
      then lags, are most uneven. With this option (a large number will do), an owner also goes
      before others that are equal in number and lag.
    - `max_count_skew`: within a topic, numbers of partitions differ by this at most (1, as in the
      KIP), and within that the least lag decides.
    - `spread_idle`: partitions without lag, which the KIP gives by member id where all are equal,
      are placed after all others, with the least number of partitions of all topics in the place of
      the least lag. (Not among the repairs under a bound.)
    - `locality`: `replica` or `leader`: among members of equal lag one in a rack of the partition's
      replicas, or of its leader, goes first; with `local_tolerance`, also if it has more lag than
      the least, by that many fair shares (lag of the topic / subscribers). Members without a rack
      are never local. (Not among the repairs under a bound.)
    - `shuffle`: what is still equal goes by a hash of topic and member (instance id, or else member
      id) in the place of member ids, so that it is not the same member in every topic that gets the
      most. The hash is the same in all processes and releases.

    Neither the order of members nor that of topics counts. Partitions are listed in the order of
    the topology. Raises `ValueError` for options that cannot be, and `AssignorError` for lags that
    do not fit the topology.
    """

    name: ClassVar[str] = "lag-aware"

    def __init__(
        self,
        *,
        lags: "LagSource | Mapping[tuple[str, int], int | None] | Callable[[Sequence[TopicPartition]], Any] | None" = None,
        missing: Missing = "zero",
        max_moved: int | None = None,
        max_count_skew: int = 1,
        spread_idle: bool = False,
        locality: Locality | None = None,
        local_tolerance: float = 0.0,
        shuffle: bool = False,
    ) -> None:
        if missing not in ("zero", "median"):
            raise ValueError(f"missing {missing!r} is not known; use zero or median")
        self.source: LagSource | None = None if lags is None else as_lag_source(lags)
        self.missing: Missing = missing
        self.options = LagAwareOptions(
            max_count_skew=max_count_skew,
            locality=locality,
            local_tolerance=local_tolerance,
            max_moved=max_moved,
            spread_idle=spread_idle,
            shuffle=shuffle,
        )

    def assign(self, members: Mapping[str, Member], topology: Topology, *, lags: GivenLags | None = None) -> Assignment:
        """As every assignor's `assign`.

        `lags`, if given, are those to go by: the source is not asked, and the answer depends on
        nothing else.

        A mapping of (topic, partition) to lag, in records, or an array with a lag per partition in
        the topology's numbers; `None`, no entry and (in an array) -1 are unknown lags.
        """
        return self.assign_group(GroupSpec(members, topology), lags=lags)

    def assign_group(self, group: GroupSpec, *, lags: GivenLags | None = None) -> Assignment:
        """The same for a group that is prepared."""
        if lags is None:
            lags = {} if self.source is None else self.source.lags(_subscribed(group))
        options = self.options
        table = Table(group, lag_array(lags, group.topology, self.missing), shuffle=options.shuffle)
        if options == LagAwareOptions(shuffle=options.shuffle):
            owner = by_rounds(table)
        else:
            dealer = TopicDealer(table, options)
            owner = dealer.all_topics()
            if options.max_moved is not None and moved(table, owner) > options.max_moved:
                owner = within_bound(dealer, options.max_moved)
        partitions = np.flatnonzero(owner >= 0)
        return Assignment.from_owners(group.topology, group.member_ids, partitions, table.number_of[owner[partitions]])


def _subscribed(group: GroupSpec) -> Sequence[TopicPartition]:
    """The partitions that somebody subscribes to."""
    topics = np.zeros(len(group.topology), np.bool_)
    topics[group.subscribed_topics] = True
    numbers: Ints = np.flatnonzero(topics[group.topology.topic_of])
    return group.topology.topic_partitions(numbers)
