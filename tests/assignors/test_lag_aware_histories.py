"""`lag-aware` over histories of a group: the bound on moves holds in each rebalance, and under it the group still comes to even numbers."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors.lag_aware import LagAwareAssignor
from tests.assignors.groups import check_valid
from tests.assignors.own_histories import History

OPTIONS = st.fixed_dictionaries(
    {
        "max_count_skew": st.integers(1, 3),
        "spread_idle": st.booleans(),
        "shuffle": st.booleans(),
        "locality": st.sampled_from([None, "replica", "leader"]),
    }
)


def count_gaps(history):
    """For each topic by how much its subscribers' numbers of partitions differ."""
    counts = {
        topic: {name: 0 for name, one in history.consumers.items() if topic in one.topics} for topic in history.topics
    }
    for at, name in history.holder.items():
        counts[at.topic][name] += 1
    return [max(found.values()) - min(found.values()) for found in counts.values() if found]


@given(st.randoms(use_true_random=False), st.booleans(), OPTIONS, st.integers(0, 6))
def test_no_rebalance_moves_more_than_its_bound(rng, same, options, bound):
    history = History.begun(rng, same=same)
    assignor = LagAwareAssignor(max_moved=bound, **options)
    for _ in range(8):
        members, topology = history.members, history.topology
        assignment = assignor.assign(members, topology, lags=history.lags)
        check_valid(assignment, members, topology)
        assert history.moved(assignment) <= bound
        history.take(assignment)
        history.change()


@given(st.randoms(use_true_random=False), st.booleans(), st.integers(1, 3), st.integers(1, 3))
def test_under_a_bound_a_group_comes_to_even_numbers_rebalance_after_rebalance(rng, same, bound, skew):
    history = History.begun(rng, same=same)
    assignor = LagAwareAssignor(max_moved=bound, max_count_skew=skew)
    for _ in range(4):
        history.take(assignor.assign(history.members, history.topology, lags=history.lags))
        history.change()
    for _ in range(1 + len(history.lags)):
        history.take(assignor.assign(history.members, history.topology, lags=history.lags))
        if max(count_gaps(history), default=0) <= skew:
            return
    raise AssertionError(f"still uneven: {count_gaps(history)}")


def test_without_a_bound_histories_like_these_move_more():
    """Otherwise the bound would hold by itself."""
    most = 0
    for seed in range(20):
        history = History.begun(Random(seed), same=True)
        for _ in range(8):
            assignment = LagAwareAssignor().assign(history.members, history.topology, lags=history.lags)
            most = max(most, history.moved(assignment))
            history.take(assignment)
            history.change()
    assert most > 6
