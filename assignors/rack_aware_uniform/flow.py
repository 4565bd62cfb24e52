"""Minimum-cost flows in small networks, with integers: successive shortest paths of equal length.

Knows nothing of partitions.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["Network"]


class Network:
    """Nodes 0, 1, … and arcs 0, 2, 4, …; an arc's number plus one is the reverse arc.

    Costs must not be negative.
    """

    def __init__(self, nodes: int) -> None:
        self.leaving: list[list[int]] = [[] for _ in range(nodes)]
        self.head: list[int] = []
        self.capacity: list[int] = []

    def add(self, tail: int, head: int, capacity: int) -> int:
        """Add an arc and return its number."""
        number = len(self.head)
        self.leaving[tail].append(number)
        self.leaving[head].append(number + 1)
        self.head += (head, tail)
        self.capacity += (capacity, 0)
        return number

    def largest(self, source: int, sink: int, costs: Sequence[int] | None = None) -> tuple[list[int], list[bool]]:
        """Compute a maximum flow from source to sink with the least cost.

        `costs`: of the arcs 0, 2, 4, …; by default all 0.

        Returns the flow of each arc 0, 2, 4, …, and for each node whether more could flow to it (a
        minimum cut).
        """
        left = self.capacity.copy()
        both = [0] * len(left) if costs is None else [cost for one in costs for cost in (one, -one)]
        potential = [0] * len(self.leaving)
        while True:
            reached, distance = self._distances(source, sink, left, both, potential)
            if distance[sink] < 0:
                break
            longest = distance[sink]
            for node in range(len(potential)):
                potential[node] += distance[node] if 0 <= distance[node] < longest else longest
            usable = self._usable(left, both, potential)
            while (level := self._levels(source, sink, left, usable)) is not None:
                self._augment(source, sink, left, usable, level)
        return [self.capacity[arc] - left[arc] for arc in range(0, len(left), 2)], reached

    def _distances(
        self, source: int, sink: int, left: list[int], costs: list[int], potential: list[int]
    ) -> tuple[list[bool], list[int]]:
        """Return which nodes are closer than the sink, and their distances by reduced costs.

        If the sink is not reached, these are all reached nodes. Distance -1 means unknown.
        """
        head, leaving = self.head, self.leaving
        distance = [-1] * len(leaving)
        done = [False] * len(leaving)
        distance[source] = 0
        # Most reduced costs are 0; such nodes need no queue.
        near, queue = [source], list[tuple[int, int]]()
        while near or queue:
            if near:
                node = near.pop()
                far = distance[node]
            else:
                far, node = heappop(queue)
            if done[node] or far != distance[node]:
                continue
            done[node] = True
            if node == sink:
                break
            base = far + potential[node]
            for arc in leaving[node]:
                if left[arc]:
                    other = head[arc]
                    if not done[other]:
                        new = base + costs[arc] - potential[other]
                        old = distance[other]
                        if old < 0 or new < old:
                            distance[other] = new
                            if new == far:
                                near.append(other)
                            else:
                                heappush(queue, (new, other))
        return done, [far if done[node] else -1 for node, far in enumerate(distance)]

    def _usable(self, left: list[int], costs: list[int], potential: list[int]) -> list[list[int]]:
        """Return for each node the arcs on shortest paths, in either direction."""
        head = self.head
        usable: list[list[int]] = []
        for node, leaving in enumerate(self.leaving):
            mine = potential[node]
            usable.append(
                [arc for arc in leaving if mine + costs[arc] == potential[head[arc]] and left[arc] + left[arc ^ 1]]
            )
        return usable

    def _levels(self, source: int, sink: int, left: list[int], usable: list[list[int]]) -> list[int] | None:
        """Return each node's number of arcs from the source; `None` if the sink is not reached."""
        head = self.head
        level = [-1] * len(usable)
        level[source] = 0
        nodes = [source]
        while nodes and level[sink] < 0:
            after = []
            for node in nodes:
                for arc in usable[node]:
                    if left[arc] and level[head[arc]] < 0:
                        level[head[arc]] = level[node] + 1
                        after.append(head[arc])
            nodes = after
        return level if level[sink] >= 0 else None

    def _augment(self, source: int, sink: int, left: list[int], usable: list[list[int]], level: list[int]) -> None:
        """Fill all paths along the levels (Dinitz's algorithm)."""
        head = self.head
        at = [0] * len(usable)  # the next arc to try, by node
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                amount = min(left[arc] for arc in path)
                full = len(path)
                for place in range(len(path) - 1, -1, -1):
                    arc = path[place]
                    left[arc] -= amount
                    left[arc ^ 1] += amount
                    if not left[arc]:
                        full = place
                # Resume where the first arc became full; the arcs before it may carry more.
                node = head[path[full] ^ 1]
                del path[full:]
            below = level[node] + 1
            arcs = usable[node]
            while at[node] < len(arcs):
                arc = arcs[at[node]]
                if left[arc] and level[head[arc]] == below:
                    path.append(arc)
                    node = head[arc]
                    break
                at[node] += 1
            else:
                if not path:
                    return
                node = head[path.pop() ^ 1]
                at[node] += 1
