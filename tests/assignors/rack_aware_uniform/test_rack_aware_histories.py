"""`rack-aware-uniform` over histories of a group: balanced, with at most `max_moved` moves.

More partitions move only if balance needs it.
"""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors.rack_aware_uniform import RackAwareUniformAssignor
from tests.assignors.groups import check_valid, local
from tests.assignors.own_histories import History
from tests.extent import portion


@settings(max_examples=portion(50))
@given(st.randoms(use_true_random=False), st.booleans(), st.integers(0, 6), st.sampled_from(["replica", "leader"]))
def test_no_rebalance_exceeds_max_moved_unless_balance_needs_it(rng, same, bound, locality):
    history = History.begun(rng, same=same)
    assignor = RackAwareUniformAssignor(max_moved=bound, locality=locality)
    for _ in range(6):
        members, topology = history.members, history.topology
        assignment = assignor.assign(members, topology)
        check_valid(assignment, members, topology)
        stickiest = RackAwareUniformAssignor(prefer="stickiness", locality=locality).assign(members, topology)
        freest = RackAwareUniformAssignor(locality=locality).assign(members, topology)
        assert np.array_equal(np.sort(assignment.counts), np.sort(freest.counts))
        if same:
            assert np.ptp(assignment.counts) <= 1
        needed = claimed_moves(stickiest, members, topology)
        assert claimed_moves(assignment, members, topology) <= max(bound, needed)
        assert history.moved(assignment) <= max(bound, needed)
        leader = locality == "leader"
        assert local(assignment, members, leader=leader) <= local(freest, members, leader=leader)
        history.take(assignment)
        history.change()


def claimed_moves(assignment, members, topology):
    """Count partitions that their newest claimant does not get although it still subscribes."""
    newest = {}
    for name, member in members.items():
        for at in member.owned:
            if at.topic in member.topics and topology.number(*at) >= 0:
                newest.setdefault(at, []).append((member.generation, name))
    moved = 0
    for at, claims in newest.items():
        claims.sort(reverse=True)
        alone = len(claims) == 1 or claims[0][0] > claims[1][0]
        moved += alone and at not in assignment[claims[0][1]]
    return moved


def test_without_max_moved_such_histories_move_more():
    """Otherwise `max_moved` would have no effect in these tests."""
    beyond = 0
    for seed in range(30):
        history = History.begun(Random(seed), same=True)
        for _ in range(6):
            members, topology = history.members, history.topology
            assignment = RackAwareUniformAssignor().assign(members, topology)
            needed = claimed_moves(
                RackAwareUniformAssignor(prefer="stickiness").assign(members, topology), members, topology
            )
            beyond += claimed_moves(assignment, members, topology) > max(3, needed)
            history.take(assignment)
            history.change()
    assert beyond > 5
