"""Groups with simulated clients, for a generated year.

Members join, take their assignment, commit and leave; some groups change their protocol. Requests
are sent to the runtime of quorate's coordinator, one at a time, and its log is what it wrote. The
caller advances the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.leave_group import MemberIdentity
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from quorate.codecs.api.sync_group import SyncGroupRequestAssignment
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.consumer_protocol import decode_assignment, encode_protocol
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ProtocolTopicPartition,
)
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext

REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79


@dataclass
class Client:
    """A member. `protocol`: classic, consumer or share; `owned`: topic → partitions."""

    member_id: str
    protocol: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    rack: str | None = None
    epoch: int = 0
    owned: dict[str, tuple[int, ...]] = field(default_factory=dict)
    joining: bool = True
    waiting: bool = False
    """A JoinGroup or SyncGroup is pending."""


class Group:
    """A group and its clients. `positions`: topic and partition → next offset to read."""

    def __init__(
        self, runtime: PartitionRuntime, name: str, kind: str, topics: tuple[str, ...], rng: Random, session_ms: int
    ) -> None:
        self.runtime = runtime
        self.name = name
        self.kind = kind
        self.protocol = "consumer" if kind == "simple" else kind
        self.topics = topics
        self.rng = rng
        self.session_ms = session_ms
        self.clients: list[Client] = []
        self.positions: dict[tuple[str, int], int] = {}
        self.transactions = 0
        self.joined = 0

    # ---- membership

    def join(self, protocol: str | None = None) -> None:
        """Add a member, which may use another protocol than the others."""
        protocol = protocol or self.protocol
        self.joined += 1
        static = f"{self.name}-{self.joined}" if self.joined % 5 == 0 and protocol != "share" else None
        member_id = "" if protocol == "classic" else str(Uuid(self.rng.randbytes(16)))
        self.clients.append(Client(member_id, protocol, self.topics, static, f"rack{self.joined % 3}"))

    def leave(self, client: Client) -> None:
        """Remove a member, which leaves the group."""
        self.clients.remove(client)
        if client.protocol == "classic":
            one = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id, reason="closed")
            self._send(LeaveGroupRequest(group_id=self.name, members=(one,)), 5)
        elif client.protocol == "share":
            self._send(ShareGroupHeartbeatRequest(group_id=self.name, member_id=client.member_id, member_epoch=-1), 1)
        else:
            self._send(
                ConsumerGroupHeartbeatRequest(
                    group_id=self.name, member_id=client.member_id, instance_id=client.instance_id, member_epoch=-1
                ),
                1,
            )

    def vanish(self, client: Client) -> None:
        """Remove a member without a LeaveGroup; its session times out later."""
        self.clients.remove(client)

    def settle(self, rounds: int = 12) -> None:
        """Let all members send requests, some seconds apart, until none of them changes."""
        quiet = 0
        for _ in range(rounds):
            before = [(one.epoch, one.owned, one.joining, one.waiting) for one in self.clients]
            for client in self.clients:
                self._step(client)
            self.runtime.advance(self.runtime.now_ms + self.rng.randrange(800, 3500))
            quiet = quiet + 1 if before == [(o.epoch, o.owned, o.joining, o.waiting) for o in self.clients] else 0
            if quiet == 2 and not any(one.waiting or one.joining for one in self.clients):
                return

    def beat(self) -> None:
        """Send a heartbeat of each member."""
        for client in self.clients:
            self._step(client)

    def _step(self, client: Client) -> None:
        if client.waiting:
            return
        if client.protocol == "share":
            self._share_heartbeat(client)
        elif client.protocol == "consumer":
            self._heartbeat(client)
        elif client.joining:
            self._join_classic(client)
        else:
            request = HeartbeatRequest(
                group_id=self.name,
                generation_id=client.epoch,
                member_id=client.member_id,
                group_instance_id=client.instance_id,
            )
            self._send(request, 4, lambda response: self._handle_error(client, response.error_code))

    def _heartbeat(self, client: Client) -> None:
        first = client.joining
        owned = tuple(
            TopicPartitions(topic_id=self._id(topic), partitions=some) for topic, some in sorted(client.owned.items())
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name,
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
            rack_id=client.rack if first else None,
            rebalance_timeout_ms=300_000 if first else -1,
            subscribed_topic_names=client.topics if first else None,
            topic_partitions=() if first else owned,
        )
        self._send(request, 1, lambda response: self._on_heartbeat(client, response))

    def _share_heartbeat(self, client: Client) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.name,
            member_id=client.member_id,
            member_epoch=client.epoch,
            rack_id=client.rack if client.joining else None,
            subscribed_topic_names=client.topics if client.joining else None,
        )
        self._send(request, 1, lambda response: self._on_heartbeat(client, response))

    def _on_heartbeat(self, client: Client, response: Any) -> None:
        self._handle_error(client, response.error_code)
        if response.error_code:
            return
        client.epoch, client.joining = response.member_epoch, False
        if response.assignment is not None:
            names = {topic.id: topic.name for topic in self.runtime.shard.image.topics.values()}
            client.owned = {
                names[topic_partition.topic_id]: topic_partition.partitions
                for topic_partition in response.assignment.topic_partitions
            }

    def _handle_error(self, client: Client, error: int) -> None:
        client.waiting = False
        if error == REBALANCE_IN_PROGRESS:
            client.joining = True
        elif error:  # fenced or unknown: join again
            client.joining, client.epoch, client.owned = True, 0, {}
            if client.protocol == "classic":
                client.member_id = ""

    def _join_classic(self, client: Client) -> None:
        owned = tuple(ProtocolTopicPartition(topic=topic, partitions=some) for topic, some in client.owned.items())
        subscription = ConsumerProtocolSubscription(topics=client.topics, owned_partitions=owned, rack_id=client.rack)
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=encode_protocol(subscription, 3)),),
        )
        client.waiting = True
        self._send(request, 9, lambda response: self._on_join(client, response))

    def _on_join(self, client: Client, response: Any) -> None:
        if response.error_code == MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
            return self._join_classic(client)
        self._handle_error(client, response.error_code)
        if response.error_code:
            return None
        client.member_id, client.epoch, client.joining = response.member_id, response.generation_id, False
        shares: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in response.members}
        ids = sorted(shares)
        for topic in self.topics if ids else ():
            for number in range(len(self.runtime.shard.image.topics[topic].replicas)):
                shares[ids[number % len(ids)]].setdefault(topic, []).append(number)
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=one, assignment=_assignment(share)) for one, share in shares.items()
        )
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=response.protocol_name,
            assignments=assignments,
        )
        client.waiting = True
        return self._send(request, 5, lambda synced: self._on_sync(client, synced))

    def _on_sync(self, client: Client, response: Any) -> None:
        self._handle_error(client, response.error_code)
        if not response.error_code and response.assignment:
            found: Any = decode_assignment(response.assignment).message
            client.owned = {
                assigned_partition.topic: assigned_partition.partitions
                for assigned_partition in found.assigned_partitions
            }

    # ---- offsets

    def commit(self) -> None:
        """Commit offsets of all owned partitions; in a simple group, of all partitions."""
        if self.kind == "simple":
            self._commit(None, [(topic, partition) for topic in self.topics for partition in self._partitions(topic)])
        for client in self.clients:
            if client.protocol != "share" and not client.joining and not client.waiting:
                self._commit(client, [(topic, one) for topic, some in sorted(client.owned.items()) for one in some])

    def _commit(self, client: Client | None, some: Sequence[tuple[str, int]]) -> None:
        if not some:
            return
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for topic, number in some:
            position = self.positions.setdefault((topic, number), self.rng.randrange(1000, 1_000_000))
            self.positions[topic, number] = position + self.rng.randrange(1, 500)
            one = OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=position,
                committed_leader_epoch=number % 7,
                committed_metadata="host-17" if number % 11 == 0 else "",
            )
            by_topic.setdefault(topic, []).append(one)
        topics = tuple(
            OffsetCommitRequestTopic(name=topic, topic_id=self._id(topic), partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        )
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=-1 if client is None else client.epoch,
            member_id="" if client is None else client.member_id,
            group_instance_id=None if client is None else client.instance_id,
            topics=topics,
        )
        self._send(request, 10 if client is not None and client.protocol == "consumer" else 9)

    def commit_in_transaction(self, *, commit: bool) -> None:
        """Commit the offsets of one topic in a producer's transaction."""
        self.transactions += 1
        topic, producer_id = self.topics[0], 4000 + sum(self.name.encode())
        partitions = tuple(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=self.positions.setdefault((topic, partition), 10) + self.transactions,
            )
            for partition in self._partitions(topic)
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"{self.name}-tx",
            group_id=self.name,
            producer_id=producer_id,
            producer_epoch=0,
            topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=partitions),),
        )
        self._send(request, 5)
        self.runtime.end_transaction(producer_id, 0, commit=commit)

    def forget(self) -> None:
        """Delete one offset: writes a tombstone if no member subscribes to the topic."""
        partitions = (OffsetDeleteRequestPartition(partition_index=0),)
        topics = (OffsetDeleteRequestTopic(name=self.topics[-1], partitions=partitions),)
        self._send(OffsetDeleteRequest(group_id=self.name, topics=topics), 0)

    def delete(self) -> None:
        """Delete the group with its offsets."""
        self._send(DeleteGroupsRequest(groups_names=(self.name,)), 2)
        self.positions.clear()

    # ---- requests

    def _send(self, request: Any, version: int, on_response: Any = None) -> None:
        at = RequestContext(api_version=version, now_ms=self.runtime.now_ms, client_id=f"{self.name}-client")
        pending = self.runtime.request(request, at)
        if on_response is not None:
            pending.on_complete(on_response)

    def _partitions(self, topic: str) -> range:
        return range(len(self.runtime.shard.image.topics[topic].replicas))

    def _id(self, topic: str) -> Uuid:
        return self.runtime.shard.image.topics[topic].id


def _assignment(share: dict[str, list[int]]) -> bytes:
    listed = tuple(ProtocolTopicPartition(topic=topic, partitions=tuple(some)) for topic, some in share.items())
    return encode_protocol(ConsumerProtocolAssignment(assigned_partitions=listed), 3)
