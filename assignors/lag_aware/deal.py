"""The rule of KIP-169 with options, a partition at a time: to the member with the least weight among those whose number of partitions allows it.

With a skew of 1, no racks and no owners, this is the KIP's rule: `rounds` gives the same answer
faster.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["deal"]


def deal(
    amounts: Sequence[int],
    weights: list[int],
    counts: list[int],
    lanes: Sequence[Sequence[int]],
    lane_of: Sequence[int],
    *,
    skew: int,
    fewest: int,
    others: int = 0,
    local_lanes: Sequence[Sequence[int]] | None = None,
    tolerance: int = 0,
    owners: Sequence[int] | None = None,
) -> list[int]:
    """Deal partitions in the order given.

    Returns the candidate that each goes to; `weights` and `counts` of the candidates are brought up
    to date.

    Candidates are numbers from 0, in the order that decides between equals. `lanes`: the same
    candidates by rack (one lane if racks do not count), each lane sorted by (weight, count,
    number); `lane_of`: the lane of each candidate. Those that can get nothing in any case may be
    left out: `fewest` is the least count of all, and `others` of those left out have it. A
    partition adds its amount to the weight and 1 to the count of who gets it; nobody gets one that
    would have more than `skew` partitions more than the fewest that anybody has. Of those allowed:

    1. the lightest (then the one with the fewest partitions, then the first);
    2. but its `owners` entry (-1: none), if that one is as light and has as few;
    3. but the lightest in its `local_lanes`, if the lightest of all is not in them and that one is
       heavier by `tolerance` at most.
    """
    how_many = Counter(counts)
    how_many[fewest] += others
    fresh = [0] * len(lanes)  # how far each lane is used up; candidates that got something are in the lane's heap
    heaps: list[list[tuple[int, int, int]]] = [[] for _ in lanes]
    touched: set[int] = set()
    waiting: dict[int, list[int]] = {}  # count → candidates that have too many until `fewest` grows
    if max(how_many) - fewest >= skew:
        for one, count in enumerate(counts):
            if count - fewest >= skew:
                touched.add(one)
                waiting.setdefault(count, []).append(one)

    def head(number: int) -> tuple[int, int, int] | None:
        """The best of a lane: (weight, count, number)."""
        heap, lane, at = heaps[number], lanes[number], fresh[number]
        while heap and heap[0][1] != counts[heap[0][2]]:  # got another one since
            heappop(heap)
        while at < len(lane) and lane[at] in touched:
            at += 1
        fresh[number] = at
        if at < len(lane):
            one = lane[at]
            key = (weights[one], counts[one], one)
            if not heap or key < heap[0]:
                return key
        return heap[0] if heap else None

    chosen: list[int] = []
    heads = [head(number) for number in range(len(lanes))]
    but_the_first = range(1, len(lanes))
    for place, amount in enumerate(amounts):
        best, lane = heads[0], 0
        for number in but_the_first:
            key = heads[number]
            if key is not None and (best is None or key < best):
                best, lane = key, number
        assert best is not None  # the candidate with the fewest is always allowed
        winner = best[2]
        owner = -1 if owners is None else owners[place]
        if owner >= 0 and weights[owner] == best[0] and counts[owner] == best[1]:
            winner = owner
        elif local_lanes is not None and lane not in local_lanes[place]:
            near = min([key for number in local_lanes[place] if (key := heads[number]) is not None], default=None)
            if near is not None and near[0] <= best[0] + tolerance:
                winner = near[2]
        chosen.append(winner)
        count = counts[winner]
        how_many[count] -= 1
        how_many[count + 1] += 1
        counts[winner] = count + 1
        weights[winner] += amount
        touched.add(winner)
        freed: Sequence[int] = ()  # may be given some again, now that nobody has as few as before
        if count == fewest and not how_many[fewest]:
            fewest += 1
            freed = waiting.pop(fewest + skew - 1, ())
            for one in freed:
                heappush(heaps[lane_of[one]], (weights[one], counts[one], one))
        if count + 1 - fewest >= skew:
            waiting.setdefault(count + 1, []).append(winner)
        else:
            heappush(heaps[lane_of[winner]], (weights[winner], count + 1, winner))
        # The best of other lanes stays.
        lane = lane_of[winner]
        heads[lane] = head(lane)
        if freed:
            for number in {lane_of[one] for one in freed} - {lane}:
                heads[number] = head(number)
    return chosen
