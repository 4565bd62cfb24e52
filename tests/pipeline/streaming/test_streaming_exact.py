"""Rows of processors after any micro-batch, compared with a replay of captures and random logs."""

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.pipeline.jobs.rebalance_rows import REBALANCES, rows_of_group
from quorate.pipeline.jobs.state_rows import STATE, state_rows
from quorate.pipeline.streaming.group_rows import Packed, entry
from quorate.pipeline.streaming.keyed import readable
from quorate.pipeline.streaming.rebalances import RebalancesProcessor
from quorate.pipeline.streaming.state import StateProcessor
from tests.coordinator.captures import folders
from tests.extent import portion
from tests.pipeline.helpers.jobs import NAMES, replay, stored_rows, table_of
from tests.pipeline.helpers.processors import Driver, grouped
from tests.pipeline.helpers.random_logs import random_commits, random_groups

Groups = dict[tuple[str, int, str], list[Packed]]


def captures() -> Groups:
    """Return all groups of all captures."""
    found: Groups = {}
    for capture in NAMES:
        for folder in folders(capture):
            found |= grouped(table_of(folder, capture, "read_committed"))
    return found


def random_logs(seed: int) -> Groups:
    """Return groups of our coordinator, or commits of few keys; all count as committed."""
    stored = random_commits(seed) if seed % 2 else random_groups(seed)
    return grouped(stored_rows(stored, f"seed-{seed}"))


def pieces(rows: list[Packed], random: Random, *, writes: bool = False) -> list[list[Packed]]:
    """Return random micro-batches, with `writes` cut only between writes.

    Within a write, a group may exist only because of a record that the write deletes again
    (seed 474).
    """
    parts: list[list[Packed]] = []
    at = 0
    while at < len(rows):
        end = at + random.choice([1, 1, 2, 3, 10, 40])
        while writes and end < len(rows) and rows[end].ms == rows[end - 1].ms:
            end += 1
        parts.append(rows[at:end])
        at = end
    return parts


def json_rows(rows: Any, schema: pa.Schema) -> list[dict[str, Any]]:
    return [readable(row, schema) for row in rows]


def without_names(row: dict[str, Any]) -> dict[str, Any]:
    """Remove names of topics with an id: only some records contain them."""
    for member in row.get("members", ()):
        for name in ("assigned", "pending_revocation", "target"):
            for at in member[name]:
                if "topic_id" in at:
                    at.pop("topic", None)
            member[name].sort(key=str)
    return row


def check_state(groups: Groups, random: Random, *, writes: bool = False) -> int:
    """Compare after each micro-batch. Returns the number of groups that were deleted."""
    gone = 0
    for key, rows in groups.items():
        driver = Driver(StateProcessor)
        seen: list[Packed] = []
        for part in pieces(rows, random, writes=writes):
            seen += part
            (change,) = driver.batch(key, random.sample(part, len(part)))
            state = replay(entry(row, key[1], key[2]) for row in seen)
            wanted = [row for row in state_rows(state, {}) if row.get("group") == key[2]]
            assert change.pop("version") == seen[-1].offset
            change.pop("changed_at", None)
            assert change.pop("deleted") == (not wanted)
            assert (change.pop("log_topic"), change.pop("log_partition")) == key[:2]
            if len(seen) < len(rows) and rows[len(seen)].ms == seen[-1].ms:
                # Within a write, a group that changes its kind is deleted, or classic if its
                # offsets are compacted.
                continue
            if wanted:
                assert without_names(change) == without_names(json_rows(wanted, STATE)[0]), key
                assert driver.batch(key, part) == []  # repeated rows are skipped
            else:
                gone += 1
                assert driver.handles[key].is_empty
    return gone


def check_rebalances(groups: Groups, random: Random) -> int:
    found = 0
    for key, all_rows in groups.items():
        rows = [row for row in all_rows if row.type not in ("OffsetCommit", "LegacyOffsetCommit")]
        driver = Driver(RebalancesProcessor)
        latest: dict[int, dict[str, Any]] = {}
        seen: list[Packed] = []
        for part in pieces(rows, random):
            seen += part
            for change in driver.batch(key, random.sample(part, len(part))):
                latest[change["log_offset"]] = change
            wanted = json_rows(rows_of_group((entry(row, key[1], key[2]) for row in seen), key[2]), REBALANCES)
            got = [row for _, row in sorted(latest.items()) if not row["deleted"]]
            same = [
                {
                    name: row[name]
                    for name in row
                    if name not in ("log_topic", "log_partition", "group", "version", "deleted")
                }
                for row in got
            ]
            assert same == sorted(wanted, key=lambda row: row["log_offset"]), key
        found += len(latest)
    return found


def test_the_state_of_captures_equals_a_replay_after_any_micro_batch() -> None:
    groups = captures()
    assert len(groups) > 60
    assert check_state(groups, Random(3)) > 5


def test_the_rebalances_of_captures_equal_those_of_the_whole_log_after_any_micro_batch() -> None:
    assert check_rebalances(captures(), Random(4)) > 100


@settings(max_examples=portion(10))
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_the_state_of_random_logs_equals_a_replay_after_any_micro_batch(seed: int, random: Random) -> None:
    check_state(random_logs(seed), random, writes=True)


@settings(max_examples=6)
# Share state is written after the epoch, in the same write, and is the cause of the next epoch.
@example(seed=358, random=Random(6))
@given(seed=st.integers(0, 10_000), random=st.randoms(use_true_random=False))
def test_the_rebalances_of_random_logs_equal_those_of_the_whole_log(seed: int, random: Random) -> None:
    check_rebalances(random_logs(2 * seed), random)
