"""Changes of partitions: CreatePartitions, AlterPartitionReassignments, ElectLeaders."""

from collections.abc import Sequence
from dataclasses import replace

from quorate.cluster.controller.controller import Controller
from quorate.cluster.controller.records import election_record, partition_record
from quorate.cluster.controller.topics import TopicControl
from quorate.cluster.log_manager import LogManager
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import NO_LEADER, Elections, PartitionState, TopicState, wake
from quorate.cluster.turns import Work, at_once
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError


class PartitionControl:
    """Adds partitions to existing topics, and changes their replicas and leaders."""

    def __init__(self, controller: Controller, logs: LogManager, topics: TopicControl) -> None:
        self._controller = controller
        self._state = controller.state
        self._logs = logs
        self._topics = topics

    # ---- new partitions

    def add_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None = None,
        *,
        only_check: bool = False,
    ) -> None:
        """Increase a topic's number of partitions at once. Raises `ApiError`."""
        with self._controller.changes.at_once():
            at_once(self.adding_partitions(name, count, assignment, only_check=only_check))

    def adding_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None,
        *,
        only_check: bool,
    ) -> Work[None]:
        """Increase a topic's number of partitions, in turns. All of them become visible at once.

        Raises `ApiError`.
        """
        topic = self._state.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        current = len(topic.partitions)
        if count <= current:
            problem = f"The topic {name} currently has {current} partition(s); {count} would not be an increase."
            if count == current:
                problem = f"Topic already has {current} partition(s)."
            raise ApiError(ErrorCode.INVALID_PARTITIONS, problem)
        if assignment is None:
            chosen = self._topics.place_replicas(count - current, len(topic.partitions[0].replicas))
        else:
            if len(assignment) != count - current:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {count - current} additional partition(s), but only {len(assignment)} "
                    "assignment(s) were specified.",
                )
            chosen = self._topics.check_new_partitions(assignment, len(topic.partitions[0].replicas))
        self._topics.check_partition_limit(count - current)
        if only_check:
            return
        grown = replace(topic, partitions=list(topic.partitions))
        added = yield from self._topics.new_partitions(grown, chosen)
        try:
            batch = yield from self._controller.preparing(lambda: self._adding(grown, added))
            self._controller.commit(batch)
        except (OSError, ApiError) as error:
            yield from self._logs.discard_logs(topic, added)
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from None

    def _adding(self, grown: TopicState, added: Sequence[PartitionState]) -> Work[MetadataBatch]:
        """Elect leaders of new partitions, prepare their logs, and return their records.

        Brokers may have started or stopped since the partitions were prepared.
        """
        up, brokers = self._state.alive, self._state.brokers
        for partition in added:
            partition.elect(up)
        yield from self._logs.create_logs(grown, added)
        return (yield from self._controller.encoding(partition_record(grown.id, one, brokers) for one in added))

    # ---- replicas

    def reassign(self, partition: PartitionState, brokers: Sequence[int] | None) -> None:
        """Assign other replicas to a partition, at once: replicas share a log.

        Raises `ApiError`.
        """
        with self._controller.changes.at_once():
            self._reassign(partition, brokers)

    def _reassign(self, partition: PartitionState, brokers: Sequence[int] | None) -> None:
        if not self._state.has(partition):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if brokers is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        self._topics.check_assignment(brokers)
        replicas = tuple(brokers)
        before = partition.replicas
        election = Elections(self._state.alive)[replicas, (), partition.leader]
        topic_id = self._state.topics[partition.topic].id
        change = election_record(topic_id, partition, election, None if replicas == before else replicas)
        data = self._logs.data
        try:
            if data is not None:
                data.spread(partition.topic, partition.index, replicas)
            self._controller.append([change])
        except (OSError, ApiError) as error:
            if data is not None:
                data.not_spread(
                    partition.topic, partition.index, [replica for replica in replicas if replica not in before]
                )
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from None
        if data is not None:
            data.moved(partition.topic, partition.index, partition.replicas)
        wake(partition)

    # ---- leaders

    def preferred_leader(self, partition: PartitionState) -> Message | None:
        """Return the record that elects the preferred leader; `None` if it leads already.

        Raises `ApiError` if its broker is fenced.
        """
        up = self._state.alive
        if partition.replicas[0] not in up:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            raise ApiError(code, code.text)
        election = Elections(up)[partition.replicas, partition.in_sync, NO_LEADER]
        if election[0] == partition.leader:
            return None
        return election_record(self._state.topics[partition.topic].id, partition, election)

    def move_leader(self, partition: PartitionState, broker: int) -> None:
        """Make a replica the preferred leader, and elect it at once. Raises `ApiError`."""
        self.reassign(partition, [broker, *(one for one in partition.replicas if one != broker)])
        change = self.preferred_leader(partition)
        if change is not None:
            with self._controller.changes.at_once():
                self._controller.append([change])
