"""The complete list of known differences from Kafka's coordinator.

Each is tested to still exist: a fix removes it here and from docs/explanation.

Client-side assignors have their own list, tests/assignors/declared.py, with the scripts in
tests/data/differences whose names begin with "declared". The other scripts there differed once,
and no longer do (issue 14).
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.coordinator.any_requests import AnyRequests
from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.kafka_failures import BEYOND_ITS_TOPIC
from tests.coordinator.scripts import Differs, KnownFailure
from tests.oracle.client import Oracle

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "explanation"
SCRIPTS = {path.stem: path for path in (ROOT / "tests" / "data" / "differences").glob("*.jsonl")}
MENDED = sorted(name for name in SCRIPTS if not name.startswith("declared-"))

JOIN = {
    "sessionTimeoutMs": 6000,
    "memberId": "",
    "protocolType": "consumer",
    "protocols": [{"name": "range", "metadata": "AAA="}],
    "rebalanceTimeoutMs": 5000,
    "groupInstanceId": "i1",
}
OFFSET = {"partitionIndex": 0, "committedOffset": 7, "committedMetadata": ""}
COMMIT = {
    "memberId": "i1-$1",
    "groupInstanceId": "i1",
    "generationIdOrMemberEpoch": 0,
    "topics": [{"name": name, "partitions": [OFFSET]} for name in ("t0", "t2")],
}
FEWER, MORE = [[0]], [[0], [0], [0]]
CONSUMER = {"groupId": "g", "rebalanceTimeoutMs": 5000, "subscribedTopicNames": ["t"], "topicPartitions": []}

# Name, page, quotation from the page, script.
KNOWN = {
    "offsets expire in another order after a write of their expiry failed": (
        # bench/coordinator_differential.py, classic, seed 20262870. Kafka replays before it writes.
        # What it reverts has another position in its maps.
        "classic-groups.md",
        "the order of the tombstones can differ in the next attempt",
        [
            {"op": "config", "group.initial.rebalance.delay.ms": 1000, "offsets.retention.minutes": 30},
            {"op": "request", "api": "JoinGroup", "version": 8, "body": {"groupId": "g0", **JOIN}, "names": "$1"},
            {"op": "request", "api": "OffsetCommit", "version": 9, "body": {"groupId": "g0", **COMMIT}},
            {"op": "advance", "ms": 2_000_000},
            {"op": "failNextAppend", "error": "NOT_ENOUGH_REPLICAS"},
            {"op": "advance", "ms": 2_000_000},
        ],
    ),
    "a group that was created without a record, and that a failed write reverts": (
        # bench/coordinator_differential.py, classic, seed 14018407. Ours writes a tombstone for it
        # when it expires.
        "consumer-groups.md",
        "a group that was created by an OffsetCommit or TxnOffsetCommit without topics does not",
        [
            {
                "op": "request",
                "api": "TxnOffsetCommit",
                "version": 0,
                "body": {"transactionalId": "x", "groupId": "g", "producerId": 2, "producerEpoch": 0},
            },
            {"op": "failNextAppend", "error": "NOT_LEADER_OR_FOLLOWER"},
            {"op": "advance", "ms": 2_000_000},
        ],
    ),
    "a rejected join that a failed write reverts": (
        # bench/coordinator_differential.py, classic, seed 14001439. The join removed an empty
        # consumer group without a record.
        "consumer-groups.md",
        "an empty consumer group exists again",
        [
            {"op": "config", "group.initial.rebalance.delay.ms": 1000},
            {"op": "request", "api": "ConsumerGroupHeartbeat", "version": 1, "body": {**CONSUMER, "memberId": "m"}},
            {"op": "advance", "ms": 300_000},
            {"op": "request", "api": "JoinGroup", "version": 8, "body": {"groupId": "g0", **JOIN}, "names": "$1"},
            {
                "op": "request",
                "api": "JoinGroup",
                "version": 5,
                "body": {"groupId": "g", **JOIN, "memberId": "nobody", "groupInstanceId": None},
            },
            {"op": "failNextAppend", "error": "NOT_LEADER_OR_FOLLOWER"},
            {"op": "advance", "ms": 300_000},
        ],
    ),
    BEYOND_ITS_TOPIC: (
        "consumer-groups.md",
        BEYOND_ITS_TOPIC,
        [
            {"op": "config", "group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0},
            {"op": "image", "topics": [{"name": "t", "id": "AAAAAAAAAAAAAAAAAAh6Ag", "partitions": MORE}]},
            {
                "op": "request",
                "api": "JoinGroup",
                "version": 8,
                "body": {"groupId": "g", **JOIN, "protocols": [{"name": "range", "metadata": "AAAAAAABAAF0/////w=="}]},
                "names": "$1",
            },
            {
                "op": "request",
                "api": "SyncGroup",
                "version": 5,
                "body": {
                    "groupId": "g",
                    "memberId": "i1-$1",
                    "groupInstanceId": "i1",
                    "generationId": 1,
                    "protocolType": "consumer",
                    "protocolName": "range",
                    "assignments": [{"memberId": "i1-$1", "assignment": "AAAAAAABAAF0AAAAAwAAAAAAAAABAAAAAv////8="}],
                },
            },
            {"op": "image", "topics": [{"name": "t", "id": "AAAAAAAAAAEAAAAAAAAAZQ", "partitions": FEWER}]},
            {"op": "request", "api": "ConsumerGroupHeartbeat", "version": 1, "body": {**CONSUMER, "memberId": "m"}},
        ],
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_differences_still_exist_and_are_documented(oracle: Oracle, name: str) -> None:
    page, reported, (*before, last) = KNOWN[name]
    duel = NamedDuel(oracle, note=name, reloads=False)
    for line in before:
        play_line(duel, line)
    with pytest.raises(Differs) as found:  # if it fails: remove the case here and from the page
        play_line(duel, last)
    assert isinstance(found.value, KnownFailure) == (name == BEYOND_ITS_TOPIC), "kafka_failures.py lists it"
    assert reported in (DOCS / page).read_text("utf-8")


def play_line(duel: NamedDuel, line: dict[str, object]) -> None:
    fields: Any = {name: value for name, value in line.items() if name not in ("op", "id")}
    duel.op(str(line["op"]), **fields)


@pytest.mark.parametrize("name", MENDED)
def test_scripts_that_differed_give_kafkas_responses(oracle: Oracle, name: str) -> None:
    """issue 14"""
    duel = NamedDuel(oracle, note=name)
    for line in SCRIPTS[name].read_text("utf-8").splitlines():
        play_line(duel, json.loads(line))


def test_generated_requests_have_every_api_and_version(oracle: Oracle) -> None:
    duel = NamedDuel(oracle)
    duel.op("config")
    requests = AnyRequests(Random(1), duel, replaced_share=0)
    for api in ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit", "LeaveGroup"):
        for _ in range(60):
            requests.send(api)
    seen = {(line["api"], line["version"]) for line in duel.lines if line["op"] == "request"}
    assert {("OffsetCommit", one) for one in range(2, 11)} <= seen
    assert {("OffsetFetch", one) for one in range(1, 11)} <= seen
    assert {("TxnOffsetCommit", one) for one in range(6)} | {("LeaveGroup", one) for one in range(6)} <= seen
