"""The assignor itself: the order of its goals, and the bound on moves."""

from typing import ClassVar, Literal

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.rack_aware_uniform.balance import regions
from quorate.assignors.rack_aware_uniform.hand_out import hand_out
from quorate.assignors.rack_aware_uniform.kinds import Kinds, Locality
from quorate.assignors.rack_aware_uniform.solve import Flow, Problem

__all__ = ["RackAwareUniformAssignor"]


class RackAwareUniformAssignor(Assignor):
    """For the server side: balanced, then local, then sticky, each as far as possible.

    Among all assignments of all partitions (with a subscriber) to subscribers, one that is best in
    this order:

    1. Numbers of partitions are as even as possible: sorted from the most to the fewest they are
       the smallest possible in the order of words, so that neither one move nor any chain of moves
       makes them more even. If all members subscribe to the same topics, they differ by one at
       most.
    2. `prefer="locality"`: the most partitions are local to their members, and among these
       assignments, 3., the fewest move. `prefer="stickiness"`: the other way round.

    Local is a partition with a replica in the member's rack, or, `locality="leader"`, with its
    leader there; nothing is local to a member without a rack. A partition moves if a member that
    has it (`Member.owned`: its previous target) still subscribes to its topic and does not get it.

    `max_moved`, with `prefer="locality"`: at most so many partitions move, or as many as even
    numbers need if that is more. If the most local assignment moves more, locality is bought where
    it takes the fewest moves: the answer is then on the line between two assignments that are best
    for some price of a move, as near to the bound as whole exchanges allow.

    Neither the order of members nor that of topics counts.
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
            raise ValueError(f"locality {locality!r} is not known; use replica or leader")
        if prefer not in ("locality", "stickiness"):
            raise ValueError(f"prefer {prefer!r} is not known; use locality or stickiness")
        if max_moved is not None and max_moved < 0:
            raise ValueError(f"max_moved is {max_moved}: give the number of partitions that may move, 0 or more")
        self.locality: Locality = locality
        self.prefer = prefer
        self.max_moved = max_moved

    def assign_group(self, group: GroupSpec) -> Assignment:
        """The same for a group that is prepared."""
        groups = Kinds(group, self.locality)
        partitions = np.bincount(groups.topics_of, groups.size_of, len(groups.subscribed)).astype(np.int64)
        subscribed = dict(enumerate(groups.subscribed))
        problems = [
            Problem(groups, region) for region in regions(partitions.tolist(), groups.members_of.tolist(), subscribed)
        ]
        flows = self._flows(problems, len(groups.partitions), int(np.count_nonzero(groups.owner_of < 0)))
        owner = groups.number_of[hand_out(groups, problems, flows)]
        order = np.argsort(groups.partitions)
        return Assignment.from_owners(group.topology, group.member_ids, groups.partitions[order], owner[order])

    def _flows(self, problems: list[Problem], partitions: int, unowned: int) -> list[Flow]:
        much = partitions + 1
        if self.prefer == "stickiness":
            return [problem.best(1, much) for problem in problems]
        local = [problem.best(much, 1) for problem in problems]
        # What nobody has goes through a pool as well, but does not move.
        most = partitions if self.max_moved is None else self.max_moved + unowned
        if _pooled(local) <= most:
            return local
        kept = [problem.best(1, much) for problem in problems]
        if _pooled(kept) >= most:
            return kept
        # Eisner and Severance (1976): the next price to ask for is that at which both ends cost the
        # same.
        while True:
            remote, pooled = _pooled(local) - _pooled(kept), _remote(kept) - _remote(local)
            between = [problem.best(remote, pooled) for problem in problems]
            if remote * (_remote(between) - _remote(kept)) + pooled * (_pooled(between) - _pooled(kept)) == 0:
                break
            if _pooled(between) <= most:
                kept = between
            else:
                local = between
        room = most - _pooled(kept)
        answer = []
        for problem, fewer, more in zip(problems, kept, local, strict=True):
            answer.append(problem.between(fewer, more, fewer.pooled + room))
            room -= answer[-1].pooled - fewer.pooled
        return answer


def _remote(flows: list[Flow]) -> int:
    return sum(flow.remote for flow in flows)


def _pooled(flows: list[Flow]) -> int:
    return sum(flow.pooled for flow in flows)
