"""Histories of groups, from logs of real brokers."""

import pytest

from quorate.codecs import CoordinatorRecord, LogEntry
from quorate.codecs.record_text import learn_names
from quorate.coordinator.history import Cause, EpochBumped, History, Labels, Moment, diff, events, facts, state_at, view
from quorate.coordinator.history.views import Since
from quorate.coordinator.state import CoordinatorState, GroupKind
from tests.coordinator.captures import CAPTURES, checkpoints, entries, folders

UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"
CONSUMER = CAPTURES / "consumer-4.3"
CAPTURED = (
    "upgrade-4.0-to-4.3-and-back",
    "consumer-4.3",
    "classic-3.9",
    "share-4.3",
    "streams-4.3",
    "transactions-4.3",
)


def events_of(folder, group):
    return list(events(entries(folder), lambda group_id: group_id == group))


def sentences(folder, group, **options):
    names = {}
    for entry in entries(folder):
        learn_names(names, entry.record)
    labels = Labels(names=names, member=lambda member: member[:8], **options)
    return {event.offset: [fact.sentence(labels) for fact in event.facts] for event in events_of(folder, group)}


def bumps(folder, group):
    return [
        (fact.after, [reason.cause for reason in fact.reasons])
        for event in events_of(folder, group)
        for fact in event.facts
        if isinstance(fact, EpochBumped)
    ]


def test_history_of_an_upgrade_and_downgrade_in_sentences():
    assert sentences(UPGRADE / "__consumer_offsets-1", "bill-orders") == {
        0: [
            "consumer group created",
            "member xfgFzHx6 joined (client r0, rack rack-a)",
            "topic metadata written in a record of type 4",
            "group epoch 1 because member xfgFzHx6 joined (client r0, rack rack-a)",
            "target assignment of epoch 1: clicks.eu 0-2, orders 0-5 to xfgFzHx6",
            "member xfgFzHx6 is reconciled at epoch 1, assigned clicks.eu 0-2, orders 0-5",
        ],
        6: [
            "member KGdYfLNn joined (instance inst-1, client r1, rack rack-b)",
            "group epoch 1 → 2 because member KGdYfLNn joined (instance inst-1, client r1, rack rack-b)",
            "target assignment of epoch 2: clicks.eu 0-1, orders 0-2 from xfgFzHx6 to KGdYfLNn",
            "member KGdYfLNn is at epoch 2 and waits for partitions that other members must revoke",
        ],
        14: ["member xfgFzHx6 must revoke clicks.eu 0-1, orders 0-2"],
        15: ["member xfgFzHx6 is reconciled at epoch 2"],
        16: ["member KGdYfLNn is reconciled at epoch 2, assigned clicks.eu 0-1, orders 0-2"],
        19: ["9 offsets committed: clicks.eu 0-2, orders 0-5"],
        34: [
            "topic metadata (record of type 4) deleted",
            "metadata hash stored: 0x4f3990f6b9f05e74",
            "group epoch 2 → 3 because a broker of Kafka 4.1 or later stored the metadata hash for the first time",
            "target assignment of epoch 3: no partition moves",
            "member xfgFzHx6 is reconciled at epoch 3",
        ],
        38: ["member KGdYfLNn is reconciled at epoch 3"],
        39: ["9 offsets committed: clicks.eu 0-2, orders 0-5"],
        54: [
            "metadata hash changed from 0x4f3990f6b9f05e74 to 0xee51ad666778b218",
            "group epoch 3 → 4 because the metadata hash changed: "
            "a subscribed topic has other partitions, other racks or another id",
            "target assignment of epoch 4: orders 3-4 from xfgFzHx6 to KGdYfLNn; orders 6-8 to xfgFzHx6",
            "member xfgFzHx6 must revoke orders 3-4",
        ],
        59: ["member xfgFzHx6 is reconciled at epoch 4, assigned orders 6-8"],
        60: ["member KGdYfLNn is reconciled at epoch 4, assigned orders 3-4"],
        63: ["12 offsets committed: clicks.eu 0-2, orders 0-8"],
        84: [
            "topic metadata written in a record of type 4",
            "metadata hash 0xee51ad666778b218 was removed",
            "group epoch 4 → 5 because a broker before Kafka 4.1 took over, which keeps no metadata hash",
            "target assignment of epoch 5: no partition moves",
            "member KGdYfLNn is reconciled at epoch 5",
        ],
        88: ["member xfgFzHx6 is reconciled at epoch 5"],
        89: ["24 offsets committed: clicks.eu 0-2, orders 0-8"],
    }


def test_regex_increments_the_epoch_when_its_topics_change():
    """The changed hash is given as the reason only for other racks or partitions (epochs 5 and 6).

    No record contains epoch 1, at which groups start in Kafka 4.3.
    """
    assert bumps(CONSUMER / "__consumer_offsets-2", "cg-regex") == [
        (2, [Cause.REGEX]),
        (3, [Cause.JOINED]),
        (4, [Cause.REGEX]),
        (5, [Cause.HASH]),
        (6, [Cause.HASH]),
    ]


def test_assignments_of_classic_groups_are_reported_by_generation() -> None:
    by_offset = sentences(CAPTURES / "classic-3.9" / "__consumer_offsets-1", "c-deleted")
    assert "assignment of generation 1: gone 0 to de0-9543" in by_offset[41]
    assert "assignment of generation 2: gone 0 from de0-9543 to no member" in by_offset[43]


def test_conversions_are_reported_both_ways():
    conversions = [
        (fact.before, fact.after)
        for event in events_of(CONSUMER / "__consumer_offsets-3", "cg-migrates")
        for fact in event.facts
        if isinstance(fact, facts.GroupConverted)
    ]
    assert conversions == [(GroupKind.CLASSIC, GroupKind.CONSUMER), (GroupKind.CONSUMER, GroupKind.CLASSIC)]


def test_static_members_leave_temporarily_and_are_replaced():
    kinds = [
        type(fact)
        for event in events_of(CONSUMER / "__consumer_offsets-0", "cg-range")
        for fact in event.facts
        if isinstance(fact, facts.MemberAway | facts.MemberReplaced)
    ]
    assert facts.MemberAway in kinds
    assert facts.MemberReplaced in kinds


def test_deleted_group_is_reported():
    history = [fact for event in events_of(CONSUMER / "__consumer_offsets-0", "cg-deleted") for fact in event.facts]
    assert facts.GroupDeleted(kind=GroupKind.CONSUMER) in history


def test_transactions_are_reported_when_they_end():
    texts = [
        fact.sentence(Labels())
        for event in events_of(CAPTURES / "transactions-4.3" / "__consumer_offsets-1", "tx-simple")
        for fact in event.facts
    ]
    assert texts == [
        "group created, without members",
        "1 offset committed in an open transaction: tin 0",
        "transaction of producer 0 committed: tin 0",
        "2 offsets committed in an open transaction: tin 0-1",
        "transaction of producer 0 aborted: tin 0-1",
    ]


def test_records_removed_by_compaction_are_not_given_as_reasons():
    epoch_bumps = [
        (fact.before, fact.after, [reason.cause for reason in fact.reasons])
        for event in events_of(CAPTURES / "compacted-4.3" / "__consumer_offsets-0", "cg-range")
        for fact in event.facts
        if isinstance(fact, EpochBumped)
    ]
    assert epoch_bumps[0] == (1, 7, [Cause.COMPACTED])


@pytest.mark.parametrize("capture", CAPTURED)
def test_every_epoch_of_a_whole_log_has_a_reason(capture):
    """A log that was not compacted contains the causes of all epochs."""
    epoch_bumps = [
        fact
        for folder in folders(capture)
        for event in events(entries(folder))
        for fact in event.facts
        if isinstance(fact, EpochBumped)
    ]
    unexplained = [
        bump for bump in epoch_bumps if any(reason.cause in (Cause.UNKNOWN, Cause.COMPACTED) for reason in bump.reasons)
    ]
    assert unexplained == []
    assert all(
        bump.after == bump.before + 1
        for bump in epoch_bumps
        if bump.before and Cause.CONVERTED not in [reason.cause for reason in bump.reasons]
    )


@pytest.mark.parametrize("capture", [*CAPTURED, "compacted-4.3"])
def test_history_ends_with_the_state_of_the_log(capture):
    for folder in folders(capture):
        history, state = History(), CoordinatorState()
        for entry in entries(folder):
            history.take(entry)
            state.replay(
                entry.record, offset=entry.offset, producer_id=entry.producer_id if entry.transactional else -1
            )
        history.finish()
        assert {name: view(group) for name, group in history.state.groups.items()} == {
            name: view(group) for name, group in state.groups.items()
        }
        for group_id, (_, bump) in history.bumps.items():
            assert bump.after == state.groups[group_id].epoch


def test_view_stays_unchanged_when_the_state_changes():
    folder = UPGRADE / "__consumer_offsets-1"
    state = state_at(entries(folder), offset=5)
    group = state.groups["bill-orders"]
    before = view(group)
    text_before = repr(before)
    for entry in entries(folder):
        if entry.offset > 5:
            state.replay(entry.record, offset=entry.offset)
    assert repr(before) == text_before != repr(view(group))


def test_state_at_a_timestamp_equals_that_at_its_offset():
    folder = UPGRADE / "__consumer_offsets-1"
    last = next(entry for entry in entries(folder) if entry.offset == 38)
    by_time = state_at(entries(folder), timestamp_ms=last.timestamp_ms)
    by_offset = state_at(entries(folder), offset=38)
    assert view(by_time.groups["bill-orders"]) == view(by_offset.groups["bill-orders"])
    assert view(by_offset.groups["bill-orders"]).epoch == 3
    assert view(state_at(entries(folder), offset=33).groups["bill-orders"]).epoch == 2


def test_moment_limits_each_partition_by_its_own_offset():
    log = [entry for folder in folders("upgrade-4.0-to-4.3-and-back")[1:3] for entry in entries(folder)]
    until_offset = list(Moment(offsets={1: 38}).cut(log))
    assert {entry.partition for entry in until_offset} == {1}
    assert max(entry.offset for entry in until_offset) == 38
    time_ms = until_offset[-1].timestamp_ms
    until_time = list(Moment(timestamp_ms=time_ms).cut(log))
    assert {entry.partition for entry in until_time} == {1, 2}
    assert max(entry.timestamp_ms for entry in until_time) <= time_ms
    assert list(Moment().cut(log)) == log


def test_difference_of_two_states_has_all_changes():
    folder = UPGRADE / "__consumer_offsets-1"
    changes = diff(state_at(entries(folder), offset=38), state_at(entries(folder), offset=88))["bill-orders"]
    assert [type(fact).__name__ for fact in changes] == [
        "TopicRecordChanged",
        "HashChanged",
        "EpochBumped",
        "TargetChanged",
        "MemberProgressed",
        "MemberProgressed",
        "OffsetsCommitted",
    ]
    bump = changes[2]
    assert (bump.before, bump.after, bump.reasons[0].cause) == (3, 5, Cause.HASH_DROPPED)
    assert len(changes[3].moves) == 5
    assert diff(state_at(entries(folder), offset=88), state_at(entries(folder), offset=88)) == {}


def test_topic_names_are_read_from_all_records_with_topic_ids():
    names = {}
    for folder in folders("upgrade-4.0-to-4.3-and-back"):
        for entry in entries(folder):
            assert isinstance(entry, LogEntry)
            learn_names(names, entry.record)
    used = {
        topic.topic_id
        for folder in folders("upgrade-4.0-to-4.3-and-back")
        for entry in entries(folder)
        if isinstance(entry.record, CoordinatorRecord)
        for topic in getattr(entry.record.value, "topic_partitions", ())
    }
    assert used
    assert used <= names.keys()


@pytest.mark.parametrize("capture", CAPTURED)
def test_incremental_view_equals_a_new_view(capture):
    """A view that updates only the member of each record equals a view of all members."""
    for folder in folders(capture):
        state, views = CoordinatorState(), {}
        for entry in entries(folder):
            state.replay(
                entry.record, offset=entry.offset, producer_id=entry.producer_id if entry.transactional else -1
            )
            key = getattr(entry.record, "key", None)
            group_id = getattr(key, "group_id", None) or getattr(key, "group", None)
            group = state.groups.get(group_id)
            if group is None:
                views.pop(group_id, None)
                continue
            touched = {key.member_id} if hasattr(key, "member_id") else set()
            earlier = views.get(group_id)
            views[group_id] = view(group, None if earlier is None else Since(view=earlier, touched=touched))
            assert views[group_id] == view(group)


@pytest.mark.parametrize("capture", ["upgrade-4.0-to-4.3-and-back", "consumer-4.3", "classic-3.9"])
def test_views_equal_the_brokers_descriptions_at_every_checkpoint(capture):
    compared = 0
    for checkpoint in checkpoints(capture):
        views = {}
        for folder in folders(capture):
            end = checkpoint.end_offsets.get(folder.name)
            assert end is not None
            views |= {name: view(group) for name, group in state_at(entries(folder), offset=end - 1).groups.items()}
        for described in checkpoint.groups:
            viewed = views[described["groupId"]]
            members = [member["memberId"] for member in described.get("members", ())]
            assert (viewed.kind.lower(), viewed.state) == (described["type"].lower(), described["state"]), checkpoint
            assert sorted(viewed.members) == sorted(members), checkpoint
            if described["groupEpoch"] is not None:
                epochs = (viewed.epoch, viewed.assignment_epoch)
                assert epochs == (described["groupEpoch"], described["targetAssignmentEpoch"]), checkpoint
            compared += len(members)
    assert compared > 20
