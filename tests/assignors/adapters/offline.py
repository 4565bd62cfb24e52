"""kafka-python's and aiokafka's own coordinators without a broker.

Tests set their metadata and call them as with a JoinGroup response. Both look alike to a test:
`OfflineKafkaPython` and `OfflineAio` have the same methods.
"""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Self

from quorate.assignors.adapters.protocol import assignment_bytes, partitions_of
from quorate.codecs.consumer_protocol import decode_assignment

GROUP = "g"
TP = tuple[str, int]
Topics = Mapping[str, Mapping[int, Sequence[int]]]
"""Topic → partition → ids of its replicas."""


def assigned(data: bytes) -> list[TP]:
    message: Any = decode_assignment(data).message
    return partitions_of(message.assigned_partitions)


class OfflineKafkaPython:
    """A KafkaConsumer's coordinator."""

    def __init__(
        self, *assignors: Any, topics: Sequence[str] = ("t",), instance: str | None = None, listener: Any = None
    ) -> None:
        from kafka.consumer.subscription_state import SubscriptionState
        from kafka.coordinator.consumer import ConsumerCoordinator
        from kafka.net.compat import KafkaNetClient

        self._client = KafkaNetClient(bootstrap_servers="127.0.0.1:1", api_version=(3, 0))
        subscription = SubscriptionState("earliest")
        subscription.subscribe(topics=list(topics), listener=listener)
        self.coordinator = ConsumerCoordinator(
            self._client,
            subscription,
            group_id=GROUP,
            group_instance_id=instance,
            assignors=list(assignors),
            api_version=(3, 0),
            enable_auto_commit=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def metadata(self, brokers: Mapping[int, str | None], topics: Topics) -> None:
        from kafka.protocol.metadata import MetadataResponse

        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition
        self._client.cluster.update_metadata(
            MetadataResponse(
                version=12,
                throttle_time_ms=0,
                cluster_id="c",
                controller_id=1,
                brokers=[broker(node, "h", 9092, rack, version=12) for node, rack in brokers.items()],
                topics=[
                    topic(
                        version=12,
                        error_code=0,
                        name=name,
                        topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name),
                        is_internal=False,
                        partitions=[
                            partition(
                                version=12,
                                error_code=0 if set(replicas) & set(brokers) else 5,
                                partition_index=number,
                                leader_id=next((replica for replica in replicas if replica in brokers), -1),
                                leader_epoch=0,
                                replica_nodes=list(replicas),
                                isr_nodes=[replica for replica in replicas if replica in brokers],
                                offline_replicas=[replica for replica in replicas if replica not in brokers],
                            )
                            for number, replicas in partitions.items()
                        ],
                    )
                    for name, partitions in topics.items()
                ],
            )
        )

    def join(self) -> None:
        """Run the part before JoinGroup is sent."""
        if not self.coordinator.rejoining:
            generation = self.coordinator._generation
            self.coordinator._net.run(
                self.coordinator._on_join_prepare_async, generation.generation_id, generation.member_id
            )
            self.coordinator.rejoining = True
        self.subscription()

    def seek(self, at: TP, offset: int) -> None:
        from kafka import TopicPartition

        self.coordinator._subscription.seek(TopicPartition(*at), offset)

    def position(self, at: TP) -> int:
        from kafka import TopicPartition

        return int(self.coordinator._subscription.assignment[TopicPartition(*at)].position.offset)

    def subscription(self, name: str | None = None) -> bytes:
        protocols = dict(self.coordinator.group_protocols())
        return bytes(protocols[name or next(iter(protocols))].encode())

    def lead(self, name: str, members: Mapping[str, bytes | tuple[str, bytes]]) -> dict[str, list[TP]]:
        """Assign as the leader of `members`: id → subscription, or (instance id, subscription)."""
        from kafka.protocol.consumer import JoinGroupResponse

        one = JoinGroupResponse.JoinGroupResponseMember
        shown = [
            one(
                version=7,
                member_id=member,
                group_instance_id=given[0] if isinstance(given, tuple) else None,
                metadata=given[1] if isinstance(given, tuple) else given,
            )
            for member, given in members.items()
        ]
        result = self.coordinator._perform_assignment(next(iter(members)), name, shown)
        return {member: assigned(bytes(given.encode())) for member, given in result.items()}

    def complete(self, name: str, partitions: Sequence[TP], generation: int) -> None:
        """Complete SyncGroup."""
        from kafka.coordinator.base import Generation

        self.coordinator._generation = Generation(generation, "m", name)
        self.coordinator.rejoining = self.coordinator.rejoin_needed = False
        self.coordinator._net.run(
            self.coordinator._on_join_complete_async, generation, "m", name, assignment_bytes(partitions)
        )

    def rejoins(self) -> bool:
        return bool(self.coordinator.rejoin_needed)


class OfflineAio:
    """An AIOKafkaConsumer's coordinator, in an event loop that runs only during calls."""

    class Client:
        def __init__(self) -> None:
            from aiokafka.cluster import ClusterMetadata

            self.cluster = ClusterMetadata()

        def set_topics(self, topics: Any) -> None: ...

        async def _maybe_wait_metadata(self) -> None: ...

        async def coordinator_lookup(self, *_: Any) -> Any:
            await asyncio.get_running_loop().create_future()

        async def send(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("nothing is sent")

    def __init__(
        self, *assignors: Any, topics: Sequence[str] = ("t",), instance: str | None = None, listener: Any = None
    ) -> None:
        from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
        from aiokafka.consumer.subscription_state import SubscriptionState

        self._runner = asyncio.Runner()

        async def make() -> Any:
            self._client = self.Client()
            state = SubscriptionState()
            state.register_fetch_waiters(set())
            state.subscribe(set(topics), listener=listener)
            made = GroupCoordinator(
                self._client,
                state,
                group_id=GROUP,
                group_instance_id=instance,
                assignors=list(assignors),
                enable_auto_commit=False,
            )
            # The test runs the steps of the rebalance itself.
            made._coordination_task.cancel()
            return made

        self.coordinator = self._runner.run(make())
        self.run = self._runner.run
        self._rebalance = CoordinatorGroupRebalance
        self.joined: list[list[tuple[str, bytes]]] = []
        """The assignors and subscriptions of each JoinGroup that `subscription` sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            await self.coordinator._stop_commit_offsets_refresh_task()

        self._runner.run(end())
        self._runner.close()

    def metadata(self, brokers: Mapping[int, str | None], topics: Topics) -> None:
        from aiokafka.protocol.metadata import MetadataResponse_v5

        async def update() -> None:
            self._client.cluster.update_metadata(
                MetadataResponse_v5(
                    0,
                    [(node, "h", 9092, rack) for node, rack in brokers.items()],
                    "c",
                    1,
                    [
                        (
                            0,
                            name,
                            False,
                            [
                                (
                                    0 if set(replicas) & set(brokers) else 5,
                                    number,
                                    next((replica for replica in replicas if replica in brokers), -1),
                                    list(replicas),
                                    [replica for replica in replicas if replica in brokers],
                                    [replica for replica in replicas if replica not in brokers],
                                )
                                for number, replicas in partitions.items()
                            ],
                        )
                        for name, partitions in topics.items()
                    ],
                )
            )

        self._runner.run(update())

    def join(self) -> None:
        """Run the part before JoinGroup is sent."""

        async def prepare() -> None:
            if not self.coordinator._performed_join_prepare:
                await self.coordinator._on_join_prepare(self.coordinator._subscription.subscription.assignment)
                self.coordinator._performed_join_prepare = True

        self._runner.run(prepare())
        self.subscription()

    def seek(self, at: TP, offset: int) -> None:
        self._state(at).seek(offset)

    def position(self, at: TP) -> int:
        return int(self._state(at).position)

    def _state(self, at: TP) -> Any:
        from aiokafka import TopicPartition

        return self.coordinator._subscription.subscription.assignment.state_value(TopicPartition(*at))

    def subscription(self, name: str | None = None) -> bytes:
        """Return the subscription that aiokafka's own code sends with JoinGroup."""
        from aiokafka.errors import KafkaError
        from aiokafka.util import create_future

        requests: list[Any] = []

        async def send(_node: Any, request: Any, **_: Any) -> Any:
            requests.append(request)
            raise KafkaError

        async def join() -> None:
            state = self.coordinator._subscription.subscription
            self._client.send, before = send, self._client.send  # type: ignore[method-assign]
            self.coordinator.coordinator_id = 1
            self.coordinator._coordinator_dead_fut = create_future()
            one = self._rebalance(self.coordinator, GROUP, 1, state, self.coordinator._assignors, 6000, 100)
            await one.perform_group_join()
            self._client.send = before  # type: ignore[method-assign]

        self._runner.run(join())
        self.joined = [list(one._group_protocols) for one in requests]
        sent: dict[str, bytes] = dict(requests[-1]._group_protocols)
        return sent[name or next(iter(sent))]

    def lead(self, name: str, members: Mapping[str, bytes | tuple[str, bytes]]) -> dict[str, list[TP]]:
        from aiokafka.protocol.group import JoinGroupResponse_v5

        self.subscription()
        leader = next(iter(members))
        shown = [
            (name_, given[0], given[1]) if isinstance(given, tuple) else (name_, None, given)
            for name_, given in members.items()
        ]
        response = JoinGroupResponse_v5(0, 0, 1, name, leader, leader, shown)
        result = self._runner.run(self.coordinator._perform_assignment(response))
        return {member: assigned(data) for member, data in result.items()}

    def complete(self, name: str, partitions: Sequence[TP], generation: int) -> None:
        from aiokafka.util import create_future

        async def end() -> None:
            self.coordinator.generation = generation
            self.coordinator._rejoin_needed_fut = create_future()
            self.coordinator._performed_join_prepare = False
            await self.coordinator._on_join_complete(generation, "m", name, assignment_bytes(partitions))

        self._runner.run(end())

    def rejoins(self) -> bool:
        return bool(self.coordinator._rejoin_needed_fut.done())
