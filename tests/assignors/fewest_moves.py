"""The best that an assignor can do for a topic: locality first, then the fewest moves."""

from collections.abc import Collection, Sequence

MOST_MOVES = 1 << 20


def optimum(racks: Sequence[Collection[str | None]], members: Sequence[str], owners: Sequence[int]) -> tuple[int, int]:
    """Return the most local partitions of balanced assignments, and the fewest moves to one.

    `racks`: of each partition's replicas; `members`: the rack of each; `owners`: the member that
    has each partition. All assignments are counted, by the numbers of partitions of members.
    """
    reached = {(0,) * len(members): 0}
    for partition, owner in enumerate(owners):
        after: dict[tuple[int, ...], int] = {}
        for counts, value in reached.items():
            for member, rack in enumerate(members):
                gain = MOST_MOVES * (rack in racks[partition]) - (member != owner)
                now = (*counts[:member], counts[member] + 1, *counts[member + 1 :])
                if now[member] <= -(-len(owners) // len(members)):
                    after[now] = max(after.get(now, -MOST_MOVES), value + gain)
        reached = after
    best = max(value for counts, value in reached.items() if max(counts) - min(counts) <= 1)
    local = -(-best // MOST_MOVES)
    return local, local * MOST_MOVES - best
