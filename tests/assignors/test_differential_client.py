"""The client-side assignors against Kafka's own classes: equal lists in the same order, over thousands of generated groups.

CI repeats the same seeds; elsewhere each run takes new ones. A difference is printed with its seed
and a case made small, as a line for `python -m tests.differential`. `make bench-diff` does 100,000
and more.
"""

import json
import os
from collections.abc import Callable
from random import Random

import pytest

from tests.assignors.cases import client_case, next_round
from tests.assignors.client_differential import Outcome, histories, invalid, is_odd, kafka, ours, run, verdict
from tests.assignors.smaller_cases import minimise
from tests.conftest import CI
from tests.extent import portion
from tests.oracle.client import Oracle

START = 0 if CI else int.from_bytes(os.urandom(4), "big")

# Cases, histories (of five rounds each), and below what share of the cases Kafka has no answer.
ASSIGNORS = {
    "range": (4000, 100, 0.01),
    "roundrobin": (3000, 100, 0.05),
    "sticky": (3000, 200, 0.05),
    "cooperative-sticky": (3000, 200, 0.05),
}
ODD = 0.2
"""The same share of odd cases, which have on purpose what Kafka's assignors fail on (of
cooperative-sticky 14 %).
"""


def settle(compare: Callable[[Oracle, str, list[int]], Outcome], oracle: Oracle, assignor: str, count: int) -> None:
    for odd, unanswered in ((False, ASSIGNORS[assignor][2]), (True, ODD)):
        outcome = compare(oracle, assignor, [seed for seed in range(START, START + count) if is_odd(seed) == odd])
        assert not outcome.differences, (
            f"{len(outcome.differences)} of {outcome.cases} differ; the first:\n{outcome.differences[0].report(oracle)}"
        )
        # Otherwise the comparison would have compared nothing.
        assert outcome.unanswered.total() <= unanswered * outcome.cases + 5, outcome.unanswered


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_generated_groups_get_kafkas_lists_in_kafkas_order(oracle: Oracle, assignor: str) -> None:
    settle(run, oracle, assignor, portion(ASSIGNORS[assignor][0]))


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_groups_that_members_join_and_leave_get_kafkas_lists_in_kafkas_order(oracle: Oracle, assignor: str) -> None:
    settle(histories, oracle, assignor, portion(ASSIGNORS[assignor][1]))


# ---- the comparison sees what it is there for


@pytest.mark.oracle
def test_another_order_of_the_same_partitions_is_a_difference(oracle: Oracle) -> None:
    case = client_case(Random(5), "range")
    theirs = kafka(oracle, case)
    member = max(theirs["assignment"], key=lambda one: len(theirs["assignment"][one]))
    turned = {"assignment": theirs["assignment"] | {member: theirs["assignment"][member][::-1]}}
    assert len(theirs["assignment"][member]) > 1
    assert verdict(case, ours(case), theirs) is None
    assert verdict(case, turned, theirs) == "the answers differ"


def test_where_kafka_fails_our_answer_has_to_be_valid() -> None:
    case = {
        "assignor": "sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(2)],
        "consumers": {"a": {"topics": ["t"]}, "b": {"topics": []}},
    }
    failed = {"error": {"class": "NullPointerException"}}
    answers = {
        "valid": {"a": ["t-1", "t-0"], "b": []},
        "lost": {"a": ["t-1"], "b": []},
        "twice": {"a": ["t-0", "t-1", "t-0"], "b": []},
        "not subscribed": {"a": ["t-0"], "b": ["t-1"]},
        "not there": {"a": ["t-0", "t-1", "t-2"], "b": []},
        "forgotten": {"a": ["t-0", "t-1"]},
    }
    wrong = {name: verdict(case, {"assignment": one}, failed) for name, one in answers.items()}
    assert wrong == {
        "valid": None,
        "lost": "without an owner: t-0",
        "twice": "t-0 has two owners",
        "not subscribed": "b has t-1 without subscribing",
        "not there": "partitions that do not exist are handed out",
        "forgotten": "members are missing, or are too many",
    }
    assert invalid(case | {"assignor": "cooperative-sticky"}, answers["lost"]) is None


def test_a_failing_case_is_made_small() -> None:
    case = client_case(Random(8), "sticky", owned="claims")
    small = minimise(case, lambda one: len(one["consumers"]) >= 2 and len(one["partitions"]) >= 1)
    assert (len(small["consumers"]), len(small["partitions"])) == (2, 1)
    assert all(set(consumer) == {"topics"} for consumer in small["consumers"].values())


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_a_seed_is_one_case(assignor: str) -> None:
    one, other = (client_case(Random(3), assignor, owned="claims") for _ in range(2))
    assert one == other == json.loads(json.dumps(one))
    given = {member: [] for member in one["consumers"]}
    assert next_round(Random(4), one, given, 2) == next_round(Random(4), one, given, 2)
    assert one == other
