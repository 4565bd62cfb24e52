"""A group whose members can run client-side assignors (KIP-848).

Like consumers, members revoke partitions with their next heartbeat.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from quorate.assignors import Assignor, AssignorError, RangeAssignor
from quorate.assignors.prepared import install_request
from quorate.codecs import Uuid
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember, InstalledTopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.client_assignors import (
    AnnouncedAssignors,
    AssignmentDetails,
    ClientAssignor,
    ComputeAssignment,
    ComputedBy,
    TargetDetails,
    TargetMetadata,
    TargetOrigin,
)
from quorate.codecs.consumer_protocol import encode_protocol
from quorate.codecs.message import Message
from quorate.codecs.messages import ConsumerProtocolSubscription
from quorate.codecs.tags import read_tags, written_tags
from quorate.coordinator.client_assignors.computation import Computation
from quorate.coordinator.client_assignors.computing_member import computation_of
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog, StoredRecord
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext
from quorate.coordinator.state.consumer import ConsumerGroup

JOIN_AGAIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
START_MS = 1_700_000_000_000
ORDERS = Uuid(bytes(15) + b"\x01")
CLICKS = Uuid(bytes(15) + b"\x02")
MINE = (ClientAssignor(name="mine", maximum_version=2),)


def topic(name: str, topic_id: Uuid, partitions: int) -> TopicImage:
    return TopicImage(name=name, id=topic_id, replicas=tuple((number % 3,) for number in range(partitions)))


def computes(reply: ConsumerGroupHeartbeatResponse) -> bool:
    """Return whether the response selects the member to compute the target assignment."""
    return read_tags(ComputeAssignment, reply.unknown_tags).should_compute_assignment


@dataclass
class Member:
    """A consumer's own state.

    `owned`: topic id → partitions; `metadata`: the assignor's, one per received assignment.
    """

    member_id: str
    instance_id: str | None = None
    topics: tuple[str, ...] = ("orders",)
    assignors: tuple[ClientAssignor, ...] | None = MINE
    epoch: int = 0
    owned: dict[Uuid, tuple[int, ...]] = field(default_factory=dict)
    metadata: list[Any] = field(default_factory=list)


class Scene:
    """A group "g".

    By default, the assignment interval is 0 and sessions are long. The topic orders has 6
    partitions in racks a, b and c.
    """

    def __init__(self, **config: Any) -> None:
        defaults = {
            "group_consumer_client_assignors_enable": True,
            "group_consumer_assignment_interval_ms": 0,
            "group_consumer_session_timeout_ms": 600_000,
        }
        self.config = CoordinatorConfig(**{**defaults, **config})
        self.image = MetadataImage.EMPTY.with_brokers({0: "a", 1: "b", 2: "c"}).with_topics(
            [topic("orders", ORDERS, 6), topic("clicks", CLICKS, 4)]
        )
        self.log = MemoryLog()
        self._ids = 0
        self._open(START_MS)
        self.members: dict[str, Member] = {}

    def _open(self, now_ms: int) -> None:
        shard = GroupCoordinatorShard(self.config, image=self.image, new_id=self._new_id)
        self.runtime = PartitionRuntime(shard, self.log, now_ms=now_ms)
        self.runtime.load()

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def reload(self) -> None:
        """Move the group to another coordinator, which loads the log."""
        self._open(self.runtime.now_ms)

    def send(self, request: Message, version: int = 0) -> Any:
        context = RequestContext(
            api_version=version, now_ms=self.runtime.now_ms, client_id="client", client_host="/127.0.0.1"
        )
        return self.runtime.request(request, context).response

    def advance(self, ms: int) -> None:
        self.runtime.advance(self.runtime.now_ms + ms)

    @property
    def group(self) -> ConsumerGroup:
        found = self.runtime.shard.state.groups["g"]
        assert isinstance(found, ConsumerGroup)
        return found

    @property
    def computation(self) -> Computation:
        """The state of the computation by a member."""
        return computation_of(self.group)

    @property
    def computed_by(self) -> ComputedBy | None:
        """The member that computed the target assignment."""
        return read_tags(TargetOrigin, self.group.target_epoch_tags).computed_by

    @property
    def target_metadata(self) -> dict[str, TargetMetadata | None]:
        """The assignor's metadata in the target assignment, by member."""
        return {one: read_tags(TargetDetails, tags).metadata for one, tags in self.group.target_tags.items()}

    def records(self) -> list[str]:
        """Return the types of all records so far."""
        return [one.record.name for one in self.log.stored if isinstance(one, StoredRecord)]

    # Requests of members

    def join(self, member_id: str, **more: Any) -> ConsumerGroupHeartbeatResponse:
        self.members[member_id] = Member(member_id, **more)
        return self.beat(member_id)

    def beat(self, member_id: str, **more: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and apply the assignment of the response."""
        member = self.members[member_id]
        joins = member.epoch == 0
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "member_epoch": member.epoch,
            "instance_id": member.instance_id,
            "topic_partitions": _listed(member.owned),
        }
        if joins:
            fields |= {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": member.topics,
                "topic_partitions": (),
            }
        announced = more.pop("client_assignors", member.assignors if joins else None)
        tags = written_tags(AnnouncedAssignors(client_assignors=announced))
        request = ConsumerGroupHeartbeatRequest(**{**fields, **more}, unknown_tags=tags)
        reply: ConsumerGroupHeartbeatResponse = self.send(request, 1)
        if reply.error_code == ErrorCode.NONE:
            member.epoch = reply.member_epoch
            if reply.assignment is not None:
                member.owned = {
                    topic_partition.topic_id: topic_partition.partitions
                    for topic_partition in reply.assignment.topic_partitions
                }
                member.metadata.append(read_tags(AssignmentDetails, reply.assignment.unknown_tags).metadata)
        elif reply.error_code in JOIN_AGAIN:
            member.epoch, member.owned = 0, {}
        return reply

    def settle(self, rounds: int = 6) -> None:
        """Send heartbeats of all members until they have reached the target."""
        for _ in range(rounds):
            for member_id in self.members:
                self.beat(member_id)

    def join_classic(self, member_id: str, instance_id: str | None = None) -> JoinGroupResponse:
        """Join or rejoin as a member of the classic protocol (online migration).

        It announces no assignors.
        """
        subscription = ConsumerProtocolSubscription(
            topics=("orders",), user_data=None, owned_partitions=(), generation_id=-1, rack_id=None
        )
        offered = JoinGroupRequestProtocol(name="range", metadata=encode_protocol(subscription, 3))
        reply: JoinGroupResponse = self.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocols=(offered,),
            ),
            9,
        )
        return reply

    def leave(self, member_id: str, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        reply = self.beat(member_id, member_epoch=epoch)
        del self.members[member_id]
        return reply

    def prepare(self, member_id: str, **more: Any) -> ConsumerGroupPrepareAssignmentResponse:
        epoch = self.members[member_id].epoch if member_id in self.members else 0
        fields = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, **more}
        reply: ConsumerGroupPrepareAssignmentResponse = self.send(ConsumerGroupPrepareAssignmentRequest(**fields))
        return reply

    def install(self, member_id: str, given: dict[str, Sequence[int]], **more: Any) -> ErrorCode:
        """Install partitions of orders."""
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "member_epoch": self.members[member_id].epoch,
            "group_epoch": self.group.epoch,
            "members": tuple(installed(one, partitions) for one, partitions in given.items()),
            **more,
        }
        return self.send_install(ConsumerGroupInstallAssignmentRequest(**fields))

    def send_install(self, request: ConsumerGroupInstallAssignmentRequest) -> ErrorCode:
        reply = self.send(request)
        self.error_message = reply.error_message
        return ErrorCode(reply.error_code)

    def compute(self, member_id: str, assignor: Assignor | None = None, **more: Any) -> ErrorCode:
        """Prepare, run an assignor (by default range), and install its assignment."""
        prepared = self.prepare(member_id)
        if prepared.error_code:
            return ErrorCode(prepared.error_code)
        me = {"group_id": "g", "member_id": member_id, "member_epoch": self.members[member_id].epoch}
        try:
            return self.send_install(install_request(prepared, assignor or RangeAssignor(), **me, **more))
        except AssignorError as error:
            raise AssertionError(str(error)) from error

    # Views of the group

    def owns(self, member_id: str, topic_id: Uuid = ORDERS) -> list[int]:
        """Return the partitions that the member considers its own."""
        return sorted(self.members[member_id].owned.get(topic_id, ()))

    def target(self, member_id: str, topic_id: Uuid = ORDERS) -> list[int]:
        """Return the member's target assignment."""
        return sorted(
            partition
            for one in self.group.targets.get(member_id, ())
            if one.topic_id == topic_id
            for partition in one.partitions
        )

    def current(self, member_id: str, topic_id: Uuid = ORDERS) -> tuple[int, list[int]]:
        """Return the member's epoch and assigned partitions on the coordinator."""
        member = self.group.members[member_id]
        return member.epoch, sorted(member.assigned.get(topic_id, {}))


def installed(member_id: str, partitions: Sequence[int], topic_id: Uuid = ORDERS, **more: Any) -> InstalledMember:
    topics = (InstalledTopicPartitions(topic_id=topic_id, partitions=tuple(partitions)),) if partitions else ()
    return InstalledMember(member_id=member_id, topic_partitions=topics, **more)


def _listed(owned: dict[Uuid, tuple[int, ...]]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in owned.items())
