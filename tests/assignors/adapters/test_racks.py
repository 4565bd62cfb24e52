"""Rack changes (KIP-881, KAFKA-20778)."""

import pytest

from quorate.assignors.adapters.racks import ClusterView, RackWatch

BEFORE = ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [1, 2], 1: [2, 3]}})


def change(*views, topics=("t",), before=BEFORE):
    """Return the reported change at the last of the views."""
    watch = RackWatch()
    watch.start(before, topics)
    for view in views[:-1]:
        assert watch.change(view) is None
    return watch.change(views[-1])


@pytest.mark.parametrize(
    "now",
    [
        BEFORE,
        ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [2, 1], 1: [3, 2]}}),
        ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [1, 2], 1: [2, 3], 2: [3, 1]}}),
        ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [1, 2]}}),
        ClusterView({1: "a", 2: "b", 3: "c"}, {}),
        ClusterView({1: "a", 2: "b", 3: "c", 4: "d"}, {"t": BEFORE.topics["t"], "u": {0: [4]}}),
        ClusterView({1: "a", 2: "b", 4: "b"}, {"t": {0: [1, 4], 1: [2, 3]}}),
        ClusterView({1: "a", 2: "b"}, {"t": {0: [1, 2], 1: [2, 3]}}),
        ClusterView({}, {"t": {0: [1, 2], 1: [2, 3]}}),
    ],
    ids=[
        "same",
        "leaders",
        "new partition",
        "partition gone",
        "topic gone",
        "others",
        "same rack",
        "offline",
        "all offline",
    ],
)
def test_unchanged_or_unknown_racks_are_no_change(now):
    assert change(now) is None


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (ClusterView({1: "a", 2: "b", 3: "d"}, BEFORE.topics), "t-1 was in the racks b, c and is now in b, d"),
        (ClusterView({1: "a", 2: "b", 3: None}, BEFORE.topics), "t-1 was in the racks b, c and is now in b"),
        (ClusterView({1: "a", 2: "b", 3: ""}, BEFORE.topics), "t-1 was in the racks b, c and is now in b"),
        (
            ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [1], 1: [2, 3]}}),
            "t-0 was in the racks a, b and is now in a",
        ),
        (
            ClusterView({1: "a", 2: "b", 3: "c"}, {"t": {0: [1, 2, 3]}}),
            "t-0 was in the racks a, b and is now in a, b, c",
        ),
        # Broker 3 is offline; that 2 is no longer a replica does not matter.
        (ClusterView({1: "a", 2: "b"}, {"t": {0: [1, 3], 1: [2, 3]}}), "t-0 was in the racks a, b and is now in a"),
    ],
    ids=["another rack", "no rack", "empty rack", "fewer replicas", "more replicas", "moved to an absent broker"],
)
def test_added_or_removed_racks_are_a_change(now, words):
    assert change(now) == words


def test_a_broker_that_returns_is_a_change_only_in_another_rack():
    away = ClusterView({1: "a", 2: "b"}, BEFORE.topics)
    assert change(away, BEFORE) is None
    assert change(away, ClusterView({1: "a", 2: "b", 3: "d"}, BEFORE.topics)) is not None


def test_the_first_rack_of_a_broker_offline_at_assignment_is_no_change():
    away = ClusterView({1: "a", 2: "b"}, BEFORE.topics)
    assert change(BEFORE, before=away) is None
    assert change(BEFORE, ClusterView({1: "a", 2: "b", 3: "d"}, BEFORE.topics), before=away) is not None


def test_only_racks_of_the_groups_topics_count():
    now = ClusterView({1: "a", 2: "b", 3: "d"}, BEFORE.topics)
    assert change(now, topics=["u"]) is None


def test_there_is_no_change_before_or_after_being_the_leader():
    watch = RackWatch()
    assert watch.change(BEFORE) is None
    watch.start(BEFORE, ["t"])
    watch.stop()
    assert watch.change(ClusterView({}, {"t": {0: [7]}})) is None


def test_the_topology_has_racks_of_all_replicas_and_of_offline_brokers():
    watch = RackWatch()
    watch.learn(BEFORE)
    view = ClusterView({1: "a", 2: None}, {"u": {4: [2, 3], 0: [1, 9]}, "empty": {}})
    [topic] = watch.topology(view, ["u", "empty", "nowhere"]).topics
    assert (topic.name, topic.numbers) == ("u", [0, 4])
    assert topic.racks == [("a", None), (None, "c")]
