"""`quorate assign`: what the what-if options and the options of assignors change, and which assignors stand beside each other."""

import pytest

from tests.cli.assign.scene import described as described
from tests.cli.assign.scene import outcomes as outcomes


def test_a_member_that_leaves_gives_up_what_it_has(outcomes, described):
    told = outcomes(described(), "--assignor", "sticky", "--without", "m1")
    assert list(told["current"]["members"]) == ["m1", "m2"]
    assert told["sticky"]["members"]["m2"]["moved_in"] == 2
    assert sorted(told["sticky"]["assignment"]["m2"]["t"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("meant", ["consumer-1-0f0f", "one", "consumer-1", "consumer-1*", "on[ef]"])
def test_members_are_meant_by_id_instance_beginning_or_pattern(outcomes, described, meant):
    members = {"consumer-1-0f0f": {"instance_id": "one"}, "consumer-2-abab": {"instance_id": "two"}}
    told = outcomes(described(members=members), "--assignor", "range", "--without", meant)
    assert list(told["range"]["members"]) == ["consumer-2-abab"]


def test_a_member_that_joins_subscribes_to_what_the_others_do(outcomes, described):
    told = outcomes(described(), "--assignor", "range", "--add", "spare:b", "--add", "other")
    assert {name: one["rack"] for name, one in told["range"]["members"].items()} == {
        "m1": "a",
        "m2": "b",
        "spare": "b",
        "other": None,
    }
    assert all(one["partitions"] == 1 for one in told["range"]["members"].values())
    topics = {"t": 2, "u": 3}
    told = outcomes(
        described(topics=topics, members={"m1": {"topics": ["t"]}}), "--add", "m2::u,t", "--assignor", "range"
    )
    assert told["range"]["assignment"] == {"m1": {"t": [0]}, "m2": {"t": [1], "u": [0, 1, 2]}}


def test_a_member_may_move_to_another_rack(outcomes, described, quorate):
    told = outcomes(described(), "--assignor", "range", "--rack", "m1=b", "--rack", "m2=")
    assert [one["rack"] for one in told["range"]["members"].values()] == ["b", None]
    assert [one["rack"] for one in told["current"]["members"].values()] == ["a", "b"]
    shown = quorate("assign", described(), "--assignor", "range", "--rack", "m1=b")
    assert any(line.startswith("m1") and "a → b" in line for line in shown.lines)


def test_more_partitions_go_on_with_the_racks(outcomes, described):
    topics = {"t": {"racks": [["a"], ["b"], ["c"]], "lag": 4}}
    members = {"m1": {"rack": "a", "owned": {"t": [0, 1, 2]}}}
    told = outcomes(described(topics=topics, members=members), "--add-partitions", "t=2", "--assignor", "range")
    assert told["range"]["assignment"] == {"m1": {"t": [0, 1, 2, 3, 4]}}
    assert (told["range"]["local"], told["range"]["first_assigned"], told["range"]["moved"]) == (2, 2, 0)
    assert (told["range"]["lag"], told["current"]["partitions"]) == (12, 3)


def test_cooperative_sticky_is_shown_after_its_second_rebalance(outcomes, described, quorate):
    told = outcomes(described(), "--assignor", "cooperative-sticky", "--add", "m3:a")
    assert told["cooperative-sticky"]["unassigned"] == 0
    assert told["cooperative-sticky"]["rebalances"] == 2
    shown = quorate("assign", described(), "--assignor", "cooperative-sticky", "--add", "m3:a")
    assert "cooperative-sticky: after 2 rebalances; in between, what is to move belongs to nobody" in shown.lines


def test_lags_of_the_group_reach_lag_aware(outcomes, described):
    topics = {"t": {"partitions": 4, "lag": [1, 9, 5, 5]}}
    told = outcomes(described(topics=topics, members={"m1": {}, "m2": {}}), "--assignor", "lag-aware")
    assert [one["lag"] for one in told["lag-aware"]["members"].values()] == [10, 10]


def test_options_reach_the_assignor(outcomes, described, quorate):
    label = "lag-aware:max_moved=0"
    assert outcomes(described(), "--assignor", label, "--assignor", "lag-aware")[label]["moved"] == 0
    ended = quorate("assign", described(), "--assignor", "lag-aware:max_moved=-2")
    assert ended.err.startswith("error: lag-aware:max_moved=-2: max_moved is -2")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("lag-aware:max_moved=x", "max_moved cannot be 'x'\n       it takes a whole number or none"),
        ("lag-aware:max_moved", "max_moved needs a value"),
        ("lag-aware:max-count-skew=1.5", "max_count_skew cannot be '1.5'"),
        ("lag-aware:shuffle=1", "shuffle cannot be '1'\n       it takes true, false"),
        ("lag-aware:locality=rack", "locality cannot be 'rack'\n       it takes replica, leader or none"),
        ("lag-aware:max_moved=1,max-moved=2", "max_moved is there twice"),
        ("lag-aware:lags=5", "lag-aware has no option lags"),
        ("sticky:version=new", "version cannot be 'new'\n       it takes a version such as 4.3.1"),
        ("uniform:subscription_type=odd", "it takes homogeneous, heterogeneous or none"),
        ("uniform:jdk=none", "jdk cannot be 'none'"),
    ],
)
def test_values_that_an_option_cannot_have_are_told_with_those_that_it_can(quorate, described, asked, told):
    ended = quorate("assign", described(), "--assignor", asked)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: --assignor {asked}: ")
    assert told in ended.err


@pytest.mark.parametrize(
    "asked",
    [
        "lag-aware:max_moved=none,shuffle,local_tolerance=1,locality=leader",
        "lag-aware:spread-idle=FALSE",
        "sticky:version=4.3.1",
        "uniform:subscription_type=heterogeneous",
        "rack-aware-uniform:prefer=stickiness,max_moved=1",
    ],
)
def test_options_of_every_type_are_read(outcomes, described, asked):
    assert outcomes(described(), "--assignor", asked)[asked]["partitions"] == 4


def test_lag_aware_without_lags_says_what_it_went_by(quorate, described):
    ended = quorate("assign", described(topics={"t": 4}), "--assignor", "lag-aware", "--assignor", "range")
    assert ended.lines[-1] == "lag-aware: no lags are known, so it went by the numbers of partitions alone"
    assert "no lags are known" not in quorate("assign", described(), "--assignor", "lag-aware").out


def test_lags_are_added_up_beyond_64_bits(outcomes, described):
    topics = {"t": {"partitions": 4, "lag": 2**63 - 1}}
    told = outcomes(described(topics=topics, members={"m1": {}, "m2": {}}), "--assignor", "range")["range"]
    assert (told["lag"], told["lag_balance"]["max"]) == (4 * (2**63 - 1), 2 * (2**63 - 1))
