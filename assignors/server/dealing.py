"""Assigns partitions with too few owners to members with too few partitions, in a share group.

Partitions are in the order of the broker's map, members in that of its set. Each partition takes as
many members as it needs, in turn, starting after the last one. Members that own it already are
skipped, and members with their full share leave the queue. At its end, the queue starts again. The
assignment ends when the queue is empty, or when no member took a partition in a whole round. A
partition just assigned to a member may be assigned to it again, which changes only counts.
"""

import numpy as np

from quorate.assignors.model import AssignorError
from quorate.assignors.topology import Ints, runs, sorted_by


def deal(
    wanting: Ints, needs: Ints, row: Ints, left: Ints, holders: Ints, held: Ints, members: int
) -> tuple[Ints, Ints]:
    """Return the places that take partitions, and the partition numbers, in time order.

    `wanting[i]` needs `needs[i]` more owners, at least one. Place `row[i]` may take `left[i]`, at
    least one. `holders[i]` owns `held[i]`, one of `wanting`. Raises `AssignorError` where Kafka
    fails.
    """
    rounds = runs(np.zeros_like(left), left)
    takers = sorted_by(rounds, np.repeat(row, left), int(left.max(initial=0)))
    taken = np.repeat(wanting, needs)[: len(takers)]
    takers = takers[: len(taken)]
    enough = len(taken) == needs.sum() or bool((np.cumsum(needs) == len(taken)).any())
    if enough and (_each_without_owner(needs, held) or _each_once(takers, taken, holders, held, members)):
        return takers, taken
    return _one_by_one(wanting, needs, row, left, holders, held)


def _each_without_owner(needs: Ints, held: Ints) -> bool:
    return not len(held) and int(needs.max()) == 1


def _each_once(takers: Ints, taken: Ints, holders: Ints, held: Ints, members: int) -> bool:
    """Return whether no member takes a partition that it owns, or takes one twice."""
    keys = np.concatenate([held * members + holders, taken * members + takers])
    keys.sort()
    return bool((keys[1:] != keys[:-1]).all())


def _one_by_one(wanting: Ints, needs: Ints, row: Ints, left: Ints, holders: Ints, held: Ints) -> tuple[Ints, Ints]:
    """Return the same, computed step by step."""
    holds = set(zip(held.tolist(), holders.tolist(), strict=True))
    unfilled = dict(zip(row.tolist(), left.tolist(), strict=True))
    pairs: list[tuple[int, int]] = []
    taken: set[tuple[int, int]] = set()
    turn, at, some = list(unfilled), 0, False
    for number, need in zip(wanting.tolist(), needs.tolist(), strict=True):
        while need > 0:
            if at == len(turn):
                if not some:
                    return _as_arrays(pairs)
                turn, at, some = list(unfilled), 0, False
                if not turn:
                    raise AssignorError(
                        "all members have their share before all partitions have enough owners, "
                        "where Kafka's assignor fails: "
                        "some own partitions that cannot be assigned; remove these from their owned partitions"
                    )
            place = turn[at]
            at += 1
            pair = (number, place)
            if pair in holds:
                continue
            pairs.append(pair)
            need -= 1
            some = True
            if pair not in taken:
                taken.add(pair)
                unfilled[place] -= 1
                if not unfilled[place]:
                    del unfilled[place]
        if not unfilled:
            break
    return _as_arrays(pairs)


def _as_arrays(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 1], both[:, 0]
