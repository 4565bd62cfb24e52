"""`history` finds errors in a group's records: those of Kafka brokers, with and without faults."""

from dataclasses import replace

import pytest

from quorate.codecs import LogEntry, read_log
from quorate.codecs.messages import classic_group, consumer_group, offsets
from tests.codecs.helpers.captures import CAPTURES
from tests.integration.history import replay

pytestmark = pytest.mark.without_containers


def entries(capture: str) -> list[LogEntry]:
    return [entry for entry in read_log(CAPTURES / capture) if isinstance(entry, LogEntry)]


def group_of(entry: LogEntry) -> str | None:
    key = getattr(entry.record, "key", None)
    return getattr(key, "group_id", None) or getattr(key, "group", None)


def last(found: list[LogEntry], key: type, suits: object = lambda _: True) -> LogEntry:
    return [
        entry
        for entry in found
        if isinstance(getattr(entry.record, "key", None), key)
        and getattr(entry.record, "value", None) is not None
        and suits(entry.record.value)  # type: ignore[operator, union-attr]
    ][-1]


@pytest.mark.parametrize("capture", ["classic-3.9", "consumer-4.3", "upgrade-4.0-to-4.3-and-back"])
def test_real_brokers_never_gave_a_partition_to_two(capture: str) -> None:
    found = entries(capture)
    histories = {group: replay(found, group) for group in {group_of(entry) for entry in found} - {None, ""}}
    assert {group: past.owned_twice for group, past in histories.items() if past.owned_twice} == {}
    assert any(past.owners for past in histories.values())
    assert any(len(past.generations) > 1 for past in histories.values())
    assert any(past.commits for past in histories.values())


def test_a_second_owner_in_a_kip_848_group_is_found() -> None:
    found = entries("upgrade-4.0-to-4.3-and-back")
    entry = last(found, consumer_group.ConsumerGroupCurrentMemberAssignmentKey, lambda value: value.assigned_partitions)
    record = entry.record
    assert hasattr(record, "key")
    intruder = replace(entry, record=replace(record, key=replace(record.key, member_id="intruder")))
    until = found[: found.index(entry) + 1]
    assert replay(until, str(group_of(entry))).owned_twice == []
    assert any("intruder" in text for text in replay([*until, intruder], str(group_of(entry))).owned_twice)


def test_a_second_owner_in_a_classic_group_is_found() -> None:
    found = entries("classic-3.9")
    entry = last(found, classic_group.GroupMetadataKey, lambda value: value.members and value.members[0].assignment)
    record = entry.record
    assert hasattr(record, "value")
    both = (record.value.members[0], replace(record.value.members[0], member_id="intruder"))
    wrong = replace(entry, record=replace(record, value=replace(record.value, members=both)))
    assert any("intruder" in text for text in replay([wrong], str(group_of(entry))).owned_twice)


def test_a_commit_that_goes_back_is_found() -> None:
    entry = last(entries("classic-3.9"), offsets.OffsetCommitKey, lambda value: value.offset > 0)
    record = entry.record
    assert hasattr(record, "value")
    earlier = replace(entry, record=replace(record, value=replace(record.value, offset=record.value.offset - 1)))
    group = str(group_of(entry))
    assert replay([earlier, entry], group).steps_back() == []
    (found,) = replay([entry, earlier], group).steps_back()
    assert found.endswith(f"{record.value.offset} then {record.value.offset - 1}")
