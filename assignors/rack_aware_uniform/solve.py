"""The best assignment of one region, in kinds, as a flow.

Partitions flow from cells to members, either directly (they stay with members that own them) or
through a *pool* (any partitions go to members with a certain subscription and rack). A flow costs
its remote partitions and its pooled partitions; the least cost is the best assignment.
"""

from dataclasses import dataclass

from quorate.assignors.rack_aware_uniform.balance import Region
from quorate.assignors.rack_aware_uniform.flow import Network
from quorate.assignors.rack_aware_uniform.kinds import Kinds

__all__ = ["Flow", "Problem"]


@dataclass(frozen=True, slots=True)
class Flow:
    """An assignment in kinds.

    `arcs`: the flow on each arc of its `Problem`; `remote`: remote partitions; `pooled`: partitions
    that do not stay.
    """

    arcs: list[int]
    remote: int
    pooled: int


class Problem:
    """One region as a flow network.

    `cells`, `kinds` and `pools` (subscription, rack) are those of the region. Arcs are in the order
    of these lists: `keeps`: (cell, kind of members); `entries`: (cell, pool); `exits`: the kinds,
    each from its pool.
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
        """Return an assignment of least cost.

        `remote`, `pooled`: the cost of a partition that is remote, or does not stay; not negative.
        """
        everything = self.size * (remote + pooled) + 1  # all members get `least` before any gets one more
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
        """Return a flow on the way from `fewer` to `more`, with at most `most` partitions pooled.

        `more` pools more partitions and has fewer remote ones; both must be best for the same
        costs. Their difference consists of cycles of exchanges with the same benefit per pooled
        partition, and as many are taken as possible.
        """
        head, tails = self._heads, self._tails
        change = [now - before for before, now in zip(fewer.arcs, more.arcs, strict=True)]
        leaving: dict[int, list[int]] = {}
        for arc, amount in enumerate(change):
            if amount:
                leaving.setdefault(tails[arc] if amount > 0 else head[arc], []).append(arc)
        arcs, capacity = fewer.arcs.copy(), most - fewer.pooled
        for start in list(leaving):
            while capacity and (cycle := self._cycle(start, change, leaving)):
                amount = min(abs(change[arc]) for arc, _ in cycle)
                cost = sum(sign * self._pooled[arc] for arc, sign in cycle)
                times = min(amount, capacity // cost) if cost > 0 else 0
                capacity -= times * cost
                for arc, sign in cycle:
                    change[arc] -= sign * amount
                    arcs[arc] += sign * times
        return self._flow(arcs)

    def _cycle(self, start: int, change: list[int], leaving: dict[int, list[int]]) -> list[tuple[int, int]]:
        """Return a simple cycle of changing arcs with directions; empty if `start` has none."""
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
