"""The group coordinators of a cluster: one for each partition of `__consumer_offsets`, on the broker that leads it, with that partition's log as its log.

What a coordinator writes are real batches in a real topic. When the partition's leader moves, the coordinator there loads the log, as Kafka's does.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from quorate.cluster.apis import Context
from quorate.cluster.authorizer import Operation
from quorate.cluster.clock import Handle
from quorate.cluster.producers import Refused
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import Work
from quorate.codecs import CONSUMER_OFFSETS, CoordinatorRecord, LogError
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupDescribeRequest,
    api_of,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, read_batches
from quorate.codecs.message import Message
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log_batches import batch_of, blocks_of, in_batches, stored_in
from quorate.coordinator.partitioning import partition_of
from quorate.coordinator.results import Pending, RequestContext
from quorate.coordinator.runtime import AppendError, CoordinatorRuntime, StoredMarker, StoredRecord
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.groups import ReplayError

if TYPE_CHECKING:
    from quorate.cluster.core import ClusterCore
    from quorate.codecs.log.raw import RawBlock

__all__ = ["GroupCoordinators", "PartitionCoordinatorLog", "Unreadable"]

_WORTH_COLUMNS_BYTES = 1 << 20

_MANY: dict[type[Message], tuple[str, str, Callable[[Any], str]]] = {
    DescribeGroupsRequest: ("groups", "groups", str),
    DeleteGroupsRequest: ("groups_names", "results", str),
    ConsumerGroupDescribeRequest: ("group_ids", "groups", str),
    ShareGroupDescribeRequest: ("group_ids", "groups", str),
    StreamsGroupDescribeRequest: ("group_ids", "groups", str),
    OffsetFetchRequest: ("groups", "groups", lambda group: str(group.group_id)),
}
"""Requests about several groups: the field of the request with the groups, that of the response, and how to get an id."""


_NAMES_AT_ONCE = 2_000
"""Names of a subscription that are looked at in one turn."""

_GROUPS_AT_ONCE = 200
"""Groups of a request that a coordinator is asked about in one turn."""


class PartitionCoordinatorLog:
    """A `CoordinatorLog` in the log of a partition.

    `base_sequence`: of the batches; group coordinators write 0, with and without a producer, transaction coordinators -1. `coordinator_epoch`: that of the transaction
    coordinator, for the markers that it has written.
    """

    def __init__(self, partition: PartitionState, *, base_sequence: int = 0) -> None:
        self.partition = partition
        self.base_sequence = base_sequence
        self.coordinator_epoch = 0

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record. Raises `AppendError`."""
        log = self.partition.log
        first = log.next_offset
        data = batch_of(
            records,
            first_offset=first,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=self.partition.leader_epoch,
            base_sequence=self.base_sequence,
        )
        try:
            log.append_own(data, timestamp_ms)
        except Refused as refused:
            raise AppendError(refused.code) from None
        return first

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """The records in batches of at most the topic's `max.message.bytes`."""
        return in_batches(records, self.partition.log.config.max_message_bytes)

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns its offset. Raises `AppendError`."""
        try:
            return self.partition.log.append_marker(
                producer_id,
                producer_epoch,
                commit=commit,
                now_ms=timestamp_ms,
                leader_epoch=self.partition.leader_epoch,
                coordinator_epoch=self.coordinator_epoch,
            )
        except Refused as refused:
            raise AppendError(refused.code) from None

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Everything, oldest first. Raises `LogError` for damage."""
        place = f"{self.partition.topic}-{self.partition.index}"
        for stored in self.partition.log:
            batch = next(read_batches(stored.data))
            if isinstance(batch, BatchProblem):
                raise LogError(
                    f"{place}, offset {stored.base_offset:,}: {batch.detail}; restore the partition's folder from a copy"
                )
            yield from stored_in(batch, topic=self.partition.topic, place=place)

    def blocks(self) -> Iterator["RawBlock"] | None:
        """The same as columns, where that is worth it: in files, and of some size."""
        log = self.partition.log
        if log.files is None or log.size_bytes < _WORTH_COLUMNS_BYTES or log.start_offset > log.segments[0].base_offset:
            return None
        segments = [(log.files.path(one), one.size) for one in log.segments]
        return blocks_of(self.partition.topic, self.partition.index, segments)


class Unreadable:
    """Partitions whose log no coordinator can read. Each is tried again only by its next leader, as in Kafka."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[PartitionState, int]] = {}

    def __contains__(self, partition: PartitionState) -> bool:
        found, leader_epoch = self._found.get(partition.index, (None, -1))
        return found is partition and leader_epoch == partition.leader_epoch

    def add(self, partition: PartitionState) -> None:
        """It is one, as its present leader found out."""
        self._found[partition.index] = (partition, partition.leader_epoch)


@dataclass(slots=True)
class _Running:
    """A coordinator at work, for one partition, on one broker. `stepped_ms`: how far the clock had been set when its timers were last looked at."""

    runtime: CoordinatorRuntime
    log: PartitionCoordinatorLog
    broker: int
    leader_epoch: int
    stepped_ms: int
    timer: Handle | None = None
    timer_at_ms: int | None = None


class GroupCoordinators:
    """All group coordinators of a cluster."""

    def __init__(self, cluster: "ClusterCore") -> None:
        self.cluster = cluster
        self._running: dict[int, _Running] = {}
        self._unreadable = Unreadable()
        self._nobody = CoordinatorShard(cluster.settings.coordinator, new_id=self._new_id)

    def _new_id(self) -> UUID:
        return UUID(int=self.cluster.random.getrandbits(128), version=4)

    # ---- who coordinates

    def partition_for(self, group_id: str) -> PartitionState | None:
        """The partition that a group is in; `None` while there is no `__consumer_offsets`."""
        topic = self.cluster.topics.get(CONSUMER_OFFSETS)
        return None if topic is None else topic.partitions[partition_of(group_id, len(topic.partitions))]

    def _of(self, partition: PartitionState | None, broker: int) -> _Running | None:
        """The coordinator for a partition, if this broker is it; its log is loaded when it is asked for the first time."""
        if partition is None or partition.leader != broker:
            return None
        running = self._running.get(partition.index)
        if running is not None and (running.broker, running.leader_epoch) != (broker, partition.leader_epoch):
            self._unload(partition.index)
            running = None
        return self._loaded(partition) if running is None else running

    def _loaded(self, partition: PartitionState) -> _Running | None:
        """A coordinator that knows what the log says; `None` if that cannot be read: half of it would pass for all."""
        if partition in self._unreadable:
            return None
        shard = CoordinatorShard(
            self.cluster.settings.coordinator,
            image=self.cluster.image,
            new_id=self._new_id,
            may_describe=None if self.cluster.authorizer is None else self._describable,
        )
        shard.group_configs = self.cluster.group_configs
        log = PartitionCoordinatorLog(partition)
        runtime = CoordinatorRuntime(
            shard,
            log,
            now_ms=self.cluster.clock.now_ms(),
            run_work=lambda work, then: self._run_work(partition.index, work, then),
        )
        try:
            runtime.load()
        except (LogError, ReplayError) as error:
            self._unreadable.add(partition)
            self.cluster.note(f"the groups of {partition.topic}-{partition.index} have no coordinator: {error}")
            return None
        running = _Running(runtime, log, partition.leader, partition.leader_epoch, self.cluster.clock.stepped_ms)
        self._running[partition.index] = running
        self._set_timer(running)
        return running

    def _describable(self, context: RequestContext, topics: frozenset[str]) -> frozenset[str]:
        """The topics that a client may describe, of those that a regex matches."""
        access = context.access if isinstance(context, Context) else None
        return topics if access is None else access.topics(Operation.DESCRIBE, topics)

    def leaders_changed(self) -> None:
        """Coordinators whose partition is led elsewhere now stop, those elsewhere begin: sessions go on without being asked."""
        topic = self.cluster.topics.get(CONSUMER_OFFSETS)
        for index, known in list(self._running.items()):
            if topic is None or known.log.partition is not topic.partitions[index]:
                self._unload(index)  # the topic was deleted
        for partition in topic.partitions if topic is not None else ():
            running = self._running.get(partition.index)
            if running is not None and (running.broker, running.leader_epoch) != (
                partition.leader,
                partition.leader_epoch,
            ):
                self._unload(partition.index)
                self._of(partition, partition.leader)

    def _unload(self, index: int) -> None:
        running = self._running.pop(index)
        if running.timer is not None:
            running.timer.cancel()
        running.runtime.unload()

    def image_changed(self) -> None:
        """The cluster's metadata has changed."""
        image = self.cluster.image
        before: MetadataImage | None = None
        delta: MetadataDelta | None = (
            None  # most coordinators had the same image before; with 17,000 topics it takes 20 ms
        )
        for running in list(self._running.values()):
            self._advance(running)
            if running.runtime.shard.image is not before:
                before, delta = running.runtime.shard.image, None
            delta = running.runtime.take_image(image, delta)
            self._set_timer(running)

    def settings_changed(self) -> None:
        """The brokers' settings have changed while they run."""
        for running in self._running.values():
            running.runtime.shard.config = self.cluster.settings.coordinator

    def restart(self) -> None:
        """Stop all, and load the logs anew: brokers were restarted, one after the other."""
        was = list(self._running)
        self.close()
        topic = self.cluster.topics.get(CONSUMER_OFFSETS)
        for index in was if topic is not None else ():
            assert topic is not None
            self._of(topic.partitions[index], topic.partitions[index].leader)

    def close(self) -> None:
        """Stop all."""
        for index in list(self._running):
            self._unload(index)

    # ---- requests

    def request(self, broker: int, group_id: str, request: Message, context: RequestContext) -> Message | Pending[Any]:
        """Answer a request about one group."""
        if not group_id and _needs_a_name(request):
            return self._nobody.failed(request, context, ErrorCode.INVALID_GROUP_ID, "")
        running = self._of(self.partition_for(group_id), broker)
        if running is None:
            return self._nobody.failed(request, context, ErrorCode.NOT_COORDINATOR, "")
        return self._ask(running, request, context)

    def bounded(self, group_id: str, names: Sequence[str]) -> Work[tuple[str, ...]]:
        """The different names of a subscription, cut off where it is certain that no record has room for them: what becomes of the request is the same."""
        partition = self.partition_for(group_id)
        most = 0 if partition is None else partition.log.config.max_message_bytes
        found: dict[str, None] = {}
        size = 0
        for first in range(0, len(names), _NAMES_AT_ONCE):
            some = dict.fromkeys(name for name in names[first : first + _NAMES_AT_ONCE] if name not in found)
            size += sum(map(len, some)) + len(some)  # in UTF-8, with a byte or more for its length
            found.update(some)
            if size > most:
                break
            yield None
        return tuple(found)

    def request_many(self, broker: int, request: Message, context: RequestContext) -> Work[Message]:
        """Answer a request about several groups, each by its coordinator."""
        asked, answered, id_of = _MANY[type(request)]
        parts: dict[int, tuple[PartitionState | None, list[Any]]] = {}
        for group in getattr(request, asked):
            partition = self.partition_for(id_of(group))
            index = -1 if partition is None else partition.index
            parts.setdefault(index, (partition, []))[1].append(group)
            yield None
        answers: list[Any] = []
        some = (
            (partition, groups[first : first + _GROUPS_AT_ONCE])
            for partition, groups in parts.values()
            for first in range(0, len(groups), _GROUPS_AT_ONCE)
        )
        for partition, groups in some:
            yield None
            part = replace(request, **{asked: tuple(groups)})
            there = partition is not None and self.cluster.has(partition)  # the topic may be deleted meanwhile
            running = self._of(partition, broker) if there else None
            if running is None:
                answers.append(self._nobody.failed(part, context, ErrorCode.NOT_COORDINATOR, ""))
            else:
                answers.append(self._ask(running, part, context))
        if not answers:
            nothing: Message = api_of(type(request)).response.cls()
            return nothing
        yield None  # so that a response that took long is encoded in the thread
        responses: list[Any] = [one.response if isinstance(one, Pending) else one for one in answers]
        everything = [group for one in responses for group in getattr(one, answered)]
        whole: Message = replace(responses[0], **{answered: tuple(everything)})
        return whole

    def failed(self, request: Message, context: RequestContext, code: ErrorCode) -> Message:
        """The answer to a request that failed as a whole."""
        return self._nobody.failed(request, context, code, "")

    def list_groups(self, broker: int, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """The groups of all partitions that a broker leads."""
        groups: list[Any] = []
        for partition in self._led_by(broker):
            running = self._of(partition, broker)
            if running is None:
                continue  # its log cannot be read
            answer = self._ask(running, request, context)
            groups += getattr(answer.response if isinstance(answer, Pending) else answer, "groups")  # noqa: B009
        return ListGroupsResponse(groups=tuple(groups))

    def end_transaction(
        self, partition: PartitionState, producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0
    ) -> None:
        """Write the marker of a transaction that committed offsets. Raises `AppendError` if nobody coordinates the partition."""
        running = self._of(partition, partition.leader)
        if running is None:
            raise AppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._advance(running)
        running.log.coordinator_epoch = coordinator_epoch
        running.runtime.end_transaction(producer_id, epoch, commit=commit)
        self._set_timer(running)

    def runtimes(self) -> dict[int, CoordinatorRuntime]:
        """The coordinators at work, by partition."""
        return {index: running.runtime for index, running in self._running.items()}

    def _ask(self, running: _Running, request: Message, context: RequestContext) -> Message | Pending[Any]:
        runtime = running.runtime
        now_ms = context.now_ms
        if running.stepped_ms != self.cluster.clock.stepped_ms:
            self._step(running)
        least_ms = runtime.shard.timers.none_before_ms()
        if least_ms is not None and least_ms <= now_ms:
            runtime.advance(now_ms)
        elif now_ms > runtime.now_ms:
            runtime.now_ms = now_ms
        answer = runtime.request(request, context)
        self._set_timer(running)
        if answer.done:
            assert answer.response is not None
            return answer.response  # type: ignore[no-any-return]
        return answer

    def _run_work(self, index: int, work: Generator[None, None, None], then: Callable[[], None]) -> bool:
        """Do a coordinator's long work with turns for other connections in between; what is due follows if that took longer."""
        at_once = True

        def done(_: None) -> None:
            running = None if at_once else self._running.get(index)
            if running is not None:
                self._advance(running)
            then()
            if running is not None:
                running.runtime.settle()
                self._set_timer(running)

        def failed(error: BaseException) -> None:
            self.cluster.failed("a coordinator's task", error)
            running = None if at_once else self._running.get(index)
            if running is not None:  # its other tasks are still to be done
                running.runtime.settle()
                self._set_timer(running)

        over = self.cluster.turns.run(work, done, failed)
        at_once = False
        return over

    def _set_timer(self, running: _Running) -> None:
        """Wake the coordinator when its next timer is due. A timer that is due later than that only makes it look in vain."""
        timers = running.runtime.shard.timers
        known_ms, least_ms = running.timer_at_ms, timers.none_before_ms()
        if least_ms is None or (known_ms is not None and known_ms <= least_ms):
            return
        at_ms = timers.next_at_ms()
        if at_ms is None or (known_ms is not None and known_ms <= at_ms):
            return
        if running.timer is not None:
            running.timer.cancel()
        running.timer_at_ms = at_ms
        running.timer = self.cluster.clock.call_at(at_ms, lambda: self._due(running))

    def _due(self, running: _Running) -> None:
        running.timer = running.timer_at_ms = None
        self._advance(running)
        self._set_timer(running)

    def _advance(self, running: _Running) -> None:
        """Do what is due."""
        now_ms = self.cluster.clock.now_ms()
        if running.stepped_ms != self.cluster.clock.stepped_ms:
            self._step(running)
        running.runtime.advance(max(now_ms, running.runtime.now_ms))

    def _step(self, running: _Running) -> None:
        """The clock was set: sessions last as long as before, as Kafka's do, whose timers have a clock of their own."""
        by_ms = self.cluster.clock.stepped_ms - running.stepped_ms
        running.stepped_ms += by_ms
        running.runtime.step(by_ms)
        if running.timer_at_ms is not None:
            running.timer_at_ms += by_ms

    def _led_by(self, broker: int) -> Iterable[PartitionState]:
        topic = self.cluster.topics.get(CONSUMER_OFFSETS)
        return [] if topic is None else [one for one in topic.partitions if one.leader == broker]


def _needs_a_name(request: Message) -> bool:
    """Whether to refuse a group without a name here: offsets may be kept without one, and the newer protocols have an error of their own for it."""
    return not isinstance(
        request,
        OffsetCommitRequest | OffsetFetchRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest,
    )
