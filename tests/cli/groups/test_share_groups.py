"""`quorate groups` on share groups: `__share_group_state` of real brokers, next to the groups."""

import gzip
import json
from typing import Any

import pytest

from tests.coordinator.captures import CAPTURES

SHARE = CAPTURES / "share-4.3"
CHECKPOINTS: list[dict[str, Any]] = json.loads(gzip.decompress((SHARE / "manifest.json.gz").read_bytes()))[
    "checkpoints"
]


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=lambda one: one["label"])
def test_share_state_at_a_time_is_what_the_brokers_responded_then(quorate, checkpoint):
    rows = json.loads(quorate("groups", "offsets", SHARE, "--at", checkpoint["wallMs"], "--json").out)
    shown = {(row["group"], f"{row['topic']}-{row['partition']}"): row["share"] for row in rows if row["share"]}
    ends: dict[str, set[int]] = {}
    compared = 0
    for group in checkpoint["groups"]:
        for at, offset in (group.get("offsets") or {}).items() if group["type"] == "Share" else ():
            # A partition that the group has stopped to consume has no state any more.
            share = shown.pop((group["groupId"], at), None)
            if offset is None:
                assert share is None or share["start_offset"] is None
                continue
            assert share is not None, (group["groupId"], at)
            assert share["start_offset"] == offset["startOffset"]
            assert offset["leaderEpoch"] in (None, share["leader_epoch"])
            ends.setdefault(at, set()).add(share["start_offset"] + share["delivery_complete_count"] + offset["lag"])
            compared += 1
    assert compared >= 5
    assert all(len(one) == 1 for one in ends.values()), "all groups have the same log end offset"
    assert not shown


def test_an_offset_of_a_group_selects_the_share_state_of_its_time(quorate):
    rows = json.loads(quorate("groups", "offsets", SHARE, "--at", "3:11", "--json").out)
    assert {(row["topic"], row["partition"], row["share"]["start_offset"]) for row in rows} == {
        *(("s-one", number, 0) for number in range(3)),
        *(("s-two", number, 0) for number in range(2)),
    }
    first = quorate("groups", "offsets", SHARE, "--at", "3:0", "--json")
    assert json.loads(first.out) == []


def test_records_in_flight_are_counted_by_state(quorate):
    ended = quorate("groups", "offsets", SHARE, "--group", "share-a", "--at", "2026-11-21T08:20:31")
    assert [" ".join(line.split()) for line in ended.lines[:4]] == [
        "GROUP TOPIC PARTITION START-OFFSET STATE-EPOCH #IN-FLIGHT #ACKNOWLEDGED #ARCHIVED MAX-DELIVERIES",
        "share-a s-one 0 11 2 3 3 0 1",
        "share-a s-one 1 11 2 3 1 2 1",
        "share-a s-one 2 11 2 3 3 0 1",
    ]
    rows = json.loads(quorate("groups", "offsets", SHARE, "--at", "2026-11-21T08:20:31", "--json").out)
    (row,) = (one for one in rows if (one["group"], one["topic"], one["partition"]) == ("share-a", "s-one", 1))
    assert row["share"]["batches"] == [
        {"first_offset": 11, "last_offset": 12, "state": "archived", "delivery_count": 1},
        {"first_offset": 13, "last_offset": 13, "state": "acknowledged", "delivery_count": 1},
    ]


def test_describe_has_sums_of_share_groups_only(quorate):
    ended = quorate("groups", "describe", SHARE, "--group", "share-console")
    assert ended.lines[-1] == (
        "share-console: 5 share-partitions, 46 in flight: 46 available again, 0 acknowledged, 0 archived; "
        "at most 1 delivery"
    )
    rows = json.loads(quorate("groups", "describe", SHARE, "--json").out)
    assert {row["group"]: row["share"] and row["share"]["partitions"] for row in rows} == {
        "plain": None,
        "share-a": 5,
        "share-c": 3,
        "share-console": 5,
    }


def test_history_has_changes_of_share_state_among_those_of_the_group(quorate):
    rows = json.loads(quorate("groups", "history", SHARE, "--group", "share-[bc]", "--json").out)
    assert [row["timestamp_ms"] for row in rows] == sorted(row["timestamp_ms"] for row in rows)
    of_state = [row for row in rows if row["log_topic"] == "__share_group_state"]
    sentences = [one["sentence"] for row in of_state for one in row["what"]]
    assert sentences[:6] == [
        "share state of s-two 0 initialized without a start offset",
        "share state of s-two 1 initialized without a start offset",
        "start offset of s-two 1 unknown → 0",
        "start offset of s-two 0 unknown → 0",
        "share state of s-two 1 deleted",
        "share state of s-two 0 deleted",
    ]
    assert sentences[-4:] == [
        "share state of s-one 0 reset to state epoch 4: start offset 0 → 1",
        "share state of s-one 1 reset to state epoch 4: start offset 0 → 2",
        "share state of s-two 1 deleted",
        "share state of s-two 0 deleted",
    ]
    text = quorate("groups", "history", SHARE, "--group", "share-a").out
    assert "2 records of s-one 1 archived after 1 delivery: offsets 11–12\n    start offset of s-one 1 3 → 11" in text
    without = quorate("groups", "history", SHARE, "--group", "share-b", "--no-offsets").out
    assert "start offset of" not in without
    assert "share state of s-two 0 deleted" in without


def test_the_state_is_shown_without_the_log_of_the_groups(quorate):
    partition = SHARE / "__share_group_state-1"
    rows = json.loads(quorate("groups", "offsets", partition, "--group", "share-c", "--json").out)
    assert {(row["group"], row["partition"], row["share"]["start_offset"]) for row in rows} == {
        ("share-c", 0, 1),
        ("share-c", 2, 0),
    }
    earlier = json.loads(quorate("groups", "offsets", partition, "--group", "share-c", "--at", "19", "--json").out)
    assert {(row["partition"], row["share"]["state_epoch"]) for row in earlier if row["share"]["start_offset"] == 1}
    ended = quorate("groups", "offsets", partition, "--at", "7:1")
    assert "what is read has no partition 7 of __share_group_state" in ended.err
    assert quorate("groups", "offsets", partition, "--group", "nobody").status == 1
