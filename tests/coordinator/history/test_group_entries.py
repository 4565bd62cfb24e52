"""A history of the records that groups need has the same events, without commits."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import LogEntry
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import RawBlock, read_raw
from quorate.coordinator.history import History
from quorate.coordinator.history.facts import OffsetsCommitted, OffsetsDeleted
from quorate.coordinator.history.group_entries import entries_of_groups
from tests.coordinator.bulk_logs import STEPS, Step, block_of, blocks, in_order
from tests.coordinator.captures import CAPTURES, folders
from tests.extent import portion


def found_in(entries: Iterable[LogEntry]) -> Any:
    """Return events without facts on offsets, by group, and the last increments of epochs."""
    history = History()
    events = [event for entry in entries for event in history.take(entry)] + history.finish()
    of_groups = [
        (event.timestamp_ms, event.group_id, facts)
        for event in events
        if (facts := [fact for fact in event.facts if not isinstance(fact, OffsetsCommitted | OffsetsDeleted)])
    ]
    bumps = {group_id: (event.timestamp_ms, fact) for group_id, (event, fact) in history.bumps.items()}
    # The order of groups within one write depends on their first records, which may be commits.
    return sorted(of_groups, key=lambda event: event[1]), bumps


def every_entry(found: Iterable[RawBlock]) -> Iterable[LogEntry]:
    return (entry for block in found for entry in block.entries())


@settings(max_examples=portion(400), deadline=None)
@given(STEPS, st.lists(st.integers(0, 20), max_size=4), st.lists(st.integers(0, 3), min_size=1))
def test_events_of_groups_are_those_of_all_records(steps: list[Step], sizes: list[int], times: list[int]) -> None:
    """Timestamps repeat, and go back."""
    parts = [
        replace(block, timestamp_ms=np.array([times[int(offset) % len(times)] for offset in block.offset], np.int64))
        for block in blocks(steps, sizes, in_order)
    ]
    assert found_in(entries_of_groups(parts)) == found_in(every_entry(parts))


@pytest.mark.parametrize("capture", sorted(path.name for path in CAPTURES.iterdir()))
def test_events_of_captures(capture: str) -> None:
    for folder in folders(capture):
        for files in find_partitions(folder):
            parts = list(read_raw(files))
            assert found_in(entries_of_groups(parts)) == found_in(every_entry(parts))


def test_most_commits_are_left_out() -> None:
    commits: list[Step] = [("commit", group, 0, place, 0, place) for place in range(50) for group in (0, 1)]
    kept = [entry.offset for entry in entries_of_groups([block_of(commits, 0), block_of(commits, 100)])]
    assert kept == [0, 1, 99, 100, 101, 199]


def test_records_of_two_writes_with_the_same_time_are_not_joined() -> None:
    """A commit between them, of another time, is kept."""
    of_group: list[Step] = [("group", 0, 0, 0, 0, 2)]
    commits: list[Step] = [("commit", 0, 0, 0, 0, 1)] * 3
    block = replace(block_of([*of_group, *commits, *of_group], 0), timestamp_ms=np.array([5, 5, 6, 6, 5]))
    kept = [(entry.offset, entry.timestamp_ms) for entry in entries_of_groups([block])]
    assert kept == [(0, 5), (1, 5), (2, 6), (4, 5)]
