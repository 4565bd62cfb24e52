"""`lag-aware` over histories of a group: `max_moved` holds, and balance is still reached."""

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
    """Return for each topic the difference of its subscribers' partition counts."""
    counts = {
        topic: {name: 0 for name, one in history.consumers.items() if topic in one.topics} for topic in history.topics
    }
    for at, name in history.holder.items():
        counts[at.topic][name] += 1
    return [max(count.values()) - min(count.values()) for count in counts.values() if count]


@given(st.randoms(use_true_random=False), st.booleans(), OPTIONS, st.integers(0, 6))
def test_no_rebalance_exceeds_max_moved(rng, same, options, bound):
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
def test_with_max_moved_a_group_becomes_balanced_over_several_rebalances(rng, same, bound, skew):
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


def test_without_max_moved_such_histories_move_more():
    """Otherwise `max_moved` would have no effect in these tests."""
    most = 0
    for seed in range(20):
        history = History.begun(Random(seed), same=True)
        for _ in range(8):
            assignment = LagAwareAssignor().assign(history.members, history.topology, lags=history.lags)
            most = max(most, history.moved(assignment))
            history.take(assignment)
            history.change()
    assert most > 6
