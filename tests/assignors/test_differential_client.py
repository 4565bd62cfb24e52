"""Our client-side assignors equal Kafka's own classes over thousands of generated groups.

CI repeats the same seeds; elsewhere each run uses new ones. A difference is printed with its seed
and a minimised case, as a line for `python -m tests.differential`. `make bench-diff` runs 100,000
and more.
"""

import json
import os
from collections.abc import Callable
from random import Random

import pytest

from tests.assignors.cases import client_case, next_round
from tests.assignors.client_differential import histories, invalid, is_odd, kafka, ours, run, verdict
from tests.assignors.differential import Outcome
from tests.assignors.smaller_cases import minimise
from tests.conftest import CI
from tests.extent import portion
from tests.oracle.client import Oracle

START = 0 if CI else int.from_bytes(os.urandom(4), "big")

# Cases, histories (of five rounds each), and the maximum share of cases without a result of Kafka.
ASSIGNORS = {
    "range": (4000, 100, 0.01),
    "roundrobin": (3000, 100, 0.05),
    "sticky": (3000, 200, 0.05),
    "cooperative-sticky": (3000, 200, 0.05),
}
ODD = 0.2
"""The same share for odd cases, on which Kafka's assignors fail more often (14 % with
cooperative-sticky).
"""


def settle(compare: Callable[[Oracle, str, list[int]], Outcome], oracle: Oracle, assignor: str, count: int) -> None:
    for odd, unanswered in ((False, ASSIGNORS[assignor][2]), (True, ODD)):
        outcome = compare(oracle, assignor, [seed for seed in range(START, START + count) if is_odd(seed) == odd])
        assert not outcome.differences, (
            f"{len(outcome.differences)} of {outcome.cases} differ; the first:\n{outcome.differences[0].report(oracle)}"
        )
        # Otherwise the test would compare too little.
        assert outcome.kafka_failures.total() <= unanswered * outcome.cases + 5, outcome.kafka_failures


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_generated_groups_get_kafkas_assignment_in_kafkas_order(oracle: Oracle, assignor: str) -> None:
    settle(run, oracle, assignor, portion(ASSIGNORS[assignor][0]))


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_histories_of_groups_get_kafkas_assignments_in_kafkas_order(oracle: Oracle, assignor: str) -> None:
    settle(histories, oracle, assignor, portion(ASSIGNORS[assignor][1]))


# ---- tests of the comparison


@pytest.mark.oracle
def test_another_order_of_the_same_partitions_is_a_difference(oracle: Oracle) -> None:
    case = client_case(Random(5), "range")
    theirs = kafka(oracle, case)
    member = max(theirs["assignment"], key=lambda one: len(theirs["assignment"][one]))
    turned = {"assignment": theirs["assignment"] | {member: theirs["assignment"][member][::-1]}}
    assert len(theirs["assignment"][member]) > 1
    assert verdict(case, ours(case), theirs) is None
    assert verdict(case, turned, theirs) == "the results differ"


def test_where_kafka_fails_our_assignment_must_be_valid() -> None:
    case = {
        "assignor": "sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(2)],
        "consumers": {"a": {"topics": ["t"]}, "b": {"topics": []}},
    }
    failed = {"error": {"class": "NullPointerException"}}
    results = {
        "valid": {"a": ["t-1", "t-0"], "b": []},
        "lost": {"a": ["t-1"], "b": []},
        "twice": {"a": ["t-0", "t-1", "t-0"], "b": []},
        "not subscribed": {"a": ["t-0"], "b": ["t-1"]},
        "not there": {"a": ["t-0", "t-1", "t-2"], "b": []},
        "forgotten": {"a": ["t-0", "t-1"]},
    }
    wrong = {name: verdict(case, {"assignment": one}, failed) for name, one in results.items()}
    assert wrong == {
        "valid": None,
        "lost": "without an owner: t-0",
        "twice": "t-0 has two owners",
        "not subscribed": "b has t-1 without subscribing",
        "not there": "partitions that do not exist are handed out",
        "forgotten": "members are missing, or are too many",
    }
    assert invalid(case | {"assignor": "cooperative-sticky"}, results["lost"]) is None


def test_a_failing_case_is_minimised() -> None:
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
