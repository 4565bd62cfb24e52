"""`upgrade_audit`: the recorded upgrade and downgrade, conversions, and `upgrade-check`."""

from typing import Any

import pytest

from quorate.assignors import Topology
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.history.upgrade import findings
from quorate.pipeline.jobs.audit_rows import AUDIT, rows_of_group
from tests.coordinator.captures import checkpoints, entries, folders
from tests.pipeline.helpers.engines import Engine
from tests.pipeline.helpers.jobs import NAMES, Rowlike, captured, replay
from tests.pipeline.jobs.test_rebalances import group_of

UPGRADE = "upgrade-4.0-to-4.3-and-back"

# In `make test`, tests/pipeline/test_command.py compares the audit of a capture on both engines.
pytestmark = pytest.mark.long_on_spark


@pytest.fixture(scope="module")
def found(engine: Engine) -> list[Rowlike]:
    rows: list[Rowlike] = engine.upgrade_audit(engine.rows(captured(), seed=4)).cast(AUDIT).to_pylist()
    return sorted(rows, key=lambda row: (row["log_offset"], row["finding"]))


def of(found: list[Rowlike], capture: str, group: str) -> list[tuple[str, int | None]]:
    return [(row["finding"], row["epoch"]) for row in found if (row["log_topic"], row["group"]) == (capture, group)]


def test_the_recorded_upgrade_and_downgrade_are_findings(found: list[Rowlike]) -> None:
    assert of(found, UPGRADE, "ship-orders") == [
        ("upgraded", 4), ("downgraded", 6), ("topic-record", 8), ("will-bump", 8),
    ]  # fmt: skip
    assert of(found, UPGRADE, "bill-orders")[:2] == [("upgraded", 3), ("downgraded", 5)]


def test_groups_created_by_a_new_broker_are_not_upgrades(found: list[Rowlike]) -> None:
    assert not [row for row in found if row["log_topic"] != UPGRADE and row["finding"] in ("upgraded", "downgraded")]


def test_conversions_in_both_directions_are_findings_with_their_time(found: list[Rowlike]) -> None:
    assert of(found, "consumer-4.3", "cg-migrates") == [("converted", 4), ("converted-back", 13), ("convertible", 20)]
    for row in found:
        assert row["timestamp"] is not None


def test_findings_at_the_end_equal_upgrade_check(found: list[Rowlike]) -> None:
    compared = 0
    for capture in NAMES:
        for folder in folders(capture):
            for group in replay(entries(folder)).groups.values():
                wanted = {str(finding) for finding in findings(group, CoordinatorConfig())}
                actual = {
                    row["sentence"]
                    for row in found
                    if row["at_end"] and (row["log_topic"], row["group"]) == (capture, group.group_id)
                }
                assert actual == wanted, (capture, group)
                compared += len(wanted)
    assert compared > 20


def test_hashes_that_differ_from_the_topology_are_findings() -> None:
    at = list(checkpoints("consumer-4.3"))[-1]
    topics = list(at.image.topics_by_id.values())

    def audited(replicas: Any) -> list[Rowlike]:
        topology = Topology.from_replicas(
            {topic.name: replicas(topic) for topic in topics},
            at.image.brokers,
            ids={topic.name: topic.id for topic in topics},
        )
        known = {topic.name: topic for topic in topology.topics}
        return [
            row
            for folder in folders("consumer-4.3")
            for group in sorted(filter(None, set(map(group_of, entries(folder)))))
            for row in rows_of_group(
                [entry for entry in entries(folder) if group_of(entry) == group], group, CoordinatorConfig(), known
            )
        ]

    assert not [row for row in audited(lambda topic: topic.replicas) if row["finding"] == "hash-differs"]
    grown = [row for row in audited(lambda topic: (*topic.replicas, (0,))) if row["finding"] == "hash-differs"]
    assert {row["kind"] for row in grown} == {"Consumer"}
    assert all("the next refresh increments the group epoch" in row["sentence"] for row in grown)
