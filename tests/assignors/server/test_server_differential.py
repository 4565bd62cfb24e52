"""Our server-side assignors equal Kafka's own classes over thousands of generated groups.

Compared are assignments and records, in order. CI repeats the same seeds; elsewhere each run uses
new ones. A difference is printed with its seed and a minimised case, as a line for `python -m
tests.differential`. `make bench-diff` runs 100,000 and more.
"""

import json
import os
from collections import Counter
from random import Random

import pytest

from tests.assignors.differential import Outcome
from tests.assignors.server_cases import MID, Case, next_server_round, server_case, smaller_server_cases
from tests.assignors.server_differential import ASSIGNORS, differ, histories, kafka, ours, run
from tests.assignors.smaller_cases import minimise
from tests.conftest import CI
from tests.differential.driver import responses
from tests.extent import portion
from tests.oracle.client import Oracle

START = 0 if CI else int.from_bytes(os.urandom(4), "big")

# Cases, and histories (of five rounds each).
COUNTS = {"uniform": (3500, 250), "range": (2500, 150), "simple": (1500, 120)}


def settle(outcome: Outcome, oracle: Oracle) -> None:
    assert not outcome.differences, (
        f"{len(outcome.differences)} of {outcome.cases} differ; the first:\n{outcome.differences[0].report(oracle)}"
    )
    # Kafka throws in few cases, otherwise the test would compare too little: `simple`, if members
    # own partitions that cannot be assigned.
    assert outcome.kafka_failures.total() <= 0.05 * outcome.cases, outcome.kafka_failures


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_generated_groups_get_kafkas_assignment_and_records(oracle: Oracle, assignor: str) -> None:
    count, _ = COUNTS[assignor]
    settle(run(oracle, assignor, range(START, START + portion(count))), oracle)


@pytest.mark.oracle
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_histories_of_groups_get_kafkas_assignments_and_records(oracle: Oracle, assignor: str) -> None:
    _, count = COUNTS[assignor]
    settle(histories(oracle, assignor, range(START, START + portion(count))), oracle)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_driver_responds_like_the_oracle(oracle: Oracle, assignor: str, seed: int) -> None:
    case = server_case(Random(seed), assignor)
    (mine,) = responses([json.dumps(case)])
    assert {key: value for key, value in mine.items() if key not in ("id", "op")} == kafka(oracle, case)


# ---- tests of cases and of the comparison


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_generated_cases_cover_what_they_should(assignor: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        case = server_case(Random(seed), assignor)
        result = ours(case)
        members = case["members"].values()
        targets = [key for member in members for key in member.get("target", {})]
        holders = Counter(
            (topic, partition)
            for member in members
            for topic, partitions in member.get("target", {}).items()
            for partition in partitions
        )
        seen[result.get("subscriptionType", "refused")] += 1
        seen["static members"] += any("instanceId" in member for member in members)
        seen["unknown topics"] += any("missing" in member["topics"] for member in members)
        seen["previous targets"] += bool(targets)
        seen["topics that are gone"] += not set(targets) <= {topic["id"] for topic in case["topics"]}
        seen["shared partitions"] += max(holders.values(), default=0) > 1
        seen["the coordinator's order"] += case.get("order") == "timeline"
        seen["records left out"] += len(result.get("records", members)) <= len(members)
    expected = {"HOMOGENEOUS", "HETEROGENEOUS", "static members", "unknown topics", "previous targets"}
    expected |= {"topics that are gone", "the coordinator's order", "records left out", "shared partitions"}
    assert {what for what, count in seen.items() if count >= 5} - {"refused"} == expected


def test_records_in_another_order_are_a_difference() -> None:
    case = next(
        case for case in (server_case(Random(seed), "uniform") for seed in range(99)) if len(case["members"]) > 2
    )
    mine = ours(case)
    turned = dict(mine) | {"records": mine["records"][::-1]}
    assert not differ(mine, mine)
    assert differ(mine, turned)


def test_partitions_in_another_order_are_a_difference() -> None:
    case = {
        "op": "serverAssign",
        "assignor": "range",
        "topics": [{"name": "t", "id": "s3EzeZ2eYDCUdBwL6zrHEw", "partitions": 2}],
        "members": {"m": {"topics": ["t"]}},
    }
    mine = ours(case)
    turned = {"assignment": {"m": {"s3EzeZ2eYDCUdBwL6zrHEw": [1, 0]}}}
    assert differ(dict(mine) | turned, mine)


def test_the_order_of_unchanged_targets_is_no_difference() -> None:
    case = {
        "op": "serverAssign",
        "assignor": "uniform",
        "topics": [{"name": "t", "id": "s3EzeZ2eYDCUdBwL6zrHEw", "partitions": 2}],
        "members": {"m": {"topics": ["t"], "target": {"s3EzeZ2eYDCUdBwL6zrHEw": [0, 1]}}},
    }
    mine = ours(case)
    for partitions, expected in (([1, 0], False), ([0], True)):
        assert differ(dict(mine) | {"assignment": {"m": {"s3EzeZ2eYDCUdBwL6zrHEw": partitions}}}, mine) == expected


def test_where_kafka_throws_ours_must_raise_an_assignor_error() -> None:
    thrown = {"error": {"class": "NoSuchElementException"}}
    assert not differ({"error": {"class": "AssignorError"}}, thrown)
    assert differ({"error": {"class": "KeyError"}}, thrown)
    assert differ({"assignment": {}}, thrown)
    assert differ(thrown, {"assignment": {}, "records": []})


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_seed_is_one_case(assignor: str) -> None:
    one, other = (server_case(Random(7), assignor) for _ in range(2))
    assert one == other == json.loads(json.dumps(one))
    assert next_server_round(Random(8), one, {}) == next_server_round(Random(8), one, {})
    assert one == other


def test_a_failing_case_is_minimised() -> None:
    case = server_case(Random(3), "simple", size=MID) | {"assignable": {}, "order": "timeline"}

    def fails(one: Case) -> bool:
        return sum(bool(member.get("target")) for member in one["members"].values()) >= 2 and len(one["topics"]) >= 1

    assert fails(case)
    small = minimise(case, fails, smaller=smaller_server_cases, attempts=5000)
    assert set(small) == {"op", "topics", "members"}
    assert [topic["partitions"] for topic in small["topics"]] == [1]
    assert [
        (member["topics"], [len(partitions) for partitions in member["target"].values()])
        for member in small["members"].values()
    ] == [([], [1])] * 2


# ---- found by sweeps


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("assignor", "lost"), [("uniform", 1), ("uniform", 5), ("simple", 2), ("simple", 4), ("simple", 6)]
)
def test_a_member_loses_partitions_of_a_tree_bucket(oracle: Oracle, assignor: str, lost: int) -> None:
    # Nine partitions in the last of 64 buckets, and others: the order of those left of the nine
    # depends on the tree.
    crowded = [63 + 64 * number for number in (9, 0, 8, 1, 7, 2, 6, 3, 4)]
    others = [number for number in range(640) if number not in crowded]
    mine = [*crowded, *others[:20]]
    rest = others[20:]
    share = len(mine) - lost
    members: dict[str, Case] = {"m0": {"topics": ["t"], "target": {"s3EzeZ2eYDCUdBwL6zrHEw": mine}}}
    for number in range(640 // share):
        part = rest[number * share : (number + 1) * share]
        members[f"m{number + 1}"] = {"topics": ["t"], "target": {"s3EzeZ2eYDCUdBwL6zrHEw": part}}
    request = {"op": "shareAssign"} if assignor == "simple" else {"op": "serverAssign", "assignor": assignor}
    topics = [{"name": "t", "id": "s3EzeZ2eYDCUdBwL6zrHEw", "partitions": 640}]
    case = request | {"topics": topics, "members": members}
    theirs = kafka(oracle, case)
    after = theirs["assignment"]["m0"]["s3EzeZ2eYDCUdBwL6zrHEw"]
    assert 0 < len(set(crowded) - set(after)) < 9  # otherwise the test shows nothing
    assert ours(case) == theirs
