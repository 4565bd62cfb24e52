"""Events of share-partitions: what is combined, and what is not."""

from typing import Any

import pytest

from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.messages.share_state import ShareSnapshotValue, ShareUpdateValue, StateBatch
from quorate.coordinator.history.share_events import ShareHistory
from quorate.coordinator.share_state import records
from quorate.coordinator.share_state.key import SharePartitionKey
from tests.coordinator.log_entries import log_entry

KEY = SharePartitionKey("web", Uuid(b"t" * 16), 0)


def snapshot(start: int, *batches: StateBatch, epoch: int = 0, state_epoch: int = 1) -> Any:
    value = ShareSnapshotValue(
        snapshot_epoch=epoch,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=0,
        create_timestamp=0,
        write_timestamp=0,
        state_batches=batches,
    )
    return records.snapshot(KEY, value)


def update(start: int, *batches: StateBatch) -> Any:
    value = ShareUpdateValue(
        snapshot_epoch=0, leader_epoch=0, start_offset=start, delivery_complete_count=0, state_batches=batches
    )
    return records.update(KEY, value)


def batch(first: int, last: int, state: int, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)


def sentences(*written: Any) -> list[list[str]]:
    """Return the sentences of each event; each record has a time of its own."""
    history, found = ShareHistory(), []
    for offset, record in enumerate(written):
        found += history.take(log_entry(record, offset, 1_000 + offset))
    found += history.finish()
    return [[str(fact).replace(str(KEY.topic_id), "jobs") for fact in event.facts] for event in found]


def test_consecutive_moves_of_the_start_offset_are_one_event():
    moves = [update(start) for start in range(1, 1_001)]
    assert sentences(snapshot(0), *moves, snapshot(1_000, epoch=1), update(1_007)) == [
        ["share state of jobs 0 initialized with start offset 0"],
        ["start offset of jobs 0 0 → 1,007"],
    ]


def test_archived_records_are_reported_once_and_end_a_run_of_moves():
    assert sentences(
        snapshot(0),
        update(3, batch(3, 9, 0, 4)),
        update(3, batch(5, 6, 4, 5)),
        update(3, batch(5, 6, 4, 5), batch(8, 8, 3, 5)),  # the same records again, and one being archived
        update(7, batch(7, 7, 2, 5)),
    ) == [
        ["share state of jobs 0 initialized with start offset 0"],
        ["start offset of jobs 0 0 → 3"],
        [
            "2 records of jobs 0 archived after 5 deliveries: offsets 5–6",
            "1 record of jobs 0 archived after 5 deliveries: offset 8",
        ],
        ["start offset of jobs 0 3 → 7"],
    ]


def test_resets_deletions_and_logs_that_begin_later_have_events_of_their_own():
    assert sentences(
        snapshot(40, epoch=3), snapshot(7, epoch=4, state_epoch=2), records.tombstone(KEY), records.tombstone(KEY)
    ) == [
        ["share state of jobs 0 exists with start offset 40; its earlier records are not in the log"],
        ["share state of jobs 0 reset to state epoch 2: start offset 40 → 7"],
        ["share state of jobs 0 deleted"],
    ]
    assert sentences(update(5))[0][0].endswith("its earlier records are not in the log")


def test_a_renewed_snapshot_is_no_event():
    assert len(sentences(snapshot(4), snapshot(4, epoch=1), update(4, batch(4, 6, 0, 2)))) == 1


def test_an_update_that_cannot_be_applied_is_an_error_with_its_place():
    history = ShareHistory()
    history.take(log_entry(snapshot(0), 0, 1_000))
    with pytest.raises(InputError, match="__share_group_state-0, offset 1: the batches of the update are invalid"):
        history.take(log_entry(update(0, batch(9, 3, 0), batch(1, 2, 0)), 1, 1_001))
