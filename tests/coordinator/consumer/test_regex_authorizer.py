"""Regexes and the permission to describe topics, on Kafka's coordinator and ours."""

from typing import Any

import pytest

from quorate.codecs import decode_record
from quorate.codecs.messages.consumer_group import ConsumerGroupRegularExpressionValue
from tests.coordinator.consumer.test_consumer_groups import beat, join
from tests.coordinator.scripts import Duel, Json
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

ALICE, BOB = "User:alice", "User:bob"
SECONDS_11 = 11_000


@pytest.fixture
def duel(oracle: Oracle) -> Duel:
    made = Duel(oracle)
    made.op("config", **{"group.consumer.assignment.interval.ms": 0, "denied": {BOB: ["t-secret", "u-secret"]}})
    topics(made, "t-1", "t-secret", "u-1", "u-secret")
    return made


def topics(duel: Duel, *names: str) -> None:
    reported = [
        {"name": name, "id": f"AAAAAAAAAAAAAAAAAAAA{number}A", "partitions": 1} for number, name in enumerate(names)
    ]
    duel.op("image", topics=reported)


def send(duel: Duel, principal: str, member: str, epoch: int, **body: Any) -> Json:
    given = {"groupId": "g", "memberId": member, "memberEpoch": epoch, **body}
    return duel.op("request", api="ConsumerGroupHeartbeat", version=1, principal=principal, body=given)


def subscribe(duel: Duel, principal: str, member: str, regex: str) -> Json:
    return send(duel, principal, member, 0, rebalanceTimeoutMs=5000, subscribedTopicRegex=regex, topicPartitions=[])


def matched(duel: Duel) -> dict[str, list[str]]:
    """Return the topics of each regex as last written."""
    found = {}
    for one in duel.op("log")["records"]:
        if one["key"].startswith("0010"):
            record: Any = decode_record(bytes.fromhex(one["key"]), bytes.fromhex(one["value"]))
            assert isinstance(record.value, ConsumerGroupRegularExpressionValue)
            found[record.key.regular_expression] = list(record.value.topics)
    return found


def test_topics_without_describe_permission_are_not_matched(duel: Duel) -> None:
    subscribe(duel, BOB, "m1", "t-.*")
    assert matched(duel) == {"t-.*": ["t-1"]}
    subscribe(duel, ALICE, "m1", "t-.*")


def test_all_regexes_are_resolved_with_the_permissions_of_the_requesting_client(duel: Duel) -> None:
    """The client of the heartbeat that finds them due decides for the whole group."""
    subscribe(duel, ALICE, "m1", "t-.*")
    assert matched(duel) == {"t-.*": ["t-1", "t-secret"]}
    duel.op("advance", ms=SECONDS_11)
    subscribe(duel, BOB, "m2", "u-.*")
    assert matched(duel) == {"t-.*": ["t-1"], "u-.*": ["u-1"]}
    duel.op("advance", ms=SECONDS_11)
    subscribe(duel, ALICE, "m3", ".*-secret")
    assert matched(duel) == {
        "t-.*": ["t-1", "t-secret"],
        "u-.*": ["u-1", "u-secret"],
        ".*-secret": ["t-secret", "u-secret"],
    }


def test_refresh_with_fewer_permissions_revokes_partitions(duel: Duel) -> None:
    epoch = subscribe(duel, ALICE, "m1", "t-.*")["response"]["memberEpoch"]
    reported = send(duel, ALICE, "m1", epoch, topicPartitions=[])["response"]
    assert [len(topic_partition["partitions"]) for topic_partition in reported["assignment"]["topicPartitions"]] == [
        1,
        1,
    ]
    duel.op("advance", ms=SECONDS_11)
    topics(duel, "t-1", "t-secret", "u-1", "u-secret", "t-2")
    owned = reported["assignment"]["topicPartitions"]
    send(duel, BOB, "m1", reported["memberEpoch"], topicPartitions=owned)
    assert matched(duel) == {"t-.*": ["t-1", "t-2"]}
    after = send(duel, BOB, "m1", reported["memberEpoch"], topicPartitions=owned)["response"]
    assert len(after["assignment"]["topicPartitions"]) == 1


def test_permissions_of_a_joining_classic_member_apply_as_well(duel: Duel) -> None:
    subscribe(duel, ALICE, "m1", "t-.*")
    duel.op("advance", ms=SECONDS_11)
    topics(duel, "t-1", "t-secret", "u-1", "u-secret", "t-2")
    join_group = {"groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 10_000}
    protocols = [{"name": "range", "metadata": "AAAAAAABAAN0LTH/////"}]
    body = {**join_group, "protocolType": "consumer", "protocols": protocols, "groupInstanceId": "i"}
    duel.op("request", api="JoinGroup", version=9, principal=BOB, body=body)
    assert matched(duel) == {"t-.*": ["t-1", "t-2"]}


def test_subscribed_names_are_not_checked_by_the_coordinator(duel: Duel) -> None:
    """Permissions are checked before the coordinator handles the request."""
    assert join(duel, "m1", subscribedTopicNames=["t-secret"])["errorCode"] == 0
    assert beat(duel, "m1", 2)["errorCode"] == 0
