"""Each cause for which our client-side assignors deviate from Kafka's (declared.py) is real."""

import json
from pathlib import Path

import pytest

from tests.assignors.client_differential import invalid, kafka, ours, verdict
from tests.assignors.declared import DECLARED, causes
from tests.oracle.client import Oracle

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "client-assignors.md"
FOLDER = ROOT / "tests" / "data" / "differences"
T2 = [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]

# Causes → a case that has just this one.
CASES = {
    "metadata lacks partitions of a topic": {
        "op": "clientAssign",
        "assignor": "roundrobin",
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 2}],
        "consumers": {"a": {"topics": ["t"]}},
    },
    "a member owns partitions that the topic no longer has": {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": T2,
        "consumers": {"a": {"topics": ["t"], "ownedPartitions": ["t-7"], "generationId": 1}, "b": {"topics": ["t"]}},
    },
    "a member subscribes to nothing": json.loads((FOLDER / "declared-sticky-empty-subscription.jsonl").read_text()),
    "a member of an older generation is no longer subscribed": json.loads(
        (FOLDER / "declared-sticky-owned-outside-subscription-1.jsonl").read_text("utf-8")
    ),
    "a subscription names a topic twice": {
        "op": "clientAssign",
        "assignor": "sticky",
        "partitions": [*T2, {"topic": "u", "partition": 0}],
        "consumers": {"m-BBBB": {"topics": ["t"]}, "m-BBAa": {"topics": ["t", "u", "u"]}},
    },
}


def test_the_list_of_causes_equals_the_table_in_the_docs() -> None:
    rows = PAGE.read_text("utf-8").partition("## Differences from Kafka")[2].partition("\n## ")[0]
    listed = [line.split("|")[1].strip() for line in rows.splitlines() if line.startswith("| ")][1:]
    assert listed == list(DECLARED) == list(CASES)


@pytest.mark.oracle
@pytest.mark.parametrize("cause", CASES)
def test_kafka_still_deviates_for_each_cause(oracle: Oracle, cause: str) -> None:
    case = CASES[cause]
    theirs, mine = kafka(oracle, case), ours(case)
    assert causes(case) == [cause]
    assert mine != theirs, "no longer: take it out of the list and of the page"
    assert invalid(case, mine["assignment"]) is None
    assert verdict(case, mine, theirs) is None
    repeats = "a subscription names a topic twice"
    if cause != repeats:  # Kafka's result is valid in that case
        assert "error" in theirs or invalid(case, theirs["assignment"]) is not None


@pytest.mark.oracle
@pytest.mark.parametrize("number", [1, 2, 3])
def test_owned_partitions_outside_the_subscription_are_not_returned(oracle: Oracle, number: int) -> None:
    """Regression test for issue 14."""
    case = json.loads((FOLDER / f"declared-sticky-owned-outside-subscription-{number}.jsonl").read_text("utf-8"))
    theirs = kafka(oracle, case)
    assert "without subscribing" in str(invalid(case, theirs["assignment"]))
    assert causes(case) == ["a member of an older generation is no longer subscribed"]
    assert invalid(case, ours(case)["assignment"]) is None


def test_an_invalid_result_of_kafka_without_a_declared_cause_is_a_difference() -> None:
    case = CASES["a member of an older generation is no longer subscribed"]
    plain = {
        **case,
        "consumers": {
            name: {key: value for key, value in one.items() if key not in ("userData", "ownedPartitions")}
            for name, one in case["consumers"].items()
        },
    }
    assert causes(plain) == []
    failed = {"error": {"class": "NullPointerException"}}
    assert verdict(plain, ours(plain), failed) == "without a declared cause: Kafka throws NullPointerException"


@pytest.mark.oracle
def test_a_contested_partition_listed_twice_by_a_claimant_has_no_owner(oracle: Oracle) -> None:
    """Regression test for issue 14, found by odd_cases.py with seed 2699153567."""
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(4)],
        "consumers": {
            "m-AaBB": {"topics": ["t"], "ownedPartitions": ["t-3"], "generationId": 0},
            "m-AaAa": {"topics": ["t", "u"], "ownedPartitions": ["t-3", "t-3"], "userData": "00000000"},
        },
    }
    assert ours(case) == kafka(oracle, case)


@pytest.mark.oracle
def test_members_with_the_same_instance_id_keep_hash_map_order(oracle: Oracle) -> None:
    """Regression test for issue 14."""
    for assignor in ("range", "roundrobin"):
        case = {
            "op": "clientAssign",
            "assignor": assignor,
            "partitions": [{"topic": "t", "partition": 0}],
            "consumers": {name: {"topics": ["t"], "groupInstanceId": "i"} for name in ("m-164", "m-117")},
        }
        assert ours(case) == kafka(oracle, case)
