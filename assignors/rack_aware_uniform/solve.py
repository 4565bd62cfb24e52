"""The best assignment, in kinds, as a flow.

Partitions flow from cells to members, either directly (they stay with members that own them) or
through a *pool* (any partitions go to members with a certain subscription and rack). A pool gets
partitions from *counters*, one for each kind of topic and each rack: a cell is local to all members
of a rack or to none, so its cost depends on the counter only. A flow costs its remote partitions
and its pooled partitions; the least cost is the best assignment.
"""

from dataclasses import dataclass

import numpy as np

from quorate.assignors.rack_aware_uniform.balance import Regions
from quorate.assignors.rack_aware_uniform.flow import Bools, Network
from quorate.assignors.rack_aware_uniform.kinds import Kinds, numbered
from quorate.assignors.topology import Ints, runs


@dataclass(frozen=True, slots=True)
class Flow:
    """An assignment in kinds.

    `arcs`: the flow on each arc of its `Problem`; `remote`: remote partitions; `pooled`: partitions
    that do not stay.
    """

    arcs: Ints
    remote: int
    pooled: int


class Problem:
    """A group as a flow network, whose arcs do not leave their regions.

    Pools and counters are codes: the number of a subscription or of a kind of topic, times the
    number of racks plus one, plus the rack. Arcs are in this order, and `keeps`, `entries`,
    `transfers` and `exits` are their slices:

    - `kept_pairs[i]` to `keeping[i]`: from the cell of a pair to the kind that keeps it;
    - `entry_cells[i]` to `entry_counters[i]`: from a cell to a counter;
    - `transfer_counters[i]` to `transfer_pools[i]`: from a counter to a pool;
    - from pools to the kinds of members, in order.
    """

    def __init__(self, groups: Kinds, regions: Regions) -> None:
        racks, local = groups.racks + 1, groups.local
        subscription, rack = groups.subscription_of[groups.first_of], groups.rack_of[groups.first_of]
        region_of_kind = regions.of_subscription[subscription]
        pool_of_kind = subscription * racks + rack
        pools = np.unique(pool_of_kind)
        self.size = len(groups.partitions)
        members = groups.members_of_kind

        pairs, kinds = groups.pairs_of_kinds()
        inside = regions.of_topic[groups.topics_of[groups.pair_cell[pairs]]] == region_of_kind[kinds]
        self.kept_pairs, self.keeping = pairs[inside], kinds[inside]
        kept_cells = groups.pair_cell[self.kept_pairs]
        owned = groups.pair_size[self.kept_pairs] * members[self.keeping]

        inside = regions.of_topic[groups.subscribed_topics] == regions.of_subscription[groups.subscribed_by]
        topics, subscriptions = groups.subscribed_topics[inside], groups.subscribed_by[inside]
        starts = np.searchsorted(pools, subscriptions * racks)
        counts = np.searchsorted(pools, (subscriptions + 1) * racks) - starts
        transfers = runs(starts, counts)
        self.transfer_pools = pools[transfers]
        self.transfer_counters = np.repeat(topics, counts) * racks + self.transfer_pools % racks
        counters, transfer_from, _ = numbered(self.transfer_counters, groups.topic_kinds * racks)
        starts = np.searchsorted(counters, groups.topics_of * racks)
        counts = np.searchsorted(counters, (groups.topics_of + 1) * racks) - starts
        entries = runs(starts, counts)
        self.entry_cells, self.entry_counters = np.repeat(np.arange(len(counts)), counts), counters[entries]

        # Nodes: cells, counters, pools, kinds, the source and the sink.
        cell_nodes = np.arange(len(groups.size_of))
        counter_from = len(cell_nodes)
        pool_from = counter_from + len(counters)
        kind_from = pool_from + len(pools)
        kind_nodes = kind_from + np.arange(len(members))
        source = self._source = kind_from + len(members)
        sink = self._sink = source + 1
        more = np.flatnonzero(~regions.exact[region_of_kind])
        arcs = [
            (kept_cells, kind_from + self.keeping, owned),
            (self.entry_cells, counter_from + entries, groups.size_of[self.entry_cells]),
            (counter_from + transfer_from, pool_from + transfers, np.full(len(transfers), self.size)),
            (pool_from + np.searchsorted(pools, pool_of_kind), kind_nodes, np.full(len(kind_nodes), self.size)),
            (np.full(len(cell_nodes), source), cell_nodes, groups.size_of),
            (kind_nodes, np.full(len(kind_nodes), sink), regions.least[region_of_kind] * members),
            (kind_nodes[more], np.full(len(more), sink), members[more]),
        ]
        tails, heads, capacities = (np.concatenate(each) for each in zip(*arcs, strict=True))
        self._network = Network(sink + 1, tails, heads, capacities)
        ends = np.cumsum([0, *(len(tails) for tails, _, _ in arcs)]).tolist()
        self.keeps, self.entries, self.transfers, self.exits = (slice(ends[at], ends[at + 1]) for at in range(4))
        self._remote: Bools = np.zeros(len(tails), np.bool_)
        self._remote[self.keeps] = ~local[kept_cells, rack[self.keeping]]
        self._remote[self.entries] = ~local[self.entry_cells, self.entry_counters % racks]
        self._pooled: Bools = np.zeros(len(tails), np.bool_)
        self._pooled[self.entries] = True
        self._extra: Bools = np.zeros(len(tails), np.bool_)
        self._extra[ends[-2] :] = True

    def best(self, remote: int, pooled: int) -> Flow:
        """Return an assignment of least cost.

        `remote`, `pooled`: the cost of a partition that is remote, or does not stay; not negative.
        """
        everything = self.size * (remote + pooled) + 1  # all members get `least` before any gets one more
        costs = remote * self._remote + pooled * self._pooled + everything * self._extra
        arcs, _ = self._network.largest(self._source, self._sink, costs)
        return self._flow(arcs)

    def _flow(self, arcs: Ints) -> Flow:
        return Flow(arcs, int(arcs[self._remote].sum()), int(arcs[self._pooled].sum()))

    def between(self, fewer: Flow, more: Flow, most: int) -> Flow:
        """Return a flow on the way from `fewer` to `more`, with at most `most` partitions pooled.

        `more` pools more partitions and has fewer remote ones; both must be best for the same
        costs. Their difference consists of cycles of exchanges with the same benefit per pooled
        partition, and as many are taken as possible.
        """
        tails, heads = self._network.tails, self._network.heads
        difference = more.arcs - fewer.arcs
        changing = np.flatnonzero(difference).tolist()
        change = {arc: int(difference[arc]) for arc in changing}
        ends = {
            arc: (int(tails[arc]), int(heads[arc])) if amount > 0 else (int(heads[arc]), int(tails[arc]))
            for arc, amount in change.items()
        }
        leaving: dict[int, list[int]] = {}
        for arc, (tail, _) in ends.items():
            leaving.setdefault(tail, []).append(arc)
        arcs, capacity = fewer.arcs.copy(), most - fewer.pooled
        for start in list(leaving):
            while capacity and (cycle := _cycle(start, change, ends, leaving)):
                amount = min(abs(change[arc]) for arc in cycle)
                signs = [1 if change[arc] > 0 else -1 for arc in cycle]
                cost = sum(sign for arc, sign in zip(cycle, signs, strict=True) if self._pooled[arc])
                times = min(amount, capacity // cost) if cost > 0 else 0
                capacity -= times * cost
                for arc, sign in zip(cycle, signs, strict=True):
                    change[arc] -= sign * amount
                    arcs[arc] += sign * times
        return self._flow(arcs)


def _cycle(
    start: int, change: dict[int, int], ends: dict[int, tuple[int, int]], leaving: dict[int, list[int]]
) -> list[int]:
    """Return the arcs of a simple cycle of changing arcs; empty if no such arc leaves `start`.

    `ends`: from where to where the change of an arc leads.
    """
    path: list[int] = []
    at = {start: 0}
    node = start
    while True:
        arcs = leaving[node]
        while arcs and not change[arcs[-1]]:
            arcs.pop()
        if not arcs:
            return []
        path.append(arcs[-1])
        node = ends[arcs[-1]][1]
        if node in at:
            return path[at[node] :]
        at[node] = len(path)
