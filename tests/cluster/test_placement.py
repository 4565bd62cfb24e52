"""Replica placement: over racks, and evenly (KIP-36)."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.cluster.placement import place

brokers = st.dictionaries(st.integers(0, 12), st.sampled_from([None, "a", "b", "c"]), min_size=1)


@given(brokers=brokers, partitions=st.integers(1, 30), data=st.data())
def test_replicas_are_on_different_brokers_and_in_as_many_racks_as_possible(
    brokers: dict[int, str | None], partitions: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, partitions, replicas, Random(data.draw(st.integers(0, 9))))
    racks = len(set(brokers.values()))
    assert len(placed) == partitions
    for one in placed:
        assert len(set(one)) == replicas
        assert set(one) <= brokers.keys()
        assert len({brokers[broker] for broker in one}) == min(replicas, racks)


def test_leaders_alternate_between_racks_and_within_them() -> None:
    in_racks = place({1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}, 60, 3, Random(1))
    assert set(Counter(one[0] for one in in_racks).values()) == {10}
    without = place(dict.fromkeys(range(4)), 40, 3, Random(1))
    assert set(Counter(one[0] for one in without).values()) == {10}
