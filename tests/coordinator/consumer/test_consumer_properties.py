"""Invariants of consumer groups, checked after each step of random histories."""

from random import Random
from typing import Any

import pytest

from quorate.codecs import Uuid, decode_record
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.consumer.reconcile import TRANSITIONS
from quorate.coordinator.log import StoredRecord
from quorate.coordinator.state import ConsumerGroup, ConsumerMember, CoordinatorState, MemberState
from tests.coordinator.consumer_scripts import History
from tests.differential.shard_side import ShardSide

STEPS = 80


def described(state: CoordinatorState) -> dict[str, Any]:
    """Return the consumer groups as in the log, in Kafka's order."""
    return {
        group_id: {
            "epochs": (group.epoch, group.assignment_epoch, group.assignment_timestamp_ms, group.metadata_hash),
            "members": list(group.members.ordered()),
            "targets": list(group.targets.ordered()),
            "regexes": list(group.regexes.ordered()),
            "static": group.static_members,
            "owners": group.partition_epochs.by_topic(),
            "topics": dict(group.topic_subscribers),
            "expressions": list(group.regex_subscribers.ordered()),
            "votes": dict(group.assignor_votes),
            "alike": group.is_homogeneous,
            "plain": group.all_plain,
        }
        for group_id, group in state.groups.ordered()
        if isinstance(group, ConsumerGroup)
    }


class Watched:
    """Runs our side alone, and checks the invariants after each step."""

    def __init__(self) -> None:
        self.side = ShardSide()
        self.epochs: dict[str, tuple[int, int]] = {}
        self.moves: set[tuple[MemberState, MemberState]] = set()
        self._before: dict[tuple[str, str], ConsumerMember] = {}
        self.replayed = CoordinatorState(self.side.shard.behaviour)
        self._read = 0

    def op(self, op: str, **fields: Any) -> dict[str, Any]:
        fresh = op in ("config", "new", "load", "reload")
        reply = {"id": 0, **self.side.run({"op": op, "id": 0, **fields})}
        if fresh:
            self.replayed, self._read = CoordinatorState(self.side.shard.behaviour), 0
            if op != "reload":
                self.epochs, self._before = {}, {}
        self.check_invariants()
        return reply

    def request(
        self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any
    ) -> dict[str, Any]:
        return self.op("request", api=api, version=version, clientId=client_id, body=body)

    def check_invariants(self) -> None:
        for stored in self.side.log.stored[self._read :]:
            assert isinstance(stored, StoredRecord)
            self.replayed.replay(stored.record, offset=stored.offset, strict=True)
        self._read = len(self.side.log.stored)
        live = self.side.shard.state
        assert described(self.replayed) == described(live), "replay equals the live state"
        groups = {name: group for name, group in live.groups.items() if isinstance(group, ConsumerGroup)}
        self.epochs = {name: epochs for name, epochs in self.epochs.items() if name in groups}
        for name, group in groups.items():
            before = self.epochs.get(name, (0, 0))
            assert (group.epoch, group.assignment_epoch) >= before, "epochs never decrease"
            assert group.assignment_epoch <= group.epoch
            self.epochs[name] = group.epoch, group.assignment_epoch
            self._check_members(name, group)
        self._before = {
            (name, member_id): member for name, group in groups.items() for member_id, member in group.members.items()
        }

    def _check_members(self, name: str, group: ConsumerGroup) -> None:
        metadata = [member.metadata for member in group.members.values()]
        assignors = {one.server_assignor for one in metadata} - {None}
        others = any(one.subscribed_topic_regex or one.classic_member_metadata is not None for one in metadata)
        assert group.all_plain == (not others and len(assignors) < 2)
        owner: dict[tuple[Any, int], str] = {}
        for member_id, member in group.members.items():
            assert member.epoch <= group.assignment_epoch
            assert (
                bool(member.pending_revocation) == (member.state is MemberState.UNREVOKED_PARTITIONS)
                or member.epoch < 0
            )
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        assert owner.setdefault((topic_id, partition), member_id) == member_id, "one owner"
                        assert group.partition_epoch(topic_id, partition) == member.epoch
            before = self._before.get((name, member_id))
            if before is not None and before.state is not member.state:
                self.moves.add((before.state, member.state))
        for topic_id, epochs in group.partition_epochs.by_topic().items():
            for partition in epochs:
                assert (topic_id, partition) in owner, "no stale owners"


@pytest.mark.parametrize("seed", range(12))
def test_partitions_have_one_owner_epochs_grow_and_replay_gives_the_same_state(seed: int) -> None:
    watched = Watched()
    History(Random(seed), watched).run(STEPS)
    assert all(after in TRANSITIONS[before] for before, after in watched.moves)


class Crashing(Watched):
    """Sometimes stops the coordinator after a write, so that the response is lost.

    Members continue with their state.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.rng = rng
        self.lost = 0

    def request(
        self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any
    ) -> dict[str, Any]:
        before = len(self.side.log.stored)
        reply = super().request(api, version, client_id=client_id, **body)
        if len(self.side.log.stored) == before or self.rng.random() < 0.7:
            return reply
        logged = described(self.side.shard.state)
        super().op("reload")
        assert described(self.side.shard.state) == logged, "written records count without a response"
        self.lost += 1
        return {**reply, "response": {"errorCode": ErrorCode.NOT_COORDINATOR}}


@pytest.mark.parametrize("seed", range(200, 208))
def test_invariants_hold_if_responses_are_lost_with_the_coordinator(seed: int) -> None:
    crashing = Crashing(Random(seed))
    History(Random(seed), crashing).run(STEPS)
    assert crashing.lost > 3


def test_retry_after_a_lost_response_has_the_same_result() -> None:
    """KIP-848: a member rejoins, or sends a full heartbeat, and receives a full response."""
    side = ShardSide()
    side.run({"op": "config", "group.consumer.assignment.interval.ms": 0})
    topic = {"name": "t0", "id": str(Uuid(bytes(15) + b"\1")), "partitions": [[0], [0]]}
    side.run({"op": "image", "brokers": [{"id": 0}], "topics": [topic]})

    def beat(epoch: int, **more: Any) -> dict[str, Any]:
        body = {"groupId": "g", "memberId": "m1", "memberEpoch": epoch, **more}
        reply = side.run({"op": "request", "api": "ConsumerGroupHeartbeat", "version": 1, "body": body})
        response: dict[str, Any] = reply["response"]
        return response

    joins: dict[str, Any] = {"rebalanceTimeoutMs": 5000, "subscribedTopicNames": ["t0"], "topicPartitions": []}
    lost = beat(0, **joins)
    side.run({"op": "reload"})
    again = beat(0, **joins)
    assert (again["memberEpoch"], again["assignment"]) == (lost["memberEpoch"], lost["assignment"])
    side.run({"op": "image", "topics": [{**topic, "partitions": [[0], [0], [0]]}]})
    lost = beat(again["memberEpoch"])
    assert lost["memberEpoch"] == again["memberEpoch"] + 1
    side.run({"op": "reload"})
    repeated = beat(again["memberEpoch"], **{**joins, "topicPartitions": again["assignment"]["topicPartitions"]})
    assert (repeated["memberEpoch"], repeated["assignment"]) == (lost["memberEpoch"], lost["assignment"])


@pytest.mark.parametrize("seed", range(100, 108))
def test_compacted_log_gives_the_same_state(seed: int) -> None:
    watched = Watched()
    History(Random(seed), watched).run(STEPS)
    latest: dict[str, dict[str, Any]] = {}  # also tombstones, which are kept for some time
    for record in watched.op("log")["records"]:
        latest.pop(record["key"], None)
        latest[record["key"]] = record
    for kept in (latest.values(), [one for one in latest.values() if one["value"] is not None]):
        compacted = CoordinatorState()
        for one in kept:
            value = None if one["value"] is None else bytes.fromhex(one["value"])
            compacted.replay(decode_record(bytes.fromhex(one["key"]), value), strict=True)
        assert content(compacted) == content(watched.side.shard.state)


def content(state: CoordinatorState) -> dict[str, Any]:
    """Return the groups without order, and without instance ids of removed members."""
    return {
        group_id: {
            **group,
            "members": dict(group["members"]),
            "targets": dict(group["targets"]),
            "regexes": dict(group["regexes"]),
            "expressions": dict(group["expressions"]),
            "static": {name: one for name, one in group["static"].items() if one in dict(group["members"])},
            "alike": None,
        }
        for group_id, group in described(state).items()
    }
