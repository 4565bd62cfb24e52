"""`quorate assign`: the what-if options, and options of assignors."""

import pytest

from tests.cli.assign.fixtures import described as described
from tests.cli.assign.fixtures import outcomes as outcomes


def test_partitions_of_a_leaving_member_are_reassigned(outcomes, described):
    result = outcomes(described(), "--assignor", "sticky", "--without", "m1")
    assert list(result["current"]["members"]) == ["m1", "m2"]
    assert result["sticky"]["members"]["m2"]["moved_in"] == 2
    assert sorted(result["sticky"]["assignment"]["m2"]["t"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("meant", ["consumer-1-0f0f", "one", "consumer-1", "consumer-1*", "on[ef]"])
def test_members_match_by_id_instance_id_prefix_or_glob(outcomes, described, meant):
    members = {"consumer-1-0f0f": {"instance_id": "one"}, "consumer-2-abab": {"instance_id": "two"}}
    result = outcomes(described(members=members), "--assignor", "range", "--without", meant)
    assert list(result["range"]["members"]) == ["consumer-2-abab"]


def test_a_new_member_subscribes_to_the_topics_of_the_others(outcomes, described):
    result = outcomes(described(), "--assignor", "range", "--add", "spare:b", "--add", "other")
    assert {name: one["rack"] for name, one in result["range"]["members"].items()} == {
        "m1": "a",
        "m2": "b",
        "spare": "b",
        "other": None,
    }
    assert all(member["partitions"] == 1 for member in result["range"]["members"].values())
    topics = {"t": 2, "u": 3}
    result = outcomes(
        described(topics=topics, members={"m1": {"topics": ["t"]}}), "--add", "m2::u,t", "--assignor", "range"
    )
    assert result["range"]["assignment"] == {"m1": {"t": [0]}, "m2": {"t": [1], "u": [0, 1, 2]}}


def test_rack_moves_a_member_to_another_rack(outcomes, described, quorate):
    result = outcomes(described(), "--assignor", "range", "--rack", "m1=b", "--rack", "m2=")
    assert [member["rack"] for member in result["range"]["members"].values()] == ["b", None]
    assert [member["rack"] for member in result["current"]["members"].values()] == ["a", "b"]
    shown = quorate("assign", described(), "--assignor", "range", "--rack", "m1=b")
    assert any(line.startswith("m1") and "a → b" in line for line in shown.lines)


def test_added_partitions_continue_the_pattern_of_racks(outcomes, described):
    topics = {"t": {"racks": [["a"], ["b"], ["c"]], "lag": 4}}
    members = {"m1": {"rack": "a", "owned": {"t": [0, 1, 2]}}}
    result = outcomes(described(topics=topics, members=members), "--add-partitions", "t=2", "--assignor", "range")
    assert result["range"]["assignment"] == {"m1": {"t": [0, 1, 2, 3, 4]}}
    assert (result["range"]["local"], result["range"]["first_assigned"], result["range"]["moved"]) == (2, 2, 0)
    assert (result["range"]["lag"], result["current"]["partitions"]) == (12, 3)


def test_cooperative_sticky_is_shown_after_its_second_rebalance(outcomes, described, quorate):
    result = outcomes(described(), "--assignor", "cooperative-sticky", "--add", "m3:a")
    assert result["cooperative-sticky"]["unassigned"] == 0
    assert result["cooperative-sticky"]["rebalances"] == 2
    shown = quorate("assign", described(), "--assignor", "cooperative-sticky", "--add", "m3:a")
    assert "cooperative-sticky: after 2 rebalances; partitions that move have no owner in between" in shown.lines


def test_lag_aware_gets_the_lags_of_the_group(outcomes, described):
    topics = {"t": {"partitions": 4, "lag": [1, 9, 5, 5]}}
    result = outcomes(described(topics=topics, members={"m1": {}, "m2": {}}), "--assignor", "lag-aware")
    assert [member["lag"] for member in result["lag-aware"]["members"].values()] == [10, 10]


def test_options_reach_the_assignor(outcomes, described, quorate):
    label = "lag-aware:max_moved=0"
    assert outcomes(described(), "--assignor", label, "--assignor", "lag-aware")[label]["moved"] == 0
    ended = quorate("assign", described(), "--assignor", "lag-aware:max_moved=-2")
    assert ended.err.startswith("error: lag-aware:max_moved=-2: max_moved is -2")


@pytest.mark.parametrize(
    ("assignor", "complaint"),
    [
        ("lag-aware:max_moved=x", "max_moved cannot be 'x'\n       use a whole number or none"),
        ("lag-aware:max_moved", "max_moved needs a value"),
        ("lag-aware:max-count-skew=1.5", "max_count_skew cannot be '1.5'"),
        ("lag-aware:shuffle=1", "shuffle cannot be '1'\n       use true, false"),
        ("lag-aware:locality=rack", "locality cannot be 'rack'\n       use replica, leader or none"),
        ("lag-aware:max_moved=1,max-moved=2", "max_moved is given twice"),
        ("lag-aware:lags=5", "lag-aware has no option lags"),
        ("sticky:version=new", "version cannot be 'new'\n       use a version such as 4.3.1"),
        ("uniform:subscription_type=odd", "use homogeneous, heterogeneous or none"),
        ("uniform:jdk=none", "jdk cannot be 'none'"),
    ],
)
def test_a_wrong_value_of_an_assignor_option_is_reported_with_the_valid_ones(quorate, described, assignor, complaint):
    ended = quorate("assign", described(), "--assignor", assignor)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"error: --assignor {assignor}: ")
    assert complaint in ended.err


@pytest.mark.parametrize(
    "assignor",
    [
        "lag-aware:max_moved=none,shuffle,local_tolerance=1,locality=leader",
        "lag-aware:spread-idle=FALSE",
        "sticky:version=4.3.1",
        "uniform:subscription_type=heterogeneous",
        "rack-aware-uniform:prefer=stickiness,max_moved=1",
    ],
)
def test_options_of_every_type_are_parsed(outcomes, described, assignor):
    assert outcomes(described(), "--assignor", assignor)[assignor]["partitions"] == 4


def test_lag_aware_without_lags_reports_that_lags_are_unknown(quorate, described):
    ended = quorate("assign", described(topics={"t": 4}), "--assignor", "lag-aware", "--assignor", "range")
    assert ended.lines[-1] == "lag-aware: no lags are known, so only numbers of partitions were balanced"
    assert "no lags are known" not in quorate("assign", described(), "--assignor", "lag-aware").out


def test_sums_of_lags_may_exceed_64_bits(outcomes, described):
    topics = {"t": {"partitions": 4, "lag": 2**63 - 1}}
    result = outcomes(described(topics=topics, members={"m1": {}, "m2": {}}), "--assignor", "range")["range"]
    assert (result["lag"], result["lag_balance"]["max"]) == (4 * (2**63 - 1), 2 * (2**63 - 1))
