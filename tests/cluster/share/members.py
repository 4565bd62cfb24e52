"""Members of share groups that call a broker's handlers directly, in virtual time."""

from dataclasses import dataclass
from typing import Any

from quorate.cluster import ManualClock
from quorate.cluster.apis import Context
from quorate.cluster.core import ClusterCore
from quorate.cluster.handlers import HANDLERS
from quorate.codecs.api import InitializeShareGroupStateRequest
from quorate.codecs.api.broker import ShareAcknowledgeRequest, ShareFetchRequest
from quorate.codecs.api.broker.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic
from quorate.codecs.api.initialize_share_group_state import InitializeStateData, PartitionData
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.coordinator.results import Pending

Acks = dict[int, list[tuple[int, int, tuple[int, ...]]]]
"""Partition → first offset, last offset, types."""

QUICK = {
    "share.coordinator.state.topic.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
}


def share_core(clock: ManualClock, **properties: Any) -> ClusterCore:
    """Return a cluster without sockets, with the topic t of 2 partitions, which broker 1 leads."""
    core = ClusterCore({1: "a", 2: "b"}, clock=clock, seed=1, properties={**QUICK, **properties})
    for broker in core.brokers.values():
        broker.serving = True
    core.started()
    core.create_topic("t", assignment=[[1, 2], [1, 2]])
    return core


def initialize(core: ClusterCore, group: str, topic: str = "t") -> Pending[Any]:
    """Initialize the share state of a topic's partitions, as the group coordinator does."""
    found = core.topics[topic]
    partitions = tuple(
        PartitionData(partition=index, state_epoch=1, start_offset=-1) for index in range(len(found.partitions))
    )
    data = (InitializeStateData(topic_id=found.id, partitions=partitions),)
    return core.share_state.persist(InitializeShareGroupStateRequest(group_id=group, topics=data))


def produce(core: ClusterCore, count: int, partition: int = 0, *, producer: int = -1) -> None:
    """Append a batch of `count` records; of a transaction with a producer id."""
    state = core.topics["t"].partitions[partition]
    records = [
        BatchRecord(offset=index, timestamp_ms=core.clock.now_ms(), key=None, value=b"%d" % index)
        for index in range(count)
    ]
    data = encode_batch(
        records,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        transactional=producer >= 0,
    )
    state.log.append(data, leader_epoch=state.leader_epoch, now_ms=core.clock.now_ms())


def abort(core: ClusterCore, producer: int, partition: int = 0) -> None:
    """Abort the transaction of a producer."""
    state = core.topics["t"].partitions[partition]
    state.log.append_marker(producer, 0, commit=False, now_ms=core.clock.now_ms(), leader_epoch=state.leader_epoch)


@dataclass(eq=False)
class FakeConnection:
    """What handlers use of a connection."""

    open: bool = True
    on_lost: Any = None
    host: str = "/127.0.0.1"


class Member:
    """A member of a share group, with a session on a broker.

    `epoch`: that of its next request. `topic_id`: that of the topic that it fetches.
    """

    def __init__(self, core: ClusterCore, name: str = "m1", group: str = "g", broker: int = 1) -> None:
        self.core = core
        self.name, self.group, self.broker = name, group, broker
        self.epoch = 0
        self.topic_id = core.topics["t"].id
        self.connection: Any = FakeConnection()

    def _call(self, request: Any, version: int) -> Any:
        context = Context(
            api_version=version,
            now_ms=self.core.clock.now_ms(),
            client_id="",
            client_host="/127.0.0.1",
            connection=self.connection,
        )
        response: Any = HANDLERS[type(request)].handler(self.core.brokers[self.broker], request, context)
        if isinstance(response, Pending):
            return response if response.response is None else response.response
        return response

    def fetch(
        self,
        *partitions: int,
        acks: Acks | None = None,
        epoch: int | None = None,
        version: int = 2,
        forget: tuple[int, ...] = (),
        **fields: Any,
    ) -> Any:
        """Send ShareFetch; return the response, or `Pending` while it waits."""
        acks = acks or {}
        limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=(
                FetchTopic(
                    topic_id=self.topic_id,
                    partitions=tuple(
                        FetchPartition(partition_index=index, acknowledgement_batches=_batches(acks.get(index, [])))
                        for index in dict.fromkeys((*partitions, *acks))
                    ),
                ),
            )
            if partitions or acks
            else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=self.topic_id, partitions=forget),) if forget else (),
            **{**limits, **fields},
        )
        response = self._call(request, version)
        if epoch is None:
            self.epoch += 1
        return response

    def acknowledge(self, acks: Acks, *, epoch: int | None = None, version: int = 2, **fields: Any) -> Any:
        """Send ShareAcknowledge."""
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=(
                AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=tuple(
                        AcknowledgePartition(partition_index=index, acknowledgement_batches=_batches(some))
                        for index, some in acks.items()
                    ),
                ),
            ),
            **fields,
        )
        response = self._call(request, version)
        if epoch is None:
            self.epoch += 1
        return response

    def acquired(self, *partitions: int, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch, and return the acquired offsets and delivery counts of the only partition."""
        response = self.fetch(*partitions, **fields)
        assert not isinstance(response, Pending), "no records"
        assert response.error_code == 0
        return offsets(response)


def offsets(response: Any, partition: int = 0) -> list[tuple[int, int, int]]:
    """Return acquired offsets and delivery counts of a partition in a response."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        if data.partition_index == partition
        for one in data.acquired_records
    ]


def _batches(some: list[tuple[int, int, tuple[int, ...]]]) -> tuple[AcknowledgementBatch, ...]:
    return tuple(
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in some
    )
