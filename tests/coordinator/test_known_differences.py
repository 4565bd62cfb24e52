"""Where Kafka and ours are known to part: the whole list. Each still does, so that whoever mends one has to take it out here and in docs/explanation."""

from pathlib import Path

import pytest

from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.minimise import failure
from tests.oracle.client import Oracle

DOCS = Path(__file__).resolve().parents[2] / "docs" / "explanation"
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

# Name, page, what the page says of it, script.
KNOWN = {
    "offsets expire in another order after a write of their expiry failed": (
        # bench/coordinator_differential.py, classic, seed 20262870. Kafka replays before it writes; what it takes back stands elsewhere in its maps.
        "classic-groups.md",
        "the tombstones of offsets that expire can come in another order",
        [
            {"op": "config", "group.initial.rebalance.delay.ms": 1000, "offsets.retention.minutes": 30},
            {"op": "request", "api": "JoinGroup", "version": 8, "body": {"groupId": "g0", **JOIN}, "names": "$1"},
            {"op": "request", "api": "OffsetCommit", "version": 9, "body": {"groupId": "g0", **COMMIT}},
            {"op": "advance", "ms": 2_000_000},
            {"op": "failNextAppend", "error": "NOT_ENOUGH_REPLICAS"},
            {"op": "advance", "ms": 2_000_000},
        ],
    )
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_to_differ_still_does_and_is_told(oracle: Oracle, name: str) -> None:
    page, told, script = KNOWN[name]
    found = failure(oracle, script, name, kind=NamedDuel)
    assert found is not None, "no longer: take it out of this list and of the page"
    assert f"line {len(script)}:" in str(found), found
    assert told in (DOCS / page).read_text("utf-8")
