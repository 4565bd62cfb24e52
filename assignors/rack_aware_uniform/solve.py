"""The best assignment of one region, in kinds: how many partitions of each cell stay with each kind of members, and how many go to whom.

Partitions flow from cells to members, either straight (they stay with members that own them) or
through a *pool* (anything goes to members with a certain subscription and rack). A flow costs what
is not local and what goes through a pool; the least cost is the best assignment.
"""

from dataclasses import dataclass

from quorate.assignors.rack_aware_uniform.balance import Region
from quorate.assignors.rack_aware_uniform.flow import Network
from quorate.assignors.rack_aware_uniform.kinds import Kinds

__all__ = ["Flow", "Problem"]


@dataclass(frozen=True, slots=True)
class Flow:
    """An assignment in kinds: the flow on each arc of its `Problem`, how many partitions are `remote`, and how many do not stay (`pooled`)."""

    arcs: list[int]
    remote: int
    pooled: int


class Problem:
    """One region.

    `cells`, `kinds` and `pools` (subscription, rack) are those of the region; arcs come in the
    order of the lists below.

    `keeps`: (cell, kind of members); `entries`: (cell, pool); `exits`: the kinds, each from its
    pool.
    """

    def __init__(self, groups: Kinds, region: Region) -> None:
        topics, subscriptions = set(region.topics), set(region.subscriptions)
        self.cells = [cell for cell, kind in enumerate(groups.topics_of) if kind in topics]
        self.kinds = [number for number, kind in enumerate(groups.kinds) if kind.subscription in subscriptions]
        self.pools = sorted({(groups.kinds[number].subscription, groups.kinds[number].rack) for number in self.kinds})
        self.size = sum(groups.size_of[cell] for cell in self.cells)
        node_of_cell = {cell: node for node, cell in enumerate(self.cells)}
        node_of_pool = {pool: len(self.cells) + node for node, pool in enumerate(self.pools)}
        first_kind = len(self.cells) + len(self.pools)
        source = self._source = first_kind + len(self.kinds)
        sink = self._sink = source + 1
        self._network = network = Network(sink + 1)
        self._remote: list[int] = []
        self._pooled: list[int] = []
        self._extra: list[int] = []

        def add(
            tail: int, head: int, capacity: int, *, remote: bool = False, pooled: bool = False, extra: bool = False
        ) -> None:
            network.add(tail, head, capacity)
            self._remote.append(remote)
            self._pooled.append(pooled)
            self._extra.append(extra)

        self.keeps: list[tuple[int, int]] = []
        for node, number in enumerate(self.kinds, first_kind):
            kind = groups.kinds[number]
            for cell, count in kind.owned.items():
                if cell in node_of_cell:
                    self.keeps.append((cell, number))
                    add(
                        node_of_cell[cell],
                        node,
                        count * len(kind.members),
                        remote=kind.rack not in groups.racks_of[cell],
                    )
        self.entries: list[tuple[int, tuple[int, int]]] = []
        pools_of: dict[int, list[tuple[int, int]]] = {}
        for pool in self.pools:
            pools_of.setdefault(pool[0], []).append(pool)
        for cell in self.cells:
            for subscription in groups.subscribed[groups.topics_of[cell]]:
                for pool in pools_of.get(subscription, ()):
                    self.entries.append((cell, pool))
                    remote = pool[1] not in groups.racks_of[cell]
                    add(node_of_cell[cell], node_of_pool[pool], groups.size_of[cell], remote=remote, pooled=True)
        self.exits = self.kinds
        for node, number in enumerate(self.kinds, first_kind):
            kind = groups.kinds[number]
            add(node_of_pool[kind.subscription, kind.rack], node, self.size)
        for cell in self.cells:
            add(source, node_of_cell[cell], groups.size_of[cell])
        for node, number in enumerate(self.kinds, first_kind):
            add(node, sink, region.least * len(groups.kinds[number].members))
            if not region.exact:
                add(node, sink, len(groups.kinds[number].members), extra=True)

        self._heads, self._tails = network.head[0::2], network.head[1::2]

    def best(self, remote: int, pooled: int) -> Flow:
        """An assignment of least cost.

        `remote`, `pooled`: what a partition costs that is remote, or that does not stay; not
        negative.
        """
        everything = self.size * (remote + pooled) + 1  # nobody gets one more before everybody has the least
        costs = [
            remote * is_remote + pooled * is_pooled + everything * extra
            for is_remote, is_pooled, extra in zip(self._remote, self._pooled, self._extra, strict=True)
        ]
        arcs, _ = self._network.largest(self._source, self._sink, costs)
        return self._flow(arcs)

    def _flow(self, arcs: list[int]) -> Flow:
        return Flow(
            arcs,
            sum(flow * remote for flow, remote in zip(arcs, self._remote, strict=True)),
            sum(flow * pooled for flow, pooled in zip(arcs, self._pooled, strict=True)),
        )

    def between(self, fewer: Flow, more: Flow, most: int) -> Flow:
        """Part of the way from `fewer` to `more`, which pools more partitions and has fewer remote ones: at most `most` are pooled.

        Both have to be best for the same costs. Their difference is circles of exchanges; each
        circle is worth the same per partition pooled, and as many are taken as there is room for.
        """
        head, tails = self._heads, self._tails
        change = [now - before for before, now in zip(fewer.arcs, more.arcs, strict=True)]
        leaving: dict[int, list[int]] = {}
        for arc, amount in enumerate(change):
            if amount:
                leaving.setdefault(tails[arc] if amount > 0 else head[arc], []).append(arc)
        arcs, room = fewer.arcs.copy(), most - fewer.pooled
        for start in list(leaving):
            while room and (circle := self._circle(start, change, leaving)):
                amount = min(abs(change[arc]) for arc, _ in circle)
                cost = sum(sign * self._pooled[arc] for arc, sign in circle)
                times = min(amount, room // cost) if cost > 0 else 0
                room -= times * cost
                for arc, sign in circle:
                    change[arc] -= sign * amount
                    arcs[arc] += sign * times
        return self._flow(arcs)

    def _circle(self, start: int, change: list[int], leaving: dict[int, list[int]]) -> list[tuple[int, int]]:
        """A circle of arcs that are still to change, each with its direction, without a node twice; none if nothing leaves `start` any more."""
        head, tails = self._heads, self._tails
        path: list[tuple[int, int]] = []
        at = {start: 0}
        node = start
        while True:
            arcs = leaving[node]
            while arcs and not change[arcs[-1]]:
                arcs.pop()
            if not arcs:
                return []
            arc = arcs[-1]
            sign = 1 if change[arc] > 0 else -1
            path.append((arc, sign))
            node = head[arc] if sign > 0 else tails[arc]
            if node in at:
                return path[at[node] :]
            at[node] = len(path)
