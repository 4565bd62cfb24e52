"""Scenarios of consumer groups that random histories rarely reach."""

from random import Random
from typing import Any

import pytest

from quorate.codecs import Uuid, encode_record
from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.messages.consumer_group import TopicMetadata, TopicPartition, TopicPartitions
from quorate.codecs.record_model import CoordinatorRecord
from tests.coordinator.scripts import Duel, beat, join
from tests.oracle.client import Oracle

T = Uuid(bytes(15) + b"\x01")
TOPICS = [{"name": "t", "id": str(T), "partitions": [[0], [1], [0]]}]
BROKERS = [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}]


@pytest.fixture
def duel(oracle: Oracle) -> Duel:
    made = Duel(oracle)
    made.op("config", **{"group.consumer.assignment.interval.ms": 0})
    made.op("image", brokers=BROKERS, topics=TOPICS)
    return made


def partitions(response: dict[str, Any]) -> list[int]:
    return [partition for topic in response["assignment"]["topicPartitions"] for partition in topic["partitions"]]


def owns(*owned: int) -> dict[str, Any]:
    return {"topicPartitions": [{"topicId": str(T), "partitions": list(owned)}] if owned else []}


def test_second_member_is_assigned_partitions_after_their_revocation(duel: Duel) -> None:
    assert partitions(join(duel, "m1")) == [0, 1, 2]
    assert partitions(join(duel, "m2")) == []
    assert partitions(beat(duel, "m1", 2)) == [0, 1]
    assert beat(duel, "m2", 3)["assignment"] is None
    assert beat(duel, "m1", 2, **owns(0, 1))["memberEpoch"] == 3
    assert partitions(beat(duel, "m2", 3)) == [2]


def test_member_that_does_not_revoke_partitions_in_time_is_fenced(duel: Duel) -> None:
    join(duel, "m1")
    join(duel, "m2")
    beat(duel, "m1", 2)
    assert duel.op("advance", ms=4999)["records"] == []
    removed = duel.op("advance", ms=1)["records"]
    assert [one["key"][:4] for one in removed] == ["0008", "0007", "0005", "0003"]
    assert beat(duel, "m1", 2)["errorCode"] == 25


def test_session_timeout_fences_a_member_and_restarts_with_a_load(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("advance", ms=44_999)
    duel.op("reload")
    assert duel.op("advance", ms=44_999)["records"] == []
    assert len(duel.op("advance", ms=1)["records"]) == 5


def test_rejoining_static_member_keeps_its_assignment_and_the_epoch(duel: Duel) -> None:
    join(duel, "m1", instanceId="i")
    join(duel, "m2")
    assert beat(duel, "m1", -2, instanceId="i")["types"] == ["0008"]
    back = join(duel, "again", instanceId="i")
    assert back["types"][:6] == ["0008", "0007", "0005", "0005", "0007", "0008"]
    assert "0003" not in back["types"]


def test_active_static_member_is_not_replaced(duel: Duel) -> None:
    join(duel, "m1", instanceId="i")
    assert join(duel, "m2", instanceId="i")["errorCode"] == 111
    assert beat(duel, "m2", 2, instanceId="i")["errorCode"] == 82


def test_member_that_takes_over_an_instance_id_leaves_its_partitions_unassigned(duel: Duel) -> None:
    """Kafka's map of owners still contains its previous partitions.

    Member "first" rejoins with the instance id of "second", which left temporarily.
    """
    duel.op("image", topics=[{**TOPICS[0], "partitions": [[0], [1], [0], [1]]}])
    assert partitions(join(duel, "first", instanceId="i")) == [0, 1, 2, 3]
    join(duel, "second", instanceId="j")
    assert partitions(beat(duel, "first", 2)) == [0, 1]
    beat(duel, "first", 2, **owns(0, 1))
    assert partitions(beat(duel, "second", 3)) == [2, 3]
    beat(duel, "second", -2, instanceId="j")
    # Another subscription leads to a new target.
    assert partitions(join(duel, "first", instanceId="j", subscribedTopicNames=["t", "other"])) == [2, 3]
    duel.op("image", topics=[{**TOPICS[0], "partitions": [[0]] * 5}])
    assert partitions(beat(duel, "first", 4)) == [0, 1, 2, 3, 4]


def test_version_0_generates_member_ids(duel: Duel) -> None:
    reply = duel.request(
        "ConsumerGroupHeartbeat",
        0,
        groupId="g",
        memberEpoch=0,
        rebalanceTimeoutMs=5000,
        subscribedTopicNames=["t"],
        topicPartitions=[],
    )
    assert len(Uuid.parse(reply["response"]["memberId"])) == 16


def test_new_partitions_and_deleted_topics_reach_the_group_with_the_next_heartbeat(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("image", topics=[{**TOPICS[0], "partitions": [[0], [1], [0], [1]]}])
    assert partitions(beat(duel, "m1", 2)) == [0, 1, 2, 3]
    duel.op("image", topics=[])
    assert beat(duel, "m1", 3)["types"][0] == "0003"


def test_changed_rack_is_noticed_with_a_topic_change_or_a_load(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("image", brokers=[{"id": 0, "rack": "z"}, {"id": 1, "rack": "b"}])
    assert beat(duel, "m1", 2)["types"] == []
    duel.op("reload")
    assert beat(duel, "m1", 2)["types"] == ["0003", "0006", "0008"]


def old_log() -> list[CoordinatorRecord]:
    """Return Kafka 4.0's records of a group with one member.

    They have no hash, timestamps or assignment epochs, but a record of type 4.
    """
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=("t",),
        subscribed_topic_regex="",
        rebalance_timeout_ms=5000,
        server_assignor=None,
        classic_member_metadata=None,
    )
    owned = TopicPartitions(topic_id=T, partitions=(0, 1, 2))
    pairs: list[tuple[Any, Any]] = [
        (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m1"), metadata),
        (
            ConsumerGroupPartitionMetadataKey(group_id="g"),
            ConsumerGroupPartitionMetadataValue(
                topics=(TopicMetadata(topic_id=T, topic_name="t", num_partitions=3, partition_metadata=()),)
            ),
        ),
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=7)),
        (
            ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m1"),
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=(TopicPartition(topic_id=T, partitions=(0, 1, 2)),)
            ),
        ),
        (
            ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=7),
        ),
        (
            ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m1"),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=7,
                previous_member_epoch=6,
                state=0,
                assigned_partitions=(owned,),
                partitions_pending_revocation=(),
            ),
        ),
    ]
    return [CoordinatorRecord(key=key, value=value, version=0) for key, value in pairs]


def test_group_of_an_older_broker_stores_its_hash_once_and_keeps_its_assignment(duel: Duel) -> None:
    """KIP-1101: the record of type 4 is deleted in the same batch."""
    records = []
    for record in old_log():
        key, value = encode_record(record)
        records.append({"key": key.hex(), "value": None if value is None else value.hex()})
    duel.op("load", records=records)
    first = beat(duel, "m1", 7)
    assert first["types"] == ["0003", "0004", "0006", "0008"]
    assert (first["memberEpoch"], first["assignment"]) == (8, None)
    assert beat(duel, "m1", 8)["types"] == []


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "MESSAGE_TOO_LARGE"])
def test_failed_write_changes_nothing(duel: Duel, error: str) -> None:
    join(duel, "m1")
    duel.op("failNextAppend", error=error)
    assert join(duel, "m2")["errorCode"] != 0
    assert join(duel, "m2")["memberEpoch"] == 3
    duel.op("failNextAppend", error=error)
    assert beat(duel, "m1", -1)["errorCode"] != 0
    assert partitions(beat(duel, "m1", 2)) == [0, 1]


def test_removal_is_retried_after_a_failed_write(duel: Duel) -> None:
    join(duel, "m1")
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    assert duel.op("advance", ms=45_000)["records"] == []
    assert len(duel.op("advance", ms=2000)["records"]) == 5


def test_member_whose_leave_failed_has_no_session_until_its_next_heartbeat(duel: Duel) -> None:
    """Kafka cancels the timers before it writes, and does not set them again."""
    join(duel, "m1")
    duel.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
    beat(duel, "m1", -1)
    assert not [timer for timer in duel.op("timers")["timers"] if "m1" in timer["key"]]
    assert duel.op("advance", ms=100_000)["records"] == []
    assert beat(duel, "m1", 2)["errorCode"] == 0
    assert len(duel.op("advance", ms=45_000)["records"]) == 5


def test_regexes_are_resolved_later_and_again_for_new_topics(oracle: Oracle) -> None:
    duel = Duel(oracle)
    duel.op("config", executor="manual", **{"group.consumer.assignment.interval.ms": 0})
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    assert join(duel, "m1", subscribedTopicNames=[], subscribedTopicRegex="[tu]")["memberEpoch"] == 1
    assert len(duel.op("runTasks")["records"]) == 2
    assert partitions(beat(duel, "m1", 1)) == [0, 1, 2]
    more = {"name": "u", "id": str(Uuid(bytes(15) + b"\x02")), "partitions": [[0]]}
    duel.op("image", topics=[*TOPICS, more])
    beat(duel, "m1", 2)
    assert duel.op("runTasks")["ran"] == 0, "they were matched less than ten seconds ago"
    duel.op("advance", ms=10_001)
    beat(duel, "m1", 2)
    assert len(duel.op("runTasks")["records"]) == 2
    assert len(partitions(beat(duel, "m1", 2))) == 4


def test_a_group_that_only_has_offsets_becomes_a_consumer_group(duel: Duel) -> None:
    committed = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}
    duel.request("OffsetCommit", 9, groupId="g", topics=[{"name": "t", "partitions": [committed]}])
    assert join(duel, "m1")["types"][0] == "0002"
    listed = duel.request("ListGroups", 5)["response"]["groups"]
    assert [(one["groupId"], one["groupType"]) for one in listed] == [("g", "consumer")]


def test_groups_of_another_kind_are_not_found(duel: Duel) -> None:
    join(duel, "m1")
    described = duel.request("DescribeGroups", 6, groups=["g"])["response"]["groups"][0]
    assert described["errorCode"] == 69
    assert beat(duel, "m1", -1)["errorCode"] == 0
    assert beat(duel, "m1", 3)["errorCode"] == 25


def test_full_group_rejects_new_members(oracle: Oracle) -> None:
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.max.size": 2})
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    assert [join(duel, member)["errorCode"] for member in ("m1", "m2", "m3", "m1")] == [0, 0, 81, 0]


def test_group_configs_apply_to_one_group(duel: Duel) -> None:
    duel.op("groupConfig", group="g", configs={"consumer.session.timeout.ms": 60_000})
    assert join(duel, "m1")["heartbeatIntervalMs"] == 5000
    duel.op("groupConfig", group="g", configs={"consumer.heartbeat.interval.ms": 9000})
    assert beat(duel, "m1", 2)["heartbeatIntervalMs"] == 9000
    sessions = [timer["atMs"] for timer in duel.op("timers")["timers"] if timer["key"] == "session-timeout-g-m1"]
    assert sessions == [1_700_000_045_000]


def test_latest_vote_breaks_a_tie_between_assignors(duel: Duel) -> None:
    join(duel, "m1", serverAssignor="uniform")
    join(duel, "m2", serverAssignor="range")
    join(duel, "m3")
    join(duel, "m4", serverAssignor="uniform")


def test_assignment_of_an_unreleased_member_is_in_the_order_of_its_map(oracle: Oracle) -> None:
    """A copy of a map with partitions 5 to 8 has eight buckets, so 8 comes first."""
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.assignment.interval.ms": 0, "group.consumer.assignors": ["range"]})
    more = {"name": "u", "id": str(Uuid(bytes(15) + b"\x02")), "partitions": 2}
    duel.op("image", brokers=BROKERS, topics=[{**TOPICS[0], "partitions": 9}, more])
    join(duel, "a", subscribedTopicNames=["t", "u"])
    join(duel, "b")
    beat(duel, "a", 2)
    beat(duel, "a", 2, **owns(0, 1, 2, 3, 4))
    assert partitions(beat(duel, "b", 3)) == [5, 6, 7, 8]
    full = {"rebalanceTimeoutMs": 5000, "subscribedTopicNames": ["t", "u"], **owns(5, 6, 7, 8)}
    beat(duel, "b", 3, **full)
    assert beat(duel, "b", 4, **full)["types"] == ["0008"]  # previous epoch = epoch
    again = beat(duel, "b", 4, **full)
    assert (again["types"], partitions(again)) == ([], [8, 5, 6, 7])


def test_many_members_and_partitions_are_assigned_as_by_kafka(oracle: Oracle) -> None:
    """Java's tables grow at these sizes: 30 members, 150 partitions, static members replaced."""
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.assignment.interval.ms": 0})
    ids = [str(Uuid(number.to_bytes(8, "big") * 2)) for number in range(1, 5)]
    topics = [{"name": f"t{number}", "id": ids[number], "partitions": 15 * (number + 1)} for number in range(4)]
    duel.op("image", brokers=BROKERS, topics=topics)
    names = [f"t{number}" for number in range(4)]
    epochs: dict[tuple[str, str | None], int] = {}
    for number in range(30):
        member, instance = f"member-{number}", f"i{number}" if number % 3 == 2 else None
        joined = join(duel, member, subscribedTopicNames=names[number % 3 :], instanceId=instance)
        if instance is not None:
            beat(duel, member, -2, instanceId=instance)
            member = f"again-{number}"
            joined = join(duel, member, subscribedTopicNames=names, instanceId=instance)
        epochs[member, instance] = joined["memberEpoch"]
    for _ in range(2):
        for member, instance in epochs:
            reported = beat(duel, member, epochs[member, instance], instanceId=instance, **owns())
            epochs[member, instance] = reported["memberEpoch"]
    duel.op("reload")
    duel.op("image", topics=topics[1:])
    for member, instance in list(epochs)[:5]:
        beat(duel, member, epochs[member, instance], instanceId=instance)


def words(text: str) -> list[str]:
    return text.split()


PIECES = words(
    r"""a b t x X orders 0 \. \- _ . ^ $ [a-z] [^a-z] [[:alpha:]] [[:^alpha:]] [[:foo:]]
    \d \W \s \b \B \A \z \Z \Q.\E \pL \p{Lu} \p{Greek} \PN \p{Foo}
    \x41 \x{61} \x \141 \1 \8 \_ \k \C \n []a] [] [a [z-a] [a-] [a-b-c] [\d-z] [\w.] [[a]
    [a&&b] [\]] [\b] [^\d] * + ? *? +? {2} {1,} {1,3} {,3} {3,1}
    {1001} { } ** *+ {2}{3} ( ) (?: (?i) (?i: (?-i) (?s) (?m) (?U) (?P<n> (?<n> (?= (?!
    (?<= (?> (?#c) (?i-s: (?x) (?) | () (|a)"""
)
NAMES = words("t0 t1 orders.eu orders.us a-long-name_4 x X foo123 T.0 a aa aaa b_b - ORDERS.EU 0 42")


def test_regexes_have_re2_semantics(oracle: Oracle) -> None:
    rng = Random(848)
    duel = Duel(oracle)
    ids = [str(Uuid(number.to_bytes(16, "big"))) for number in range(1, len(NAMES) + 1)]
    topics = [{"name": name, "id": topic, "partitions": 1} for name, topic in zip(NAMES, ids, strict=True)]
    duel.op("image", brokers=BROKERS, topics=topics)
    valid = 0
    for number in range(500):
        regex = "".join(rng.choices(PIECES, k=rng.randint(1, 6)))
        regex += rng.choice(["", ".*", ")" * max(0, regex.count("(") - regex.count(")"))])
        reply = duel.request(
            "ConsumerGroupHeartbeat",
            1,
            groupId=f"g{number}",
            memberId="m",
            memberEpoch=0,
            rebalanceTimeoutMs=1000,
            topicPartitions=[],
            subscribedTopicRegex=rng.choice(["", ".*"]) + regex,
        )
        valid += reply["response"]["errorCode"] == 0
    assert 100 < valid < 450


@pytest.mark.parametrize("count", [6, 7, 12, 13, 24, 25])
def test_topics_are_in_kafkas_order_if_map_copies_have_another_size(duel: Duel, count: int) -> None:
    """After revocations the other topics are copied to a map; its size depends on their number."""
    rng = Random(count)
    names = [f"topic-{number}" for number in range(count)]
    ids = [Uuid(rng.randbytes(16)) for _ in names]
    reported = [{"name": name, "id": str(one), "partitions": [[0]]} for name, one in zip(names, ids, strict=True)]
    duel.op("image", topics=reported)
    joined = join(duel, "m", subscribedTopicNames=names)
    assert len(joined["assignment"]["topicPartitions"]) == count
    owned = joined["assignment"]["topicPartitions"]
    for fewer in (names[2:], names[3:], []):
        beat(duel, "m", joined["memberEpoch"], subscribedTopicNames=fewer, topicPartitions=owned)
    duel.op("reload")
    beat(duel, "m", joined["memberEpoch"], subscribedTopicNames=names[4:], topicPartitions=[])


def test_a_clock_that_was_set_back_delays_the_next_target_assignment(oracle: Oracle) -> None:
    """KIP-1263 compares the wall clock with the time in the record of the last assignment.

    So after the coordinator moves to a broker whose clock shows a minute less, a member that left
    keeps its partitions for a minute.
    """
    duel = Duel(oracle)
    duel.op("config")
    duel.op("image", brokers=BROKERS, topics=TOPICS)
    now_ms = duel.op("timers")["now"]
    first = join(duel, "m1")
    assert partitions(first) == [0, 1, 2]
    duel.op("advance", ms=1000)
    second = join(duel, "m2")
    assert partitions(beat(duel, "m1", first["memberEpoch"])) == [0, 1]
    epoch = beat(duel, "m1", first["memberEpoch"], **owns(0, 1))["memberEpoch"]
    assert epoch == second["memberEpoch"]
    duel.op("reload", nowMs=now_ms - 60_000)
    beat(duel, "m2", -1)
    for _ in range(12):
        duel.op("advance", ms=5000)
        assert beat(duel, "m1", epoch)["assignment"] is None
    duel.op("advance", ms=5000)
    assert partitions(beat(duel, "m1", epoch)) == [0, 1, 2]
