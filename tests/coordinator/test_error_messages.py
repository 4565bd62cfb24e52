"""Error responses have a message if they have a field for it, except for errors of the server.

The texts are Kafka's: the differential tests compare them.
"""

from typing import Any

import pytest

from quorate.codecs.api.error_codes import ErrorCode
from tests.differential.shard_side import ShardSide

GROUP = {"groupId": "g", "memberId": "m1"}


def send(side: ShardSide, api: str, **body: Any) -> dict[str, Any]:
    response: dict[str, Any] = side.run({"op": "request", "api": api, "version": 1, "body": GROUP | body})["response"]
    return response


@pytest.mark.parametrize("api", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_rejected_heartbeat_has_a_message(api: str) -> None:
    response = send(ShardSide(), api, memberEpoch=5)
    assert response["errorCode"] != 0
    kind = "Consumer" if api == "ConsumerGroupHeartbeat" else "Share"
    assert response["errorMessage"] == f"{kind} group g not found."


@pytest.mark.parametrize("api", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_failed_write_of_a_heartbeat_has_no_message(api: str) -> None:
    side = ShardSide()
    side.run({"op": "failNextAppend", "error": "NOT_ENOUGH_REPLICAS"})
    joins: dict[str, Any] = {"memberEpoch": 0, "subscribedTopicNames": ["t"]}
    if api == "ConsumerGroupHeartbeat":
        joins |= {"rebalanceTimeoutMs": 5000, "topicPartitions": []}
    rejected = send(side, api, **joins)
    assert (rejected["errorCode"], rejected["errorMessage"]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert send(side, api, **joins)["errorMessage"] is None


def test_responses_without_a_message_field_have_only_the_code() -> None:
    response = ShardSide().run({"op": "request", "api": "Heartbeat", "version": 4, "body": {"groupId": "g"}})[
        "response"
    ]
    assert response["errorCode"] != 0
    assert "errorMessage" not in response
