"""`Network.largest`: each flow is proved to be a maximum, and to have the least cost.

A flow is a maximum if a cut has its size, and it has the least cost if its residual network has no
cycle of negative cost.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors.rack_aware_uniform import flow
from quorate.assignors.rack_aware_uniform.flow import Network
from tests.extent import portion


@pytest.fixture(params=["arrays", "lists"], scope="module", autouse=True)
def _algorithm(request):
    """Solve all networks by arrays, or none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "FEW", -1 if request.param == "arrays" else 10**9)
        yield


def check(nodes, tails, heads, capacities, costs):
    source, sink = 0, nodes - 1
    flows, reached = Network(nodes, tails, heads, capacities).largest(source, sink, costs)
    assert (flows >= 0).all()
    assert (flows <= capacities).all()
    excess = np.bincount(heads, flows, nodes) - np.bincount(tails, flows, nodes)
    assert not excess[1:-1].any()
    assert reached[source]
    assert not reached[sink]
    assert excess[sink] == capacities[reached[tails] & ~reached[heads]].sum()
    if costs is not None:
        assert not has_negative_cycle(nodes, tails, heads, capacities, costs, flows)


def has_negative_cycle(nodes, tails, heads, capacities, costs, flows):
    """Search by Bellman and Ford's algorithm, from all nodes at once."""
    more, less = flows < capacities, flows > 0
    begin = np.concatenate([tails[more], heads[less]])
    end = np.concatenate([heads[more], tails[less]])
    cost = np.concatenate([costs[more], -costs[less]])
    distance = np.zeros(nodes, np.int64)
    for _ in range(nodes):
        before = distance.copy()
        np.minimum.at(distance, end, before[begin] + cost)
    return bool((distance[begin] + cost < distance[end]).any())


@st.composite
def networks(draw):
    nodes = draw(st.integers(2, 8))
    number = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(number, number, st.integers(0, 5), st.integers(0, 4)), max_size=24))
    tails, heads, capacities, costs = np.array(arcs, np.int64).reshape(-1, 4).T
    return nodes, tails, heads, capacities, costs


@settings(max_examples=portion(400))
@given(networks(), st.booleans())
def test_flows_in_small_networks(network, with_costs):
    *shape, costs = network
    check(*shape, costs if with_costs else None)


@pytest.mark.parametrize("seed", range(20))
def test_flows_in_larger_networks(seed):
    """Layers of nodes as in the networks of groups, where many arcs compete for few heads."""
    rng = np.random.default_rng(seed)
    layers = np.cumsum([1, *rng.integers(3, 40, int(rng.integers(1, 4))), 1])
    tails, heads = [], []
    for at in range(len(layers) - 1):
        here = np.arange(layers[at - 1] if at else 0, layers[at])
        there = np.arange(layers[at], layers[at + 1])
        if at in (0, len(layers) - 2):
            tail, head = (each.ravel() for each in np.meshgrid(here, there))
        else:
            count = 4 * max(len(here), len(there))
            tail, head = rng.choice(here, count), rng.choice(there, count)
        tails.append(tail)
        heads.append(head)
    tails, heads = np.concatenate(tails), np.concatenate(heads)
    capacities = rng.integers(0, 12, len(tails))
    costs = rng.choice([0, 0, 1, 7, 1_000], len(tails))
    check(int(layers[-1]), tails, heads, capacities, costs)
