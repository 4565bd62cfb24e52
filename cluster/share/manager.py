"""`SharePartitions`: the share-partitions that one broker leads, and their sessions (KIP-932)."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from quorate.cluster.services import Services
from quorate.cluster.share.acknowledge import Acknowledgement, acknowledge, release_acquired
from quorate.cluster.share.configs import ShareGroupConfigs
from quorate.cluster.share.dead_letters import DeadLetterQueues
from quorate.cluster.share.partition import SharePartition
from quorate.cluster.share.sessions import ShareSessions
from quorate.cluster.share.store import ShareError, ShareOutcome, StoredState
from quorate.cluster.topics import PartitionState, TopicState
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.read_share_group_state import PartitionData as ReadPartition
from quorate.codecs.api.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from quorate.codecs.api.write_share_group_state import PartitionData as WritePartition
from quorate.codecs.api.write_share_group_state import WriteShareGroupStateRequest, WriteStateData
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.results import Pending
from quorate.coordinator.share_state.persister import Persister

_FENCING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which a share-partition is loaded again."""

_NOT_FOUND = ShareOutcome(ErrorCode.UNKNOWN_SERVER_ERROR, "The share coordinator has no result.")
_NOT_HOSTED = ShareOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text)

Key = tuple[str, Uuid, int]
"""Group, topic id, partition."""


@dataclass(slots=True)
class LedSharePartition:
    """A share-partition of this broker, and the partition with its log.

    `waiting`: called, in this order, when fetches may find more records.
    """

    share: SharePartition
    partition: PartitionState
    waiting: dict[Callable[[], object], None] = field(default_factory=dict)

    def notify(self) -> None:
        """Let waiting fetches check for records again."""
        for listener in list(self.waiting):
            listener()


class _Store:
    """Stores the state of a share-partition with the persister."""

    def __init__(self, persister: Persister, key: Key) -> None:
        self._persister = persister
        self._group_id, self._topic_id, self._index = key

    def read(self, leader_epoch: int) -> Pending[StoredState]:
        """Read the state."""
        found: Pending[StoredState] = Pending()
        partitions = (ReadPartition(partition=self._index, leader_epoch=leader_epoch),)
        topics = (ReadStateData(topic_id=self._topic_id, partitions=partitions),)

        def read(response: Any) -> None:
            if not response.results:  # without a group id, for example
                found.complete(StoredState(outcome=_NOT_FOUND))
                return
            result = response.results[0].partitions[0]
            found.complete(
                StoredState(
                    outcome=ShareOutcome(result.error_code, result.error_message),
                    state_epoch=result.state_epoch,
                    start_offset=result.start_offset,
                    batches=result.state_batches,
                )
            )

        self._persister.persist(ReadShareGroupStateRequest(group_id=self._group_id, topics=topics)).on_complete(read)
        return found

    def write(
        self,
        *,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Pending[ShareOutcome]:
        """Change the state."""
        done: Pending[ShareOutcome] = Pending()
        change = WritePartition(
            partition=self._index,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=tuple(batches),
        )
        topics = (WriteStateData(topic_id=self._topic_id, partitions=(change,)),)

        def written(response: Any) -> None:
            if not response.results:
                done.complete(_NOT_FOUND)
                return
            result = response.results[0].partitions[0]
            done.complete(ShareOutcome(result.error_code, result.error_message))

        request = WriteShareGroupStateRequest(group_id=self._group_id, topics=topics)
        self._persister.persist(request).on_complete(written)
        return done


class _DeadLetters:
    """The dead letter queue of a share-partition."""

    def __init__(self, queues: DeadLetterQueues, group_id: str, partition: PartitionState) -> None:
        self._queues, self._group_id, self._partition = queues, group_id, partition

    def enabled(self) -> bool:
        """Return whether the group has one."""
        return bool(self._queues.topic_of(self._group_id))

    def write(self, first: int, last: int, delivery_count: int, cause: str) -> None:
        """Write records, as far as possible."""
        self._queues.write(self._group_id, self._partition, first, last, delivery_count, cause)


class SharePartitions:
    """The share-partitions and share sessions of a broker. `configs`: those of all groups."""

    def __init__(
        self,
        broker: int,
        services: Services,
        configs: ShareGroupConfigs,
        persister: Persister,
        dead_letters: DeadLetterQueues,
    ) -> None:
        self._broker = broker
        self._services = services
        self._persister = persister
        self._dead_letters = dead_letters
        self.configs = configs
        most = services.broker_configs.effective("group.share.max.share.sessions")
        self.sessions = ShareSessions(int(most or 0))  # releases before 4.1 have no share sessions
        self._led: dict[Key, LedSharePartition] = {}

    # ---- share-partitions

    def find(self, group_id: str, topic_id: Uuid, index: int) -> LedSharePartition | None:
        """Return a share-partition that was fetched from, while this broker leads the partition."""
        key = group_id, topic_id, index
        led = self._led.get(key)
        if led is None:
            return None
        topic = self._services.state.topics_by_id.get(topic_id)
        partition = led.partition
        if topic is None or partition.leader != self._broker or partition.leader_epoch != led.share.leader_epoch:
            self._remove(key)
            return None
        return led

    def open(
        self,
        group_id: str,
        topic: TopicState,
        index: int,
        reset_offset: Callable[[PartitionState], int],
    ) -> LedSharePartition:
        """Return a share-partition, whose state may not be loaded yet.

        `reset_offset`: returns the start offset of a group that has none; may raise `ShareError`.

        Raises `ShareError` if this broker does not lead the partition.
        """
        known = self.find(group_id, topic.id, index)
        if known is not None:
            return known
        partition = topic.partitions[index]
        if partition.leader != self._broker:
            raise ShareError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        key = group_id, topic.id, index
        share = SharePartition(
            f"{group_id}-{topic.id}:{topic.name}-{index}",
            partition.leader_epoch,
            self._services.clock,
            _Store(self._persister, key),
            partial(self.configs.of, group_id),
            partial(reset_offset, partition),
            lambda: led.notify(),
            _DeadLetters(self._dead_letters, group_id, partition),
        )
        led = self._led[key] = LedSharePartition(share, partition)
        return led

    def _remove(self, key: Key) -> None:
        led = self._led.pop(key, None)
        if led is not None:
            led.share.fence()
            led.notify()

    def failed(self, group_id: str, topic_id: Uuid, index: int, outcome: ShareOutcome) -> None:
        """Forget a share-partition whose state another broker may have changed."""
        if outcome.code in _FENCING:
            self._remove((group_id, topic_id, index))

    def forget(self, group_id: str, topic_id: Uuid, index: int) -> None:
        """Forget a share-partition whose state could not be loaded."""
        self._remove((group_id, topic_id, index))

    def clear(self) -> None:
        """Forget everything, because the broker stops."""
        self.sessions.clear()
        for key in list(self._led):
            self._remove(key)

    # ---- acknowledgements

    def acknowledge(
        self, group_id: str, member_id: str, topic_id: Uuid, index: int, some: Sequence[Acknowledgement]
    ) -> Pending[ShareOutcome]:
        """Acknowledge records of a partition."""
        return self._change(group_id, topic_id, index, lambda share: acknowledge(share, member_id, some))

    def release_session(self, group_id: str, member_id: str) -> None:
        """End a session, and release the records that its member has acquired."""
        session = self.sessions.close(group_id, member_id)
        # A copy: released records complete fetches that wait, also one of this session.
        for topic_id, index in () if session is None else tuple(session.partitions):
            self._change(group_id, topic_id, index, lambda share: release_acquired(share, member_id))

    def _change(
        self,
        group_id: str,
        topic_id: Uuid,
        index: int,
        change: Callable[[SharePartition], Pending[ShareOutcome]],
    ) -> Pending[ShareOutcome]:
        led = self.find(group_id, topic_id, index)
        if led is None:
            done: Pending[ShareOutcome] = Pending()
            done.complete(_NOT_HOSTED)
            return done
        done = change(led.share)
        done.on_complete(partial(self.failed, group_id, topic_id, index))
        done.on_complete(lambda _: led.notify())
        return done

    def connection_closed(self, connection: Hashable) -> None:
        """Release the session of a connection. A group without sessions is loaded again later."""
        closed = self.sessions.connection_closed(connection)
        if closed is None:
            return
        group_id, session = closed
        if session is not None:
            self.release_session(group_id, session.member_id)
        if not self.sessions.has_members(group_id):
            self._remove_group(group_id)

    def _remove_group(self, group_id: str) -> None:
        for key in [key for key in self._led if key[0] == group_id]:
            self._remove(key)
