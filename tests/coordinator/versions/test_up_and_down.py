"""Upgrades and downgrades between Kafka 4.0.2 and 4.3.

One release's coordinator loads a log that the other one wrote, and the members continue. Our
coordinator of either release does the same as Kafka's.
"""

from random import Random

import pytest

from quorate.codecs import CoordinatorRecord, decode_record
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.coordinator.consumer_scripts import History
from tests.coordinator.scripts import Duel, Json
from tests.coordinator.test_loads import FOLDERS, records_of
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

TOPIC = "AAAAAAAAAAEAAAAAAAAAAQ"
BROKERS = [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}]
TOPICS = [{"name": "t", "id": TOPIC, "partitions": [[0], [1], [0]]}]


def written(reply: Json) -> list[CoordinatorRecord]:
    """Return the records of a response."""
    found = []
    for one in reply["records"]:
        record = decode_record(bytes.fromhex(one["key"]), None if one["value"] is None else bytes.fromhex(one["value"]))
        assert isinstance(record, CoordinatorRecord)
        found.append(record)
    return found


def move_to_release(history: History, before: Duel, oracle: Oracle) -> Duel:
    """Load the log on the other release and let the members continue there."""
    log = before.op("log")["records"]
    now_ms = before.op("timers")["now"]
    after = Duel(oracle, note=before.note)
    after.op("config")
    history.runner = history.cluster.runner = after
    history.cluster.send_image(brokers=True)
    after.op("load", records=log, nowMs=now_ms)
    return after


@pytest.mark.parametrize("seed", range(portion(8)))
def test_members_continue_after_a_downgrade_and_upgrade_as_with_kafka(
    oracle: Oracle, oracle_4_0: Oracle, seed: int
) -> None:
    duel = Duel(oracle, note=f"seed {seed}")
    history = History(Random(seed), duel)
    history.run(25)
    duel = move_to_release(history, duel, oracle_4_0)
    history.run(25)
    duel = move_to_release(history, duel, oracle)
    history.run(15)


@pytest.mark.parametrize("name", sorted(name for name in FOLDERS if not name.startswith(("compressed", "share"))))
def test_logs_of_brokers_are_loaded_and_described_as_by_4_0(oracle_4_0: Oracle, name: str) -> None:
    duel = Duel(oracle_4_0)
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    duel.op("load", records=records_of(name), nowMs=1_800_000_000_000)
    listed = duel.request("ListGroups")["response"]["groups"]
    by_type = {kind: [one["groupId"] for one in listed if one["groupType"] == kind] for kind in ("consumer", "classic")}
    duel.request("ConsumerGroupDescribe", groupIds=by_type["consumer"])
    duel.request("DescribeGroups", groups=by_type["classic"])


def joined(duel: Duel) -> Json:
    return duel.request(
        "ConsumerGroupHeartbeat",
        1,
        groupId="g",
        memberId="m",
        memberEpoch=0,
        rebalanceTimeoutMs=60_000,
        subscribedTopicNames=["t"],
        topicPartitions=[],
    )


def test_first_heartbeat_after_a_downgrade_writes_topics_and_increments_the_epoch(
    oracle: Oracle, oracle_4_0: Oracle
) -> None:
    newest = Duel(oracle)
    newest.op("image", brokers=BROKERS, topics=TOPICS)
    joined(newest)
    log = newest.op("log")["records"]
    older = Duel(oracle_4_0)
    older.op("image", brokers=BROKERS, topics=TOPICS)
    older.op("load", records=log, nowMs=newest.op("timers")["now"])
    beat = {"groupId": "g", "memberId": "m", "memberEpoch": 2}

    records = written(older.request("ConsumerGroupHeartbeat", 1, **beat))

    assert [type(record.key) for record in records] == [
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    topics, epoch, _, current = (record.value for record in records)
    assert isinstance(topics, ConsumerGroupPartitionMetadataValue)
    assert [(topic.topic_name, topic.num_partitions, topic.partition_metadata) for topic in topics.topics] == [
        ("t", 3, ())
    ]
    assert epoch == ConsumerGroupMetadataValue(epoch=3, metadata_hash=0)
    assert [topic.partitions for topic in current.assigned_partitions] == [(0, 1, 2)]
    assert not older.request("ConsumerGroupHeartbeat", 1, **{**beat, "memberEpoch": 3})["records"]


def test_changed_broker_rack_does_not_increment_the_epoch_in_4_0(oracle_4_0: Oracle) -> None:
    duel = Duel(oracle_4_0)
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    joined(duel)
    duel.op("image", brokers=[{"id": 0, "rack": "z"}, {"id": 1, "rack": "y"}])
    assert not duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="m", memberEpoch=1)["records"]
    duel.op("image", topics=[{**TOPICS[0], "partitions": [[1], [0], [1]]}])
    assert not duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="m", memberEpoch=1)["records"]


def test_4_0_cannot_load_a_partition_with_share_groups_of_4_3(oracle_4_0: Oracle) -> None:
    name = next(name for name in FOLDERS if name.startswith("share") and records_of(name))
    records = records_of(name)
    oracle_4_0.call("config")
    assert oracle_4_0.call("load", records=records)["state"] == "FAILED"
    duel = Duel(oracle_4_0)
    loaded = duel.ours.run({"op": "load", "records": records})
    assert loaded["state"] == "FAILED"
    assert "this release of Kafka cannot read" in loaded["error"]["message"]


def test_4_0_rejects_all_records_of_share_groups_except_member_metadata(oracle_4_0: Oracle) -> None:
    """Tombstones count, too. They stay in the log for some time after the group is deleted."""
    records = [record for name in FOLDERS if name.startswith("share") for record in records_of(name)]
    keys = {record["key"][:4]: record["key"] for record in records if "000a" <= record.get("key", "")[:4] <= "000f"}
    assert len(keys) == 6
    for key in keys.values():
        oracle_4_0.call("config")
        assert oracle_4_0.call("load", records=[{"key": key, "value": None}])["state"] == "FAILED"
        loaded = Duel(oracle_4_0).ours.run({"op": "load", "records": [{"key": key, "value": None}]})
        assert "this release of Kafka cannot read" in loaded["error"]["message"]
    values = {
        record["key"][:4]: record
        for record in records
        if record.get("key") in keys.values() and record["value"] is not None
    }
    states = {}
    for kind, one in values.items():
        oracle_4_0.call("config")
        states[kind] = oracle_4_0.call("load", records=[one])["state"]
    assert [kind for kind, state in states.items() if state != "FAILED"] == ["000a"]


def test_4_0_skips_streams_groups(oracle_4_0: Oracle) -> None:
    name = next(name for name in FOLDERS if name.startswith("streams") and records_of(name))
    duel = Duel(oracle_4_0)
    duel.op("load", records=records_of(name))
    assert "Streams" not in {group["groupType"] for group in duel.request("ListGroups")["response"]["groups"]}
    assert sum(duel.ours.shard.state.skipped.values()) > 0


def test_4_0_resolves_regexes_again_for_new_topics_only(oracle_4_0: Oracle) -> None:
    duel = Duel(oracle_4_0)
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    body = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 60_000, "topicPartitions": []}
    duel.request("ConsumerGroupHeartbeat", 1, **body, subscribedTopicRegex="t.*")
    beat = {"groupId": "g", "memberId": "m", "memberEpoch": 1}
    beat["memberEpoch"] = duel.request("ConsumerGroupHeartbeat", 1, **beat)["response"]["memberEpoch"]
    for _ in range(16):
        duel.op("advance", ms=40_000)
        assert not duel.request("ConsumerGroupHeartbeat", 1, **beat)["records"]
    duel.op("image", topics=[*TOPICS, {"name": "t2", "id": "AAAAAAAAAAIAAAAAAAAAAg", "partitions": [[0]]}])
    assert duel.request("ConsumerGroupHeartbeat", 1, **beat)["records"]


def test_4_0_deletes_offsets_of_the_partitions_that_a_deleted_topic_had(oracle_4_0: Oracle) -> None:
    duel = Duel(oracle_4_0)
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    partitions = [{"partitionIndex": number, "committedOffset": 5} for number in (9, 2, 0)]
    topics = [{"name": name, "partitions": partitions} for name in ("t", "other")]
    duel.request("OffsetCommit", 9, groupId="g", generationIdOrMemberEpoch=-1, topics=topics)
    assert len(duel.op("image", topics=[])["records"]) == 2


def test_4_0_has_metadata_version_minus_one_without_an_image(oracle_4_0: Oracle) -> None:
    duel = Duel(oracle_4_0)
    body = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 60_000, "topicPartitions": []}
    reply = duel.request("ConsumerGroupHeartbeat", 1, **body, subscribedTopicRegex="t.*")
    assert [one.value.version for one in written(reply) if hasattr(one.value, "version")] == [-1]
