"""The `lag-aware` assignor: chooses the algorithm for its options."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.lag_aware.max_moved import moved, within_bound
from quorate.assignors.lag_aware.options import LagAwareOptions, Locality, TopicDealer
from quorate.assignors.lag_aware.prepare import GivenLags, Missing, Table, lag_array
from quorate.assignors.lag_aware.rounds import by_rounds
from quorate.assignors.lags import LagSource, as_lag_source
from quorate.assignors.model import Assignment, Member
from quorate.assignors.topology import Ints, TopicPartition, Topology


class LagAwareAssignor(Assignor):
    """Assigns by lag (KIP-169).

    Topic by topic, partitions in order of decreasing lag go to the subscriber with the fewest
    partitions of the topic; ties go to the smallest total lag, then by member id. Partitions with
    equal lag are in order of their number, as in the KIP's prototype.

    - `lags`: the source of lags if `assign` gets none: a mapping of (topic, partition) to lag, a
      function of the partitions, or a `LagSource` such as `AdminLags`. Without a source, all lags
      are unknown.
    - `missing`: an unknown lag counts as `zero`, or as the `median` of the topic's known lags (the
      lower one of two).

    The other options are not in the KIP. Where they conflict, the first one listed wins:

    - `max_moved`: the maximum number of partitions that move. A partition moves if its owner
      (`Member.owned`; of several claims, that of the highest generation) still subscribes to its
      topic and does not get it. Partitions of members that left or unsubscribed have no owner, nor
      do partitions claimed by two members in the same generation: they must be assigned and do not
      count. The limit always holds, even if partition counts stay uneven. If the unlimited result
      exceeds it, members keep their partitions and moves go where counts, then lags, are most
      uneven. With this option (a large number will do), the owner also wins among members with
      equal count and lag.
    - `max_count_skew`: the largest difference of partition counts within a topic (1 as in the KIP);
      within it the smallest lag decides.
    - `spread_idle`: partitions without lag are assigned after all others, to the member with the
      fewest partitions of all topics. The KIP assigns them by member id among equals. Does not
      apply to moves under `max_moved`.
    - `locality`: `replica` or `leader`: among members with equal lag, one in a rack of the
      partition's replicas, or of its leader, wins. With `local_tolerance` it may have more lag than
      the smallest, by that many fair shares (lag of the topic / subscribers). Members without a
      rack are never local. Does not apply to moves under `max_moved`.
    - `shuffle`: remaining ties are broken by a hash of topic and member (instance id, or else
      member id) instead of member ids, so that different members get the most in different topics.
      The hash is the same in all processes and releases.

    The order of members and topics does not matter. Partitions are listed in the order of the
    topology. Raises `ValueError` for invalid options, and `AssignorError` for lags that do not
    match the topology.
    """

    name: ClassVar[str] = "lag-aware"

    def __init__(
        self,
        *,
        lags: LagSource
        | Mapping[tuple[str, int], int | None]
        | Callable[[Sequence[TopicPartition]], Any]
        | None = None,
        missing: Missing = "zero",
        max_moved: int | None = None,
        max_count_skew: int = 1,
        spread_idle: bool = False,
        locality: Locality | None = None,
        local_tolerance: float = 0.0,
        shuffle: bool = False,
    ) -> None:
        if missing not in ("zero", "median"):
            raise ValueError(f"unknown value {missing!r} of missing; use zero or median")
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
        """Assign the partitions of the subscribed topics.

        `lags`: the lags to use instead of the source: a mapping of (topic, partition) to lag in
        records, or an array with one lag per partition in the topology's numbers. `None`, no entry
        and (in an array) -1 are unknown lags.
        """
        return self.assign_group(GroupSpec(members, topology), lags=lags)

    def assign_group(self, group: GroupSpec, *, lags: GivenLags | None = None) -> Assignment:
        """Assign a prepared group; see `assign`."""
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
    """Return the partitions of subscribed topics."""
    topics = np.zeros(len(group.topology), np.bool_)
    topics[group.subscribed_topics] = True
    numbers: Ints = np.flatnonzero(topics[group.topology.topic_of])
    return group.topology.topic_partitions(numbers)
