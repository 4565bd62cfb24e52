"""Minimum-cost flows with integers: successive shortest paths, all paths of a length at once.

Nodes and arcs are arrays, and each step works on all arcs that leave a set of nodes, so that
networks of 100,000 arcs take fractions of a second. Knows nothing of partitions.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors.rack_aware_uniform.small_flow import cheapest
from quorate.assignors.topology import Ints, runs, stable_order

Bools = npt.NDArray[np.bool_]

UNREACHED = np.iinfo(np.int64).max
FEW = 100
"""Networks with up to so many arcs are solved without arrays, which takes a tenth of the time."""
OFFERS = 6
"""How often the nodes of a layer offer flow to the next one before the rest is returned."""


@dataclass(frozen=True, slots=True)
class _Arcs:
    """Arcs sorted by tail: those of node `n` are `arcs[first[n]:first[n + 1]]`."""

    arcs: Ints
    first: Ints

    def leaving(self, nodes: Ints) -> Ints:
        starts = self.first[nodes]
        return self.arcs[runs(starts, self.first[nodes + 1] - starts)]


class Network:
    """Nodes 0, 1, … and arcs in the order given, each with a reverse arc of capacity 0.

    Costs must not be negative.
    """

    def __init__(self, nodes: int, tails: Ints, heads: Ints, capacities: Ints) -> None:
        self.nodes = nodes
        self.tails, self.heads, self.capacities = tails, heads, capacities
        count = len(tails)
        if count <= FEW:
            return
        # Residual arcs sorted by tail. The reverse of a residual arc is another one.
        both = np.concatenate([tails, heads])
        order = stable_order(both, nodes)
        place = np.empty(2 * count, np.int64)
        place[order] = np.arange(2 * count)
        self._forward: Ints = place[:count]
        self._backward: Ints = place[count:]
        self._tail: Ints = both[order]
        self._head: Ints = np.concatenate([heads, tails])[order]
        self._reverse: Ints = np.empty(2 * count, np.int64)
        self._reverse[self._forward] = self._backward
        self._reverse[self._backward] = self._forward
        self._all = _Arcs(np.arange(2 * count), self._bounds(self._tail))

    def _bounds(self, tails: Ints) -> Ints:
        first = np.zeros(self.nodes + 1, np.int64)
        np.cumsum(np.bincount(tails, minlength=self.nodes), out=first[1:])
        return first

    def _different(self, nodes: Ints) -> Ints:
        """Return the different nodes of an array, ascending."""
        marked = np.zeros(self.nodes, np.bool_)
        marked[nodes] = True
        return np.flatnonzero(marked)

    def largest(self, source: int, sink: int, costs: Ints | None = None) -> tuple[Ints, Bools]:
        """Compute a maximum flow from source to sink with the least cost.

        `costs`: of the arcs; by default all 0.

        Returns the flow of each arc, and for each node whether more could flow to it (a minimum
        cut).
        """
        if len(self.tails) <= FEW:
            arcs = list(zip(self.tails.tolist(), self.heads.tolist(), strict=True))
            listed = [0] * len(arcs) if costs is None else costs.tolist()
            flow, cut = cheapest(self.nodes, arcs, self.capacities.tolist(), listed, source, sink)
            return np.array(flow, np.int64), np.array(cut, np.bool_)
        left = np.zeros(len(self._tail), np.int64)
        left[self._forward] = self.capacities
        if costs is None:
            reached = self._fill(source, sink, left, self._all)
            return self.capacities - left[self._forward], reached
        signed = np.empty(len(self._tail), np.int64)
        signed[self._forward], signed[self._backward] = costs, -costs
        reduced = signed
        while True:
            distance = self._distances(source, sink, left, reduced)
            if distance[sink] == UNREACHED:
                return self.capacities - left[self._forward], distance < UNREACHED
            distance = np.minimum(distance, distance[sink])
            reduced = reduced + distance[self._tail] - distance[self._head]
            usable = np.flatnonzero((reduced == 0) & (left + left[self._reverse] > 0))
            self._fill(source, sink, left, _Arcs(usable, self._bounds(self._tail[usable])))

    def _distances(self, source: int, sink: int, left: Ints, costs: Ints) -> Ints:
        """Return the distances of nodes that are closer than the sink, and of the sink.

        Distances of other nodes are those by arcs from closer nodes, or `UNREACHED`.
        """
        distance = np.full(self.nodes, UNREACHED)
        distance[source] = 0
        done = np.zeros(self.nodes, np.bool_)
        while True:
            waiting = np.where(done, UNREACHED, distance)
            near = int(waiting.min())
            if near == UNREACHED or near == distance[sink]:
                return distance
            nodes = np.flatnonzero(waiting == near)
            while len(nodes):
                done[nodes] = True
                arcs = self._all.leaving(nodes)
                arcs = arcs[left[arcs] > 0]
                heads = self._head[arcs]
                new = near + costs[arcs]
                closer = new < distance[heads]
                heads, new = heads[closer], new[closer]
                np.minimum.at(distance, heads, new)
                nodes = self._different(heads[new == near])

    def _fill(self, source: int, sink: int, left: Ints, usable: _Arcs) -> Bools:
        """Push flow along paths of usable arcs, shortest first, until no path is left.

        Changes `left`, and returns the nodes that are still reached.
        """
        while True:
            layers, reached = self._layers(source, sink, left, usable)
            if not reached[sink]:
                return reached
            self._push(source, sink, left, layers)

    def _layers(self, source: int, sink: int, left: Ints, usable: _Arcs) -> tuple[list[Ints], Bools]:
        """Return the arcs from each layer of nodes to the next one, up to the sink's layer.

        Layer `i` has the nodes that are `i` arcs from the source.
        """
        reached = np.zeros(self.nodes, np.bool_)
        reached[source] = True
        layers = []
        nodes = np.array([source])
        while len(nodes) and not reached[sink]:
            arcs = usable.leaving(nodes)
            arcs = arcs[left[arcs] > 0]
            arcs = arcs[~reached[self._head[arcs]]]
            nodes = self._different(self._head[arcs])
            reached[nodes] = True
            layers.append(arcs)
        return layers, reached

    def _push(self, source: int, sink: int, left: Ints, layers: list[Ints]) -> None:
        """Push flow through the layers; at least one unit arrives.

        `bound[node]` is an upper bound of the flow from a node to the sink. Flow that finds no head
        that can take it is returned at the end.
        """
        bound = np.zeros(self.nodes, np.int64)
        bound[sink] = UNREACHED
        for depth in range(len(layers) - 1, -1, -1):
            arcs = layers[depth]
            through = np.minimum(left[arcs], bound[self._head[arcs]])
            layers[depth] = arcs = arcs[through > 0]
            np.add.at(bound, self._tail[arcs], through[through > 0])
        excess = np.zeros(self.nodes, np.int64)
        excess[source] = bound[source]
        flows = [self._offered(arcs, left[arcs], excess, bound) for arcs in layers]
        excess[source] = excess[sink] = 0
        for arcs, flow in zip(reversed(layers), reversed(flows), strict=True):
            by_head = np.flatnonzero((flow > 0) & (excess[self._head[arcs]] > 0))
            if len(by_head):
                by_head = by_head[stable_order(self._head[arcs[by_head]], self.nodes)]
                heads = self._head[arcs[by_head]]
                back = _shared(heads, flow[by_head], excess)
                flow[by_head] -= back
                np.subtract.at(excess, heads, back)
                np.add.at(excess, self._tail[arcs[by_head]], back)
                excess[source] = 0
            left[arcs] -= flow
            left[self._reverse[arcs]] += flow

    def _offered(self, arcs: Ints, capacity: Ints, excess: Ints, bound: Ints) -> Ints:
        """Push the excess of the arcs' tails to their heads, and return the flow of each arc.

        Each tail offers its excess to its heads in turn, and a head takes as much as its bound
        allows. Changes `excess` and `bound`.
        """
        flow = np.zeros(len(arcs), np.int64)
        tails, heads = self._tail[arcs], self._head[arcs]
        open_ = np.arange(len(arcs))
        arrived = np.zeros(self.nodes, np.int64)
        for _ in range(OFFERS):
            able = np.minimum(capacity[open_] - flow[open_], bound[heads[open_]])
            able[excess[tails[open_]] == 0] = 0
            open_, able = open_[able > 0], able[able > 0]
            offer = _shared(tails[open_], able, excess)
            offering = offer > 0
            by_head, offer = open_[offering], offer[offering]
            if not len(by_head):
                break
            order = stable_order(heads[by_head], self.nodes)
            by_head = by_head[order]
            taken = _shared(heads[by_head], offer[order], bound)
            flow[by_head] += taken
            np.subtract.at(excess, tails[by_head], taken)
            np.subtract.at(bound, heads[by_head], taken)
            np.add.at(arrived, heads[by_head], taken)
        excess += arrived
        return flow


def _shared(nodes: Ints, most: Ints, available: Ints) -> Ints:
    """Return how much of `available[node]` each entry gets, in turn, if it takes up to `most`.

    Entries of a node are next to each other.
    """
    if not len(nodes):
        return most
    before = np.cumsum(most) - most
    starts = np.flatnonzero(np.append(True, nodes[1:] != nodes[:-1]))
    before -= np.repeat(before[starts], np.diff(np.append(starts, len(nodes))))
    return np.clip(available[nodes] - before, 0, most)
