"""The response to a stable member equals that of the full handler."""

from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from quorate.codecs.messages.consumer_group import ClassicMemberMetadata
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.consumer import heartbeat
from quorate.coordinator.consumer.leaving import SESSIONS
from quorate.coordinator.consumer.records import member_metadata
from quorate.coordinator.consumer.stable_heartbeat import stable_member_result
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.sessions import session_timer
from quorate.coordinator.state.consumer import ConsumerGroup
from tests.coordinator.consumer.test_consumer_properties import Watched
from tests.coordinator.consumer_scripts import History
from tests.differential.shard_side import ShardSide

STEPS = 120


class Compared:
    """Runs both handlers. `handled`: number of heartbeats that the short handler responded to."""

    def __init__(self) -> None:
        self.handled = 0

    def __call__(
        self, shard: GroupCoordinatorShard, request: ConsumerGroupHeartbeatRequest, context: RequestContext
    ) -> Result[ConsumerGroupHeartbeatResponse] | None:
        result = stable_member_result(shard, request, context)
        if result is not None:
            self.handled += 1
            timers = [(timer.key, timer.at_ms, timer.retry_ms) for timer in shard.timers.pending()]
            tasks = list(shard.tasks)
            whole = heartbeat._beat(shard, request, context)
            assert replace(whole, records=tuple(whole.records)) == result
            assert [(timer.key, timer.at_ms, timer.retry_ms) for timer in shard.timers.pending()] == timers
            assert list(shard.tasks) == tasks
        return result


@pytest.mark.parametrize("version", [None, "4.2.0", "4.0.2"])
def test_stable_member_result_equals_that_of_the_full_handler(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared()
    monkeypatch.setattr(heartbeat, "stable_member_result", compared)
    for seed in range(10):
        watched = Watched()
        watched.side = ShardSide(version)
        History(Random(seed), watched, regexes=0.2, statics=0.2).run(STEPS)
    assert compared.handled > 30, "members become stable"


NOW_MS = 1_000_000
CONTEXT = RequestContext(api_version=1, now_ms=NOW_MS, client_id="c")
TOPIC = TopicImage(name="t", id=Uuid(bytes(15) + b"\1"), replicas=((1,),))


class Settled:
    """A group with one member, which has reached its target."""

    def __init__(self, config: CoordinatorConfig | None = None, **announced: Any) -> None:
        image = MetadataImage.EMPTY.with_brokers({1: None}).with_topics([TOPIC])
        self.shard = GroupCoordinatorShard(config, image=image, new_id=uuid4)
        self.runtime = PartitionRuntime(self.shard, MemoryLog(), now_ms=NOW_MS)
        first = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=5_000, topic_partitions=(), **announced
        )
        joined = self.runtime.request(first, CONTEXT).response
        assert joined is not None
        self.beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=joined.member_epoch)
        self.runtime.request(self.beat, CONTEXT)  # the metadata hash of a new group is computed once more

    def response(self, context: RequestContext = CONTEXT, **changed: Any) -> ConsumerGroupHeartbeatResponse | None:
        result = stable_member_result(self.shard, replace(self.beat, **changed), context)
        if result is None:
            return None
        assert isinstance(result.response, ConsumerGroupHeartbeatResponse)
        return result.response


NAMED: dict[str, Any] = {"subscribed_topic_names": ("t",)}


def test_stable_member_extends_its_session() -> None:
    settled = Settled(**NAMED)
    later = replace(CONTEXT, now_ms=NOW_MS + 10_000)
    reply = settled.response(later)
    assert reply == ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=2, heartbeat_interval_ms=5_000)
    assert [timer.at_ms for timer in settled.shard.timers.pending() if "session" in timer.key] == [NOW_MS + 55_000]
    assert settled.response(later, topic_partitions=()) == reply


def test_a_session_that_was_replaced_or_cancelled_starts_again() -> None:
    settled = Settled(**NAMED)
    timers, key = settled.shard.timers, session_timer("g", "m")
    assert settled.response() is not None
    replaced = SESSIONS.start(settled.shard, "g", "m", NOW_MS, 1_000)
    assert settled.response() is not None
    assert replaced.at_ms == NOW_MS + 45_000
    timers.cancel(key)
    assert settled.response() is not None
    assert key in timers
    settled.runtime.advance(NOW_MS + 45_000)
    assert settled.shard.state.groups["g"].is_empty


@pytest.mark.parametrize(
    "changed",
    [
        {"member_epoch": 0},
        {"member_epoch": 1},
        {"member_epoch": -1},
        {"rebalance_timeout_ms": 6_000},
        {"subscribed_topic_names": ("u",)},
        {"subscribed_topic_regex": "t.*"},
        {"instance_id": "i"},
        {"rack_id": "a"},
        {"server_assignor": "range"},
        {"group_id": "h"},
        {"member_id": "n"},
    ],
    ids=str,
)
def test_heartbeat_with_other_fields_uses_the_full_handler(changed: dict[str, Any]) -> None:
    settled = Settled(**NAMED)
    assert settled.response() is not None
    assert settled.response(**changed) is None


@pytest.mark.parametrize("other", [{"client_id": "d"}, {"client_host": "/1.2.3.4"}], ids=["id", "host"])
def test_changed_client_uses_the_full_handler(other: dict[str, str]) -> None:
    settled = Settled(**NAMED)
    assert settled.response() is not None
    assert settled.response(replace(CONTEXT, **other)) is None


def test_regexes_and_plug_ins_use_the_full_handler() -> None:
    assert Settled(subscribed_topic_regex="t").response() is None
    assert Settled(CoordinatorConfig(group_consumer_client_assignors_enable=True), **NAMED).response() is None


def test_changed_topics_use_the_full_handler() -> None:
    settled = Settled(**NAMED)
    assert settled.response() is not None
    settled.runtime.take_image(settled.shard.image.with_topics([replace(TOPIC, replicas=((1,), (1,)))]))
    assert settled.response() is None


def test_classic_member_uses_the_full_handler() -> None:
    settled = Settled(**NAMED)
    assert settled.response() is not None
    group = settled.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    classic = ClassicMemberMetadata(session_timeout_ms=10_000, supported_protocols=())
    metadata = replace(group.members["m"].metadata, classic_member_metadata=classic)
    settled.shard.replay(member_metadata("g", "m", metadata))
    assert settled.response() is None


def test_outdated_target_uses_the_full_handler() -> None:
    settled = Settled(CoordinatorConfig(group_consumer_assignment_interval_ms=1_000), **NAMED)
    other = replace(
        settled.beat, member_id="n", member_epoch=0, rebalance_timeout_ms=5_000, topic_partitions=(), **NAMED
    )
    settled.runtime.request(other, CONTEXT)
    group = settled.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert group.epoch > group.assignment_epoch == group.members["m"].epoch
    assert settled.response() is None
