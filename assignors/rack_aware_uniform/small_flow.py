"""Minimum-cost flows in networks of a few dozen arcs, where arrays cost more than they save."""

from collections.abc import Sequence
from heapq import heappop, heappush


def cheapest(
    nodes: int,
    arcs: Sequence[tuple[int, int]],
    capacities: Sequence[int],
    costs: Sequence[int],
    source: int,
    sink: int,
) -> tuple[list[int], list[bool]]:
    """Return the flow of each arc in a maximum flow with the least cost, and a minimum cut.

    `arcs`: tail and head of each; `costs`: not negative. The cut marks nodes that more could flow
    to. Successive shortest paths by Dijkstra's algorithm, with potentials (Edmonds and Karp 1972).
    Of equally short paths the one with the fewest arcs is taken, as this bounds their number.
    """
    count = len(arcs)
    heads = [head for _, head in arcs] + [tail for tail, _ in arcs]  # residual arcs: arc, and count + arc backwards
    left = [*capacities, *[0] * count]
    signed = [*costs, *(-cost for cost in costs)]
    leaving: list[list[int]] = [[] for _ in range(nodes)]
    for arc, (tail, head) in enumerate(arcs):
        leaving[tail].append(arc)
        leaving[head].append(count + arc)
    potential = [0] * nodes
    while True:
        distance: list[tuple[int, int] | None] = [None] * nodes
        distance[source] = (0, 0)
        entered = [-1] * nodes  # the last arc of the path to each node
        done = [False] * nodes
        waiting = [(0, 0, source)]
        while waiting and not done[sink]:
            near, length, node = heappop(waiting)
            if done[node]:
                continue
            done[node] = True
            base = near + potential[node]
            for arc in leaving[node]:
                head = heads[arc]
                if left[arc] and not done[head]:
                    new = (base + signed[arc] - potential[head], length + 1)
                    known = distance[head]
                    if known is None or new < known:
                        distance[head] = new
                        entered[head] = arc
                        heappush(waiting, (*new, head))
        end = distance[sink]
        if end is None:
            return [capacity - rest for capacity, rest in zip(capacities, left, strict=False)], done
        potential = [
            before + (end[0] if known is None or not finished else known[0])
            for before, known, finished in zip(potential, distance, done, strict=True)
        ]
        path = []
        node = sink
        while node != source:
            path.append(entered[node])
            node = heads[(entered[node] + count) % (2 * count)]
        flow = min(left[arc] for arc in path)
        for arc in path:
            left[arc] -= flow
            left[(arc + count) % (2 * count)] += flow
