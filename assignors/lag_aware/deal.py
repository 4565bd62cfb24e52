"""The rule of KIP-169 with options: each partition goes to the member with the least weight.

Members with too many partitions are excluded. With a skew of 1, without racks and owners, this is
the KIP's rule; `rounds` has the same result faster.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush


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
    """Assign partitions in the order given; return the candidate of each.

    Updates `weights` and `counts` of the candidates.

    Candidates are numbered from 0, and lower numbers win ties. `lanes`: the candidates by rack (one
    lane if racks do not count), each lane sorted by (weight, count, number); `lane_of`: the lane of
    each candidate. Candidates that cannot get a partition may be left out: `fewest` is the smallest
    count of all, and `others` is how many of those left out have it. A partition adds its amount to
    the weight and 1 to the count of its candidate. A candidate is excluded if its count would
    exceed the smallest count by more than `skew`. Of the others, the partition goes to:

    1. the one with the least weight (then the smallest count, then the first);
    2. instead, its owner in `owners` (-1: none), if weight and count are equal;
    3. instead, the one with the least weight in its `local_lanes`, if the first is in another lane,
       and the difference in weight is at most `tolerance`.
    """
    how_many = Counter(counts)
    how_many[fewest] += others
    fresh = [0] * len(lanes)  # position in each lane; candidates with new partitions are in the lane's heap
    heaps: list[list[tuple[int, int, int]]] = [[] for _ in lanes]
    touched: set[int] = set()
    waiting: dict[int, list[int]] = {}  # count → candidates excluded until `fewest` grows
    if max(how_many) - fewest >= skew:
        for one, count in enumerate(counts):
            if count - fewest >= skew:
                touched.add(one)
                waiting.setdefault(count, []).append(one)

    def head(number: int) -> tuple[int, int, int] | None:
        """Return (weight, count, number) of the best candidate of a lane."""
        heap, lane, at = heaps[number], lanes[number], fresh[number]
        while heap and heap[0][1] != counts[heap[0][2]]:  # outdated
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
        assert best is not None  # a candidate with the smallest count is never excluded
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
        freed: Sequence[int] = ()  # candidates no longer excluded, because the smallest count grew
        if count == fewest and not how_many[fewest]:
            fewest += 1
            freed = waiting.pop(fewest + skew - 1, ())
            for one in freed:
                heappush(heaps[lane_of[one]], (weights[one], counts[one], one))
        if count + 1 - fewest >= skew:
            waiting.setdefault(count + 1, []).append(winner)
        else:
            heappush(heaps[lane_of[winner]], (weights[winner], count + 1, winner))
        # The best candidates of other lanes stay the same.
        lane = lane_of[winner]
        heads[lane] = head(lane)
        if freed:
            for number in {lane_of[one] for one in freed} - {lane}:
                heads[number] = head(number)
    return chosen
