"""Converts flows of kinds to an assignment of members and partitions."""

import numpy as np

from quorate.assignors.rack_aware_uniform.kinds import Kinds
from quorate.assignors.rack_aware_uniform.solve import Flow, Problem
from quorate.assignors.topology import Ints, stable_order

DISTANCE_BITS = 20
"""Distances of partitions in a cell are fractions with this many bits."""


def hand_out(groups: Kinds, problem: Problem, flow: Flow) -> Ints:
    """Return the member (by rank) of each of `groups.partitions`.

    The partitions that a kind of members keeps, cell after cell, and then those that it gets, are
    dealt to its members in turn; each cell continues where the previous one ended. So members of a
    kind keep equally many of each cell, and have equally many in total, or one more. Each member
    keeps its first partitions of a cell. The others are dealt in rounds, which spreads topics over
    members.
    """
    kind_of, kind_count = groups.kind_of, groups.members_of_kind
    first_pair = groups.pairs_from[groups.first_of]
    begins = np.zeros(len(kind_count) + 1, np.int64)  # where each kind's pairs begin in `kept`
    np.cumsum(groups.pairs_from[groups.first_of + 1] - first_pair, out=begins[1:])
    kept: Ints = np.zeros(begins[-1], np.int64)
    kept[begins[problem.keeping] + problem.kept_pairs - first_pair[problem.keeping]] = flow.arcs[problem.keeps]
    got = flow.arcs[problem.exits]

    # The shares of the members of each kind.
    members = len(groups.number_of)
    turn: Ints = np.empty(members, np.int64)
    by_kind = np.argsort(kind_of, kind="stable")
    turn[by_kind] = np.arange(members) - np.repeat(np.cumsum(kind_count) - kind_count, kind_count)
    width = kind_count[kind_of]
    ends = np.cumsum(kept)
    before = np.append(ends - kept, ends[-1:])  # kept partitions of all pairs before a pair
    before = before if len(kept) else np.zeros(1, np.int64)
    first, last = before[begins[:-1]], before[begins[1:]]
    who = groups.pair_member
    mine = begins[kind_of[who]] + np.arange(len(who)) - groups.pairs_from[who]
    share = _share(before[mine] - first[kind_of[who]], kept[mine], turn[who], width[who])
    quota = _share((last - first)[kind_of], got[kind_of], turn, width)

    owner: Ints = groups.owner_of.copy()
    fewer = share < groups.pair_size
    if fewer.any():
        partitions = groups.owned[fewer[groups.pair_of]]
        pair = groups.pair_of[fewer[groups.pair_of]]
        order = stable_order(pair, len(fewer))
        partitions, pair = partitions[order], pair[order]
        position = np.arange(len(pair)) - np.searchsorted(pair, pair)
        owner[partitions[position >= share[pair]]] = -1

    free = np.flatnonzero(owner < 0)
    if len(free):
        cells, pools, amounts = _entries(problem, flow)
        by_cell = free[stable_order(groups.cell_of[free], len(groups.size_of))]
        pool = np.repeat(pools, amounts)
        if (cells[1:] == cells[:-1]).any():
            # A pool's share of a cell is taken from the whole cell, at equal distances.
            number = np.arange(len(by_cell)) - np.repeat(np.cumsum(amounts) - amounts, amounts)
            distance = ((2 * number + 1) << DISTANCE_BITS) // np.repeat(2 * amounts, amounts)
            pool = _last_of_sorted(np.repeat(cells, amounts), distance, pool)
        partitions = _last_of_sorted(pool, by_cell)
        slots = np.repeat(np.arange(members), quota)
        rounds = np.arange(len(slots)) - np.repeat(np.cumsum(quota) - quota, quota)
        code = (groups.subscription_of * (groups.racks + 1) + groups.rack_of)[slots]
        owner[partitions] = _last_of_sorted(code, rounds, slots)
    return owner


def _entries(problem: Problem, flow: Flow) -> tuple[Ints, Ints, Ints]:
    """Return cells, pools, and how many partitions go from the cell to the pool; by cell and pool.

    Partitions enter counters from cells, and are transferred to pools, in the same order.
    """
    entered, transferred = flow.arcs[problem.entries], flow.arcs[problem.transfers]
    entries, transfers = np.flatnonzero(entered), np.flatnonzero(transferred)
    entries = entries[np.argsort(problem.entry_counters[entries], kind="stable")]
    transfers = transfers[np.argsort(problem.transfer_counters[transfers], kind="stable")]
    entry_ends, transfer_ends = np.cumsum(entered[entries]), np.cumsum(transferred[transfers])
    ends = np.union1d(entry_ends, transfer_ends)
    cell = problem.entry_cells[entries[np.searchsorted(entry_ends, ends)]]
    pool = problem.transfer_pools[transfers[np.searchsorted(transfer_ends, ends)]]
    order = np.lexsort((pool, cell))
    return cell[order], pool[order], np.diff(ends, prepend=0)[order]


def _last_of_sorted(*columns: Ints) -> Ints:
    """Sort rows by all columns, from the first one, and return the last column.

    Numbers must not be negative. Rows that fit into 63 bits are sorted as single numbers.
    """
    widths = [int(column.max()).bit_length() for column in columns]
    if sum(widths) > 63:
        return columns[-1][np.lexsort(columns[::-1])]
    packed = columns[0]
    for column, width in zip(columns[1:], widths[1:], strict=True):
        packed = packed << width | column
    # The rows consist of few ascending runs, which a stable sort merges.
    return np.sort(packed, kind="stable") & (1 << widths[-1]) - 1


def _share(start: Ints, amount: Ints, turn: Ints, width: Ints) -> Ints:
    """Return how many of `amount` positions from `start`, dealt in turn, member `turn` gets."""
    return -((turn - start - amount) // width) + ((turn - start) // width)
