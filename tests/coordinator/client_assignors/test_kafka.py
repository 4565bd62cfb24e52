"""Kafka loads logs of groups with client-side assignors, and continues with its own assignors."""

from typing import Any

import pytest

from quorate.codecs import encode_record
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.tags import OWN_TAG
from quorate.coordinator.log import StoredRecord
from tests.coordinator.client_assignors.scene import ORDERS, Scene, installed
from tests.coordinator.scripts import Duel
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

BROKERS = [{"id": number, "rack": rack} for number, rack in enumerate("abc")]


def written() -> tuple[Scene, list[dict[str, Any]]]:
    """Return a group with a target and metadata that a member computed, and its log."""
    scene = Scene()
    scene.join("A", instance_id="a")
    scene.join("B")
    members = (installed("A", [0, 1, 2], metadata_version=2, metadata=b"for A"), installed("B", [3, 4, 5]))
    assert scene.install("A", {}, members=members) is ErrorCode.NONE
    scene.settle()
    scene.beat("B", client_assignors=scene.members["B"].assignors[:1] and ())
    scene.beat("B", client_assignors=scene.members["A"].assignors)
    assert scene.compute("B", metadata={"A": b"again"}) is ErrorCode.NONE
    scene.settle()
    records = []
    for stored in scene.log.stored:
        assert isinstance(stored, StoredRecord)
        key, value = encode_record(stored.record)
        records.append({"key": key and key.hex(), "value": value and value.hex()})
    return scene, records


def topics(scene: Scene) -> list[dict[str, Any]]:
    return [
        {"name": topic.name, "id": str(topic.id), "partitions": [list(replicas) for replicas in topic.replicas]}
        for topic in scene.image.topics.values()
    ]


def test_kafka_reads_plug_in_fields_as_unknown_tags(oracle: Oracle) -> None:
    _, records = written()
    tagged = {}
    for record in records:
        reported = oracle.call("decode", **record)
        assert "error" not in reported
        assert reported["rewritten"] == record["value"], "Kafka keeps them when it copies a record"
        if "unknownTags" in reported:
            assert [tag["tag"] for tag in reported["unknownTags"]] == [OWN_TAG]
            tagged[reported["type"]] = reported["v"]
    assert set(tagged) == {
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
    }


def test_kafka_loads_the_log_and_has_the_same_group(oracle: Oracle) -> None:
    scene, records = written()
    oracle.call("config")
    oracle.call("image", brokers=BROKERS, topics=topics(scene))
    loaded = oracle.call("load", records=records, nowMs=scene.runtime.now_ms)
    assert (loaded["state"], loaded.get("skipped", [])) == ("ACTIVE", [])
    (group,) = oracle.call("request", api="ConsumerGroupDescribe", body={"groupIds": ["g"]})["response"]["groups"]
    assert (group["groupState"], group["groupEpoch"], group["assignmentEpoch"]) == (
        scene.group.state,
        scene.group.epoch,
        scene.group.assignment_epoch,
    )
    for member in group["members"]:
        ((listed,), (target,)) = (
            [topic_partition["partitions"] for topic_partition in member[what]["topicPartitions"]]
            for what in ("assignment", "targetAssignment")
        )
        assert listed == target == scene.target(member["memberId"], ORDERS)


def test_kafka_continues_the_group_like_quorate_without_the_option(oracle: Oracle) -> None:
    """The server computes targets, also for members that still announce assignors."""
    scene, records = written()
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.assignment.interval.ms": 0})
    duel.op("image", brokers=BROKERS, topics=topics(scene))
    duel.op("load", records=records)
    epochs = {one: member.epoch for one, member in scene.members.items()}

    def beat(member_id: str, **more: Any) -> dict[str, Any]:
        named = {"instanceId": "a"} if member_id == "A" else {}
        body = {"groupId": "g", "memberId": member_id, "memberEpoch": epochs[member_id], **named, **more}
        response: dict[str, Any] = duel.request("ConsumerGroupHeartbeat", 1, **body)["response"]
        assert response["errorCode"] == 0
        epochs[member_id] = response["memberEpoch"]
        return response

    beat("A")
    beat("B")
    beat("A", rackId="b")  # rewrites its metadata without unknown fields
    joined = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["orders"], "topicPartitions": []}
    duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="C", memberEpoch=0, **joined)
    for _ in range(3):
        for member_id in "AB":
            owned = [number for number in scene.owns(member_id) if number % 3 != 2]
            beat(member_id, topicPartitions=[{"topicId": str(ORDERS), "partitions": owned}])
    duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="A", memberEpoch=-2, instanceId="a")
    duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="A2", memberEpoch=0, instanceId="a", **joined)
    duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="B", memberEpoch=-1)
    duel.op("reload")
    duel.op("advance", ms=50_000)


def test_static_member_that_rejoins_on_another_broker_has_no_plug_in_fields(oracle: Oracle) -> None:
    scene, records = written()
    duel = Duel(oracle)
    duel.op("image", brokers=BROKERS, topics=topics(scene))
    duel.op("load", records=records)
    joined = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["orders"], "topicPartitions": []}
    duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="A", memberEpoch=-2, instanceId="a")
    back = duel.request(
        "ConsumerGroupHeartbeat", 1, groupId="g", memberId="A2", memberEpoch=0, instanceId="a", **joined
    )
    assert len(back["records"]) > 5


def test_broker_without_the_plug_in_does_not_rewrite_unchanged_targets(oracle: Oracle) -> None:
    """This includes targets of members with client-side assignors."""
    scene, records = written()
    assert set(scene.target_metadata) == {"A"}
    duel = Duel(oracle)
    duel.op("config", **{"group.consumer.assignment.interval.ms": 0})
    duel.op("image", brokers=BROKERS, topics=topics(scene))
    duel.op("load", records=records)
    joined = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["clicks"], "topicPartitions": []}
    reply = duel.request("ConsumerGroupHeartbeat", 1, groupId="g", memberId="C", memberEpoch=0, **joined)
    assert [record["key"][:4] for record in reply["records"]] == ["0005", "0003", "0007", "0006", "0008"]
