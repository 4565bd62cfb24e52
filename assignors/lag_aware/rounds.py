"""The rule of KIP-169 for many topics at once.

A partition goes to a member with the fewest partitions of the topic, so members get partitions in
rounds: each gets one before any gets a second. Lags do not change between two turns of one member.
So a round matches members in order of increasing lag with partitions in order of decreasing lag.
"""

import numpy as np

from quorate.assignors.lag_aware.prepare import Table
from quorate.assignors.topology import Ints

_FEW = 96
"""Number of members (over all topics assigned together) up to which NumPy is slower."""


def by_rounds(table: Table) -> Ints:
    """Return the member of each partition; -1 without subscribers."""
    owner: Ints = np.full(len(table.lags), -1, np.int64)
    for members, topics in table.dealt_together():
        _deal(table, members, np.array(topics, np.int64), owner)
    return owner


def _deal(table: Table, members: Ints, topics: Ints, owner: Ints) -> None:
    first = table.topology.first
    sizes = table.topology.sizes[topics]
    # Longest first, so that topics with partitions left in a round are the first rows.
    order = np.argsort(-sizes, kind="stable")
    starts, sizes = first[topics[order]], sizes[order]
    number = len(members)
    totals = np.zeros((int(np.count_nonzero(sizes > number)), number), np.int64)
    lags = table.lags[table.by_lag]
    last = np.array([np.count_nonzero(lags[a : a + b]) for a, b in zip(starts, sizes, strict=True)], np.int64)

    # The first round is in member order, because all are equal.
    begins = np.repeat(starts - np.append(0, np.cumsum(np.minimum(sizes, number))[:-1]), np.minimum(sizes, number))
    places = begins + np.arange(len(begins))
    ranks = places - np.repeat(starts, np.minimum(sizes, number))
    owner[table.by_lag[places]] = members[ranks]
    totals[:] = lags[starts[: len(totals), None] + np.arange(number)]

    done = number
    columns = np.arange(number)
    rows = len(totals)
    while rows:
        if rows * number <= _FEW:
            for row in range(rows):
                _deal_on(table, members, int(starts[row]), int(sizes[row]), done, totals[row].tolist(), owner)
            return
        ranking = np.argsort(totals[:rows], axis=1, kind="stable")
        if done >= last[:rows].max():  # only zeros are left, so the order of members stays
            for row in range(rows):
                rest = np.arange(done, sizes[row])
                owner[table.by_lag[starts[row] + rest]] = members[ranking[row, rest % number]]
            return
        places = starts[:rows, None] + done + columns
        there = done + columns < sizes[:rows, None]
        owner[table.by_lag[places[there]]] = members[ranking[there]]
        gained = np.where(there, lags[np.minimum(places, len(lags) - 1)], 0)
        np.put_along_axis(totals[:rows], ranking, np.take_along_axis(totals[:rows], ranking, 1) + gained, 1)
        done += number
        rows = int(np.count_nonzero(sizes > done))


def _deal_on(table: Table, members: Ints, start: int, size: int, done: int, totals: list[int], owner: Ints) -> None:
    """Assign the remaining rounds of one topic."""
    partitions = table.by_lag[start + done : start + size]
    lags = table.lags[partitions].tolist()
    number = len(totals)
    chosen: list[int] = []
    for begin in range(0, len(lags), number):
        ranking = sorted(range(number), key=totals.__getitem__)
        part = lags[begin : begin + number]
        if not part[0]:
            owner[partitions[begin:]] = members[np.resize(ranking, len(lags) - begin)]
            break
        chosen += ranking[: len(part)]
        for member, lag in zip(ranking, part, strict=False):
            totals[member] += lag
    owner[partitions[: len(chosen)]] = members[chosen]
