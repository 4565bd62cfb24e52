"""Deals partitions with too few holders to members with too few partitions, in a share group.

Partitions stand in the order of the broker's map, members in that of its set. Each partition takes
as many members as it needs, one after the other, from where the last one stopped; who holds it
already is passed over; who has his part leaves the row; at its end, it goes on from the start. The
end comes when the row is empty, or when a whole round of it found nobody to take anything. A
partition that was just dealt to a member may be dealt to it again, which changes nothing but
counts.
"""

import numpy as np

from quorate.assignors.model import AssignorError
from quorate.assignors.topology import Ints

__all__ = ["dealt"]


def dealt(
    wanting: Ints, needs: Ints, row: Ints, left: Ints, holders: Ints, held: Ints, members: int
) -> tuple[Ints, Ints]:
    """The places that take, and the partition numbers that they take, in time.

    `wanting[i]` needs `needs[i]` more holders, at least one. Place `row[i]` may take `left[i]`, at
    least one. `holders[i]` has `held[i]`, one of those that want. Raises `AssignorError` where
    Kafka fails.
    """
    rounds = np.arange(left.sum()) - np.repeat(np.cumsum(left) - left, left)
    takers = np.repeat(row, left)[np.argsort(rounds, kind="stable")]
    taken = np.repeat(wanting, needs)[: len(takers)]
    takers = takers[: len(taken)]
    enough = len(taken) == needs.sum() or bool((np.cumsum(needs) == len(taken)).any())
    if enough and (_each_alone(needs, held) or _each_once(takers, taken, holders, held, members)):
        return takers, taken
    return _one_by_one(wanting, needs, row, left, holders, held)


def _each_alone(needs: Ints, held: Ints) -> bool:
    return not len(held) and int(needs.max()) == 1


def _each_once(takers: Ints, taken: Ints, holders: Ints, held: Ints, members: int) -> bool:
    """Whether nobody takes a partition that he holds, or takes it twice."""
    keys = np.concatenate([held * members + holders, taken * members + takers])
    keys.sort()
    return bool((keys[1:] != keys[:-1]).all())


def _one_by_one(wanting: Ints, needs: Ints, row: Ints, left: Ints, holders: Ints, held: Ints) -> tuple[Ints, Ints]:
    """The same, step by step."""
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
                        "members have their parts before all partitions have their holders, where Kafka's assignor fails: "
                        "some hold partitions that cannot be assigned; take these out of what they hold"
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
