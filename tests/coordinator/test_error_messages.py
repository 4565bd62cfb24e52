"""An answer that is an error says what is wrong, where it has a field for that.

The texts are ours, so the differential tests leave them out.
"""

from typing import Any

import pytest

from tests.differential.shard_side import ShardSide

GROUP = {"groupId": "g", "memberId": "m1"}


def asked(side: ShardSide, api: str, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = side.run({"op": "request", "api": api, "version": 1, "body": GROUP | body})["response"]
    return answer


@pytest.mark.parametrize("api", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_a_heartbeat_that_is_refused_says_why(api: str) -> None:
    answer = asked(ShardSide(), api, memberEpoch=5)
    assert answer["errorCode"] != 0
    assert "group g" in answer["errorMessage"]


@pytest.mark.parametrize("api", ["ConsumerGroupHeartbeat", "ShareGroupHeartbeat"])
def test_a_heartbeat_that_could_not_be_written_says_so(api: str) -> None:
    side = ShardSide()
    side.run({"op": "failNextAppend", "error": "NOT_ENOUGH_REPLICAS"})
    joins: dict[str, Any] = {"memberEpoch": 0, "subscribedTopicNames": ["t"]}
    if api == "ConsumerGroupHeartbeat":
        joins |= {"rebalanceTimeoutMs": 5000, "topicPartitions": []}
    refused = asked(side, api, **joins)
    assert refused["errorMessage"] == "the coordinator could not write to its log"
    assert asked(side, api, **joins)["errorMessage"] is None


def test_answers_without_a_field_for_it_have_the_code_alone() -> None:
    answer = ShardSide().run({"op": "request", "api": "Heartbeat", "version": 4, "body": {"groupId": "g"}})["response"]
    assert answer["errorCode"] != 0
    assert "errorMessage" not in answer
