"""`quorate assign --log`: the latest state of a group in logs of real brokers."""

import json

import pytest

from quorate.assignors import Member
from quorate.cli.assign.read import read_capture
from quorate.codecs.errors import InputError
from quorate.codecs.log import read_log
from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
)
from quorate.codecs.records import CoordinatorRecord
from quorate.coordinator.history.situations import Known, SituationReplay
from tests.codecs.helpers.captures import CAPTURES

CONSUMER = CAPTURES / "consumer-4.3"
CLASSIC = CAPTURES / "classic-3.9"


def last_values(log, group, key):
    """Return the last value of each key of a type, for one group, without tombstoned keys."""
    found = {}
    for entry in read_log(log):
        record = entry.record
        if not isinstance(record, CoordinatorRecord) or not isinstance(record.key, key):
            continue
        if record.key.group_id == group:
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = record.value
    return found


@pytest.mark.parametrize("group", ["bill-orders", "ship-orders", "click-stream"])
def test_a_consumer_group_matches_its_last_records(upgrade, group):
    found = read_capture(str(upgrade), group, None, None)
    members = last_values(upgrade, group, ConsumerGroupMemberMetadataKey)
    targets = last_values(upgrade, group, ConsumerGroupTargetAssignmentMemberKey)
    assert {key.member_id: value.rack_id for key, value in members.items()} == {
        member_id: member.rack for member_id, member in found.members.items()
    }
    ids = {topic.id: topic.name for topic in found.topology.topics}
    assert {
        key.member_id: [
            (ids[topic_partition.topic_id], number)
            for topic_partition in value.topic_partitions
            for number in topic_partition.partitions
        ]
        for key, value in targets.items()
    } == {member_id: list(owned) for member_id, owned in found.current.items()}
    everything = sorted(at for owned in found.current.values() for at in owned)
    assert everything == sorted(
        (topic.name, number) for topic in found.topology.topics for number in range(topic.partitions)
    )
    assert found.protocol == "consumer"


def test_topics_that_match_a_regex_are_subscribed(upgrade):
    found = read_capture(str(upgrade), "click-stream", None, None)
    assert {tuple(member.topics) for member in found.members.values()} == {
        ("clicks.eu", "clicks.us", "clicks.us2")
    } or all(topic.startswith("clicks.") for member in found.members.values() for topic in member.topics)
    assert all(member.topics for member in found.members.values())


def test_a_classic_group_matches_what_its_leader_sent():
    found = read_capture(str(CLASSIC), "c-java-rack", None, None)
    assert (found.protocol, found.assignor) == ("classic", "range")
    assert sorted(member.rack for member in found.members.values()) == ["rack-a", "rack-b", "rack-c"]
    owned = sorted(at for member in found.members.values() for at in member.owned)
    assert len(owned) == len(set(owned)) == int(found.topology.first[-1])
    assert found.current == {member_id: member.owned for member_id, member in found.members.items()}
    assert {member.generation for member in found.members.values()} != {-1}
    assert len(found.notes) == 2


def test_static_members_are_shown_by_instance_id(quorate):
    ended = quorate("assign", "--log", CLASSIC, "--group", "c-static", "--assignor", "sticky")
    assert ended.status == 0
    rows = [line.split()[0] for line in ended.lines[4:6]]
    assert all("consumer" not in row for row in rows), rows
    assert next(line for line in ended.lines if line.startswith("sum")).split()[-1] == "0"


def test_until_shows_the_group_at_an_earlier_time(quorate):
    ended = quorate("assign", "--log", CONSUMER, "--group", "cg-expires")
    assert ended.status == 1
    assert "cg-expires has no members at the end" in ended.err
    until = ended.err.partition("--until ")[2].split()[0]
    earlier = quorate(
        "assign",
        "--log",
        CONSUMER,
        "--group",
        "cg-expires",
        "--until",
        until,
        "--assignor",
        "range",
        "--side",
        "client",
    )
    assert earlier.status == 0
    assert earlier.lines[0].startswith("cg-expires: 1 member")


def test_a_topology_file_provides_names_partitions_and_racks(quorate, tmp_path):
    without = quorate("assign", "--log", CONSUMER, "--group", "cg-uniform", "--assignor", "range", "--side", "client")
    assert without.status == 1
    assert "has only ids for some topics of" in without.err
    topics = {
        "t-alpha": {"id": "bCZQEaqYRvGPED6aRWBxvg", "partitions": 6, "racks": [["rack-a"], ["rack-b"], ["rack-c"]]},
        "t-beta": {"id": "xtc_wUhJQGiVbrkOiKNyJA", "partitions": 2, "racks": [["rack-c"]], "lag": 1},
        "t-gamma": {"id": "xDxrn6YlSyyUnUA7m1OTeA", "partitions": 2, "racks": [["rack-a"]], "lag": 0},
    }
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": topics}))
    arguments = ("--log", CONSUMER, "--group", "cg-uniform", "--topology", path, "--assignor", "range", "--json")
    ended = quorate("assign", *arguments, "--side", "client")
    assert ended.status == 0
    assert ended.err == "note: 1 of the assigned partitions is missing in the topology, and left out\n"
    result = json.loads(ended.out)
    assert result["input"]["topics"]["t-alpha"]["racks"][:2] == [["rack-a"], ["rack-b"]]
    now = result["outcomes"][0]
    assert (now["partitions"], now["lag"], now["lag_unknown"]) == (10, 2, 6)
    assert {tuple(by_topic) for by_topic in now["assignment"].values()} == {("t-beta", "t-alpha"), ("t-gamma",)}


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ("cg-unifrom", "unknown group cg-unifrom\n       did you mean cg-uniform"),
        ("zzz", "there are "),
        ("adm-legacy", "adm-legacy never had members, only committed offsets"),
    ],
)
def test_missing_groups_are_errors(quorate, group, complaint):
    ended = quorate("assign", "--log", CONSUMER, "--group", group)
    assert (ended.status, ended.out) == (1, "")
    assert complaint in ended.err


@pytest.mark.parametrize(("capture", "kind"), [("share-4.3", "a share group"), ("streams-4.3", "a streams group")])
def test_share_and_streams_groups_are_refused(quorate, capture, kind):
    groups = {
        entry.record.key.group_id
        for entry in read_log(CAPTURES / capture)
        if isinstance(entry.record, CoordinatorRecord)
        and entry.record.value is not None
        and entry.record.name == ("ShareGroupMetadata" if "share" in kind else "StreamsGroupMetadata")
    }
    complaints = {quorate("assign", "--log", CAPTURES / capture, "--group", group).err for group in groups}
    assert any(kind in complaint for complaint in complaints), complaints


def test_a_deleted_group_has_no_members(upgrade):
    """Tombstones are applied in the order in which brokers write them.

    A group that was converted from the classic protocol is no longer a classic one.
    """
    entries = [entry for entry in read_log(upgrade) if isinstance(entry.record, CoordinatorRecord)]
    replay = SituationReplay("ship-orders", Known())
    for entry in entries:
        replay.apply(entry.record, entry.timestamp_ms)
    assert replay.situation("log").members
    for kind in (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
    ):
        for key in {
            e.record.key for e in entries if isinstance(e.record.key, kind) and e.record.key.group_id == "ship-orders"
        }:
            replay.apply(tombstone(entries, key), 1)
    with pytest.raises(InputError, match="ship-orders has no members at the end"):
        replay.situation("log")


def tombstone(entries, key):
    """Return the tombstone of a key, made from a record with that key."""
    from dataclasses import replace

    record = next(entry.record for entry in entries if entry.record.key == key)
    return replace(record, value=None)


def test_the_last_record_wins(upgrade):
    """Earlier records of the classic group differ; only the last one counts."""
    values = [
        entry.record.value
        for entry in read_log(upgrade)
        if isinstance(entry.record, CoordinatorRecord) and entry.record.key == GroupMetadataKey(group="legacy-range")
    ]
    found = read_capture(str(upgrade), "legacy-range", None, None)
    assert list(found.members) == [member.member_id for member in values[-1].members]
    assert all(isinstance(member, Member) for member in found.members.values())
    assert len({tuple(m.member_id for m in value.members) for value in values if value is not None}) > 1


def test_damage_is_reported_and_the_rest_is_used(quorate, tmp_path):
    groups = {}
    for path in (CAPTURES / "classic-3.9").glob("__consumer_offsets-*/*.log"):
        for entry in read_log(path):
            if isinstance(getattr(entry.record, "key", None), GroupMetadataKey):
                groups[entry.record.key.group] = path
    source = groups["c-java-rack"]
    damaged = bytearray(source.read_bytes())
    damaged[40] ^= 0xFF  # in the first batch
    copy = tmp_path / "00000000000000000000.log"
    copy.write_bytes(damaged)
    ended = quorate("assign", "--log", copy, "--group", "c-java-rack", "--assignor", "range")
    assert ended.status == 0
    assert ended.err.startswith("error: ")
    assert "CRC" in ended.err or "checksum" in ended.err
    assert ended.lines[0].startswith("c-java-rack: 3 members")
