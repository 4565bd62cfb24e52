"""The `rack-aware-uniform` assignor: the order of its goals, and the limit on moves."""

from typing import ClassVar, Literal

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.rack_aware_uniform.balance import regions
from quorate.assignors.rack_aware_uniform.hand_out import hand_out
from quorate.assignors.rack_aware_uniform.kinds import Kinds, Locality
from quorate.assignors.rack_aware_uniform.solve import Flow, Problem
from quorate.assignors.target import target_of_changed
from quorate.assignors.topology import Ints, stable_order


class RackAwareUniformAssignor(Assignor):
    """A server-side assignor: balanced, then local, then sticky, each as far as possible.

    All partitions with a subscriber are assigned. Of all assignments, one that is best in this
    order is chosen:

    1. Partition counts are as even as possible. Sorted from largest to smallest they are
       lexicographically minimal, so no chain of moves makes them more even. With equal
       subscriptions they differ by one at most.
    2. With `prefer="locality"`, the most partitions are local to their members, and then the fewest
       move. With `prefer="stickiness"`, the other way round.

    A partition is local if the member's rack has a replica, or with `locality="leader"` the leader;
    no partition is local to a member without a rack. A partition moves if its owner
    (`Member.owned`: its previous target assignment) still subscribes to its topic and does not get
    it.

    `max_moved`, with `prefer="locality"`: the maximum number of moves, or the number needed for
    balance if that is larger. If the most local assignment needs more, moves are made where they
    improve locality most: the result is between two assignments that are best for one price of a
    move, as close to the limit as whole exchanges allow.

    The order of members and topics does not matter. Raises `ValueError` for invalid options.
    """

    name: ClassVar[str] = "rack-aware-uniform"

    def __init__(
        self,
        *,
        locality: Locality = "replica",
        prefer: Literal["locality", "stickiness"] = "locality",
        max_moved: int | None = None,
    ) -> None:
        if locality not in ("replica", "leader"):
            raise ValueError(f"unknown locality {locality!r}; use replica or leader")
        if prefer not in ("locality", "stickiness"):
            raise ValueError(f"unknown value {prefer!r} of prefer; use locality or stickiness")
        if max_moved is not None and max_moved < 0:
            raise ValueError(f"max_moved is {max_moved}; give the number of partitions that may move, 0 or more")
        self.locality: Locality = locality
        self.prefer = prefer
        self.max_moved = max_moved

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Assign a prepared group; see `Assignor.assign`."""
        groups = Kinds(group, self.locality)
        partitions = np.bincount(groups.topics_of, groups.size_of, groups.topic_kinds).astype(np.int64)
        problem = Problem(
            groups, regions(partitions, groups.members_of, groups.subscribed_topics, groups.subscribed_by)
        )
        flow = self._flow(problem, len(groups.partitions), int(np.count_nonzero(groups.owner_of < 0)))
        return _assignment(group, groups, hand_out(groups, problem, flow))

    def _flow(self, problem: Problem, partitions: int, unowned: int) -> Flow:
        much = partitions + 1
        if self.prefer == "stickiness":
            return problem.best(1, much)
        local = problem.best(much, 1)
        # Partitions without an owner are pooled as well, but do not move.
        most = partitions if self.max_moved is None else self.max_moved + unowned
        if local.pooled <= most:
            return local
        kept = problem.best(1, much)
        if kept.pooled >= most:
            return kept
        # Eisner and Severance (1976): the next price to try is that at which both ends cost the
        # same.
        while True:
            remote, pooled = local.pooled - kept.pooled, kept.remote - local.remote
            between = problem.best(remote, pooled)
            if remote * (between.remote - kept.remote) + pooled * (between.pooled - kept.pooled) == 0:
                return problem.between(kept, local, most)
            if between.pooled <= most:
                kept = between
            else:
                local = between


def _assignment(group: GroupSpec, groups: Kinds, owners: Ints) -> Assignment:
    """Return the assignment of `groups.partitions` to `owners`, which are ranks.

    Members with the same partitions as before, often nearly all, are copied and not sorted.
    """
    counts = np.bincount(owners, minlength=len(group))
    differs = counts != group.owned_counts[groups.number_of]
    moved = np.flatnonzero(owners != groups.owner_of)
    before = groups.owner_of[moved]
    differs[owners[moved]] = differs[before[before >= 0]] = True
    changed = np.flatnonzero(differs)
    if len(changed) > len(group) // 2:
        return Assignment.from_owners(group.topology, group.member_ids, groups.partitions, groups.number_of[owners])
    mine = np.flatnonzero(differs[owners])
    numbers = groups.partitions[mine[stable_order(owners[mine], len(group))]]
    return target_of_changed(group, groups.number_of[changed], numbers, counts[changed]).assignment
