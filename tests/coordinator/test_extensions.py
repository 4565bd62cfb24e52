"""A plug-in for consumer groups: a member can hold the target assignment."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar
from uuid import UUID

import pytest

from quorate.codecs import Uuid, decode_record, encode_record
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    decode_api,
    encode_api,
)
from quorate.codecs.api.consumer_group_describe import DescribedGroup
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message, message, tagged
from quorate.codecs.tags import OWN_TAG, Tags, read_tags, with_tags, written_tags
from quorate.codecs.wire import Bool, Int32
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog, StoredRecord
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import Addition, ConsumerGroupExtension, CoordinatorShard, Handler
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember

START_MS = 1_700_000_000_000
ORDERS = Uuid(bytes(15) + b"\x01")


@message(versions=range(1), flexible_since=0)
class Hold(Message):
    """Tagged field of heartbeats and member records: whether the member holds the target."""

    hold: Bool = tagged(OWN_TAG + 1, default=False)


@message(versions=range(1), flexible_since=0)
class Held(Message):
    """Tagged field of responses: the epoch whose target is not computed yet."""

    epoch: Int32 = tagged(OWN_TAG + 1, default=-1)


def is_holding(member: ConsumerMember) -> bool:
    return read_tags(Hold, member.metadata.unknown_tags).hold


def held_epoch(
    shard: CoordinatorShard, request: ConsumerGroupPrepareAssignmentRequest, context: RequestContext
) -> Result[ConsumerGroupPrepareAssignmentResponse]:
    """Return the epoch at which the group is held."""
    group = shard.state.groups[request.group_id]
    assert isinstance(group, ConsumerGroup)
    return Result(response=ConsumerGroupPrepareAssignmentResponse(group_epoch=group.attached["held"]))


class Holding(ConsumerGroupExtension):
    """Computes no target assignment while a member holds the current one."""

    def __init__(self) -> None:
        self.written = 0

    handlers: ClassVar[Mapping[type[Message], Handler]] = {ConsumerGroupPrepareAssignmentRequest: held_epoch}

    def member_tags(self, tags: Tags, request: ConsumerGroupHeartbeatRequest) -> Tags:
        return with_tags(tags, read_tags(Hold, request.unknown_tags))

    def computes_target(self, shard: CoordinatorShard, group: ConsumerGroup, member: ConsumerMember) -> bool:
        return any(map(is_holding, [*group.members.values(), member]))

    def assignment_tags(self, group: ConsumerGroup, member: ConsumerMember) -> Tags | None:
        return written_tags(Hold(hold=True)) if is_holding(member) else None

    def after_heartbeat(
        self,
        shard: CoordinatorShard,
        group: ConsumerGroup,
        member: ConsumerMember,
        *,
        target_epoch: int | None,
        now_ms: int,
        joining: bool,
    ) -> Addition:
        if target_epoch is None:
            return Addition()

        def written() -> None:
            self.written += 1
            found = shard.state.groups[group.group_id]
            assert isinstance(found, ConsumerGroup)
            found.attached["held"] = target_epoch

        return Addition(written_tags(Held(epoch=target_epoch)), written)

    def described(self, group: ConsumerGroup, described: DescribedGroup) -> DescribedGroup:
        return replace(described, assignor_name="held") if "held" in group.attached else described


class Scene:
    """A group "g" that subscribes to a topic with two partitions.

    Requests and responses are encoded and decoded.
    """

    def __init__(self, *extensions: ConsumerGroupExtension, log: MemoryLog | None = None, **config: Any) -> None:
        topic = TopicImage(name="orders", id=ORDERS, replicas=((0,), (0,)))
        settings = CoordinatorConfig(group_consumer_assignment_interval_ms=0, **config)
        self.shard = GroupCoordinatorShard(
            settings,
            image=MetadataImage.EMPTY.with_topics([topic]),
            new_id=lambda: UUID(int=0),
            extensions=extensions,
        )
        self.log = log or MemoryLog()
        self.runtime = PartitionRuntime(self.shard, self.log, now_ms=START_MS)
        self.runtime.load()
        self.epochs: dict[str, int] = {}

    def send(self, request: Message, version: int = 1) -> Any:
        sent = decode_api(type(request), encode_api(request, version), version)
        context = RequestContext(api_version=version, now_ms=START_MS, client_id="c", client_host="/h")
        response = self.runtime.request(sent, context).response
        return decode_api(type(response), encode_api(response, version), version)

    def beat(self, member_id: str, fields: Message | None = None, **more: Any) -> ConsumerGroupHeartbeatResponse:
        epoch = self.epochs.get(member_id, 0)
        joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",), "topic_partitions": ()}
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            unknown_tags=() if fields is None else written_tags(fields),
            **{**({} if epoch else joins), **more},
        )
        response: ConsumerGroupHeartbeatResponse = self.send(request)
        assert response.error_code == ErrorCode.NONE, response
        self.epochs[member_id] = response.member_epoch
        return response

    def count(self, member_id: str) -> int:
        group = self.shard.state.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return sum(map(len, group.members[member_id].assigned.values()))

    def assignor(self) -> str:
        (group,) = self.send(ConsumerGroupDescribeRequest(group_ids=("g",))).groups
        return str(group.assignor_name)


def test_plug_in_can_delay_the_target_assignment() -> None:
    holding = Holding()
    scene = Scene(holding)
    scene.beat("a")
    assert scene.count("a") == 2
    reply = scene.beat("b", Hold(hold=True))
    assert read_tags(Held, reply.unknown_tags).epoch == 3
    assert reply.assignment is not None
    assert read_tags(Hold, reply.assignment.unknown_tags).hold
    assert (scene.count("a"), scene.count("b"), scene.assignor(), holding.written) == (2, 0, "held", 1)
    assert scene.send(ConsumerGroupPrepareAssignmentRequest(group_id="g"), 0).group_epoch == 3
    assert scene.beat("a").assignment is None

    scene.beat("b", Hold(hold=False))  # a changed field: the epoch is incremented, the server assigns
    (owned,) = (scene.beat("a").assignment or pytest.fail("nothing to revoke")).topic_partitions
    assert len(owned.partitions) == 1
    scene.beat("a", topic_partitions=(TopicPartitions(topic_id=ORDERS, partitions=owned.partitions),))
    scene.beat("b")
    assert (scene.count("a"), scene.count("b")) == (1, 1)


def test_tagged_fields_of_a_plug_in_survive_a_load() -> None:
    scene = Scene(Holding())
    scene.beat("a", Hold(hold=True))
    scene.shard = Scene(Holding(), log=scene.log).shard
    group = scene.shard.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert is_holding(group.members["a"])


def test_plug_ins_are_called_in_the_given_order() -> None:
    first, second = Holding(), Holding()
    scene = Scene(first, second)
    scene.beat("a", Hold(hold=True))
    assert (first.written, second.written) == (1, 0)
    enabled = Scene(first, group_consumer_client_assignors_enable=True)
    assert [type(extension).__name__ for extension in enabled.shard.extensions] == ["ClientAssignors", "Holding"]


def test_without_a_plug_in_its_fields_change_nothing_and_are_not_written() -> None:
    plain, sent = Scene(), Scene()
    for member_id in ("a", "b", "a", "b"):
        sent_to, expected = sent.beat(member_id, Hold(hold=True)), plain.beat(member_id)
        assert encode_api(sent_to, 1) == encode_api(expected, 1)
    assert sent.log.stored == plain.log.stored
    rejected = sent.send(ConsumerGroupPrepareAssignmentRequest(group_id="g"), 0)
    assert rejected.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_without_the_plug_in_its_tagged_fields_are_dropped_as_by_kafka() -> None:
    scene = Scene(Holding())
    scene.beat("a", Hold(hold=True), instance_id="i")
    again = Scene(log=scene.log)
    before = len(scene.log.stored)
    again.epochs = scene.epochs
    again.beat("a", instance_id="i", rack_id="r")
    written = [one.record for one in scene.log.stored[before:] if isinstance(one, StoredRecord)]
    assert written
    assert not any(getattr(one.value, "unknown_tags", ()) for one in written)
    assert all(decode_record(*encode_record(one)) == one for one in written)
