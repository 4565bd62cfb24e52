"""Converts flows of kinds to an assignment of members and partitions."""

from collections.abc import Sequence

import numpy as np

from quorate.assignors.rack_aware_uniform.kinds import Kinds
from quorate.assignors.rack_aware_uniform.solve import Flow, Problem
from quorate.assignors.topology import Ints

__all__ = ["hand_out"]


def hand_out(groups: Kinds, problems: Sequence[Problem], flows: Sequence[Flow]) -> Ints:
    """Return the member (by rank) of each of `groups.partitions`.

    The partitions that a kind of members keeps, cell after cell, and then those that it gets, are
    dealt to its members in turn; each cell continues where the previous one ended. So members of a
    kind keep equally many of each cell, and have equally many in total, or one more. Each member
    keeps its first partitions of a cell. The others are dealt in rounds, which spreads topics over
    members.
    """
    begins = np.cumsum([0, *(len(kind.owned) for kind in groups.kinds)])  # where each kind's cells begin in `kept`
    kept: Ints = np.zeros(begins[-1], np.int64)
    got: Ints = np.zeros(len(groups.kinds), np.int64)
    place = [
        {cell: begin + number for number, cell in enumerate(kind.owned)}
        for begin, kind in zip(begins.tolist(), groups.kinds, strict=False)
    ]
    entries: list[tuple[int, int, int]] = []
    for problem, flow in zip(problems, flows, strict=True):
        entered, left = len(problem.keeps), len(problem.keeps) + len(problem.entries)
        for (cell, keeper), amount in zip(problem.keeps, flow.arcs[:entered], strict=True):
            kept[place[keeper][cell]] = amount
        for (cell, (subscription, rack)), amount in zip(problem.entries, flow.arcs[entered:left], strict=True):
            if amount:
                entries.append((cell, subscription * (groups.racks + 1) + rack, amount))
        got[problem.exits] = flow.arcs[left : left + len(problem.exits)]

    # The shares of the members of each kind.
    members = len(groups.number_of)
    kind_of: Ints = np.empty(members, np.int64)
    turn: Ints = np.empty(members, np.int64)
    for number, kind in enumerate(groups.kinds):
        kind_of[kind.members] = number
        turn[kind.members] = np.arange(len(kind.members))
    width = np.bincount(kind_of, minlength=len(groups.kinds))
    ends = np.cumsum(kept)
    before = ends - kept
    first = np.append(before, ends[-1:] if len(ends) else 0)[begins[:-1]]
    last = np.append(before, ends[-1:] if len(ends) else 0)[begins[1:]]
    who = groups.pair_member
    mine = begins[kind_of[who]] + np.arange(len(who)) - np.array(groups.pairs_from, np.int64)[who]
    start = before[mine] - first[kind_of[who]]
    share = _share(start, kept[mine], turn[who], width[kind_of[who]])
    quota = _share((last - first)[kind_of], got[kind_of], turn, width[kind_of])

    owner: Ints = np.full(len(groups.partitions), -1, np.int64)
    lengths = np.diff(groups.held)
    position = np.arange(len(groups.owned_by_pair)) - np.repeat(groups.held[:-1], lengths)
    stays = position < np.repeat(share, lengths)
    owner[groups.owned_by_pair[stays]] = np.repeat(who, lengths)[stays]

    free = np.flatnonzero(owner < 0)
    if len(free):
        cells, pools, amounts = np.array(entries, np.int64).T
        by_cell = free[np.argsort(groups.cell_of[free], kind="stable")]
        # A pool's share of a cell is taken from the whole cell, at equal distances.
        number = np.arange(len(by_cell)) - np.repeat(np.cumsum(amounts) - amounts, amounts)
        distance = (number + 0.5) / np.repeat(amounts, amounts)
        pool = np.repeat(pools, amounts)
        pool = pool[np.lexsort((pool, distance, np.repeat(cells, amounts)))]
        partitions = by_cell[np.lexsort((by_cell, pool))]
        slots = np.repeat(np.arange(members), quota)
        rounds = np.arange(len(slots)) - np.repeat(np.cumsum(quota) - quota, quota)
        code = (groups.subscription_of * (groups.racks + 1) + groups.rack_of)[slots]
        owner[partitions] = slots[np.lexsort((slots, rounds, code))]
    return owner


def _share(start: Ints, amount: Ints, turn: Ints, width: Ints) -> Ints:
    """Return how many of `amount` positions from `start`, dealt in turn, member `turn` gets."""
    return -((turn - start - amount) // width) + ((turn - start) // width)
