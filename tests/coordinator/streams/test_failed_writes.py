"""What a failed write leaves in a streams group: nothing, as in Kafka (histories compare it)."""

from typing import Any

import pytest

from tests.coordinator.streams_scripts import NO_TASKS
from tests.differential.shard_side import ShardSide

Json = dict[str, Any]

TOPIC = {"name": "t0", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": [[0], [0]]}
SUBTOPOLOGY = {"subtopologyId": "0", "sourceTopics": ["t0"]}


class Side(ShardSide):
    """A shard with a topic and short ways to send heartbeats."""

    def __init__(self) -> None:
        super().__init__()
        at_once = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
        self.run({"op": "config", **at_once})
        self.run({"op": "image", "brokers": [{"id": 0}], "topics": [TOPIC]})

    def beat(self, member_id: str, member_epoch: int, **body: Any) -> Json:
        request = {"groupId": "g", "memberId": member_id, "memberEpoch": member_epoch, **body}
        ran = self.run({"op": "request", "api": "StreamsGroupHeartbeat", "version": 1, "body": request})
        response: Json = ran["response"]
        return response

    def join(self, member_id: str, process_id: str, **body: Any) -> Json:
        topology = {"epoch": 0, "subtopologies": [SUBTOPOLOGY]}
        joins = {"rebalanceTimeoutMs": 60_000, "topology": topology, "processId": process_id, **NO_TASKS}
        return self.beat(member_id, 0, **joins, **body)

    def fail_next(self) -> None:
        self.run({"op": "failNextAppend", "error": "NOT_ENOUGH_REPLICAS"})


@pytest.fixture
def side() -> Side:
    return Side()


def test_the_target_of_a_member_whose_join_failed_is_not_that_of_the_next_one(side: Side) -> None:
    """Found by random histories: the next member got no tasks until something else changed."""
    side.join("m1", "p1", instanceId="i1")
    side.run({"op": "advance", "ms": 45_000})  # the group is empty, and keeps its topology
    side.fail_next()
    assert side.join("m2", "p2")["errorCode"]
    assert side.join("m3", "p3")["activeTasks"] == [{"subtopologyId": "0", "partitions": [0, 1]}]


def test_an_endpoint_that_was_not_written_is_not_reported(side: Side) -> None:
    epoch = side.join("m1", "p1", userEndpoint={"host": "old", "port": 1})["memberEpoch"]
    side.fail_next()
    assert side.beat("m1", epoch, userEndpoint={"host": "new", "port": 2})["errorCode"]
    (reported,) = side.beat("m1", epoch, endpointInformationEpoch=-1)["partitionsByUserEndpoint"]
    assert reported["userEndpoint"]["host"] == "old"


def test_a_failed_write_keeps_the_topology_as_of_the_last_write(side: Side) -> None:
    epoch = side.join("m1", "p1")["memberEpoch"]
    written = side.shard.state.groups["g"].configured  # type: ignore[attr-defined]
    side.run({"op": "image", "brokers": [{"id": 0}], "topics": [TOPIC | {"partitions": [[0]] * 3}]})
    side.fail_next()
    assert side.beat("m1", epoch)["errorCode"]
    assert side.shard.state.groups["g"].configured is written  # type: ignore[attr-defined]
    assert side.beat("m1", epoch)["activeTasks"] == [{"subtopologyId": "0", "partitions": [0, 1, 2]}]
