"""Topics are created and deleted (CreateTopics, DeleteTopics; ReplicationControlManager)."""

from collections.abc import Mapping, Sequence

from quorate.cluster.broker_configs import MAX_PARTITIONS
from quorate.cluster.controller.controller import Controller
from quorate.cluster.controller.records import topic_records
from quorate.cluster.log_manager import LogManager
from quorate.cluster.placement import place
from quorate.cluster.services import Services
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import INTERNAL, PartitionState, TopicState, is_valid_name, wake
from quorate.cluster.turns import Work, at_once
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.metadata_records import RemoveTopicRecord
from quorate.codecs.printable import brief
from quorate.coordinator.errors import ApiError

__all__ = ["TopicControl"]

_PARTITIONS_AT_ONCE = 200
"""New partitions that are made without others having their turn."""


class TopicControl:
    """Which topics exist."""

    def __init__(self, services: Services, controller: Controller, logs: LogManager) -> None:
        self.controller = controller
        self._services = services
        self._broker_configs = services.broker_configs
        self._state = services.state
        self._logs = logs

    # ---- what is allowed

    def check_room(self, partitions: int) -> None:
        """Raises `ApiError` if so many more partitions are too many for this process."""
        most = self._broker_configs.number(MAX_PARTITIONS)
        if self._state.partition_count + partitions > most:
            have = self._state.partition_count
            problem = f"the cluster has {have:,} partitions, and may have {most:,}; raise {MAX_PARTITIONS}"
            raise ApiError(ErrorCode.POLICY_VIOLATION, problem)

    def check_new_name(self, name: str) -> None:
        """Raises `ApiError` if no topic may have this name, or one has it, or one that metrics could not tell from it."""
        if not is_valid_name(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {brief(name)!r}")
        if name in self._state.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        if clash := self._state.same_metric_name(name):
            problem = f"{name} could not be told from {min(clash)} in metrics' names"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

    def check_assignment(self, assignment: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Brokers for partitions.

        Raises `ApiError` for none, one that is named twice, and one that does not exist.
        """
        for brokers in assignment:
            if not brokers or len(set(brokers)) != len(brokers):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {list(brokers)} are none, or named twice"
                )
            if unknown := sorted(set(brokers) - self._state.brokers.keys()):
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is no broker {unknown[0]}")
        return [tuple(brokers) for brokers in assignment]

    def placed(self, partitions: int, replicas: int) -> list[tuple[int, ...]]:
        """Brokers for new partitions.

        Raises `ApiError` if there are fewer brokers than replicas.
        """
        up = self._state.alive
        if not 1 <= replicas <= len(up):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"a replication factor of {replicas} cannot be with {len(up)} brokers that are up",
            )
        return place(up, partitions, replicas, self._services.random)

    # ---- creating

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replicas: int = -1,
        assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
        only_check: bool = False,
    ) -> TopicState:
        """Create a topic at once. -1: the brokers' default. Raises `ApiError`."""
        with self.controller.changes.at_once():
            self.check_new_name(name)
            topic = at_once(self.new_topic(name, partitions, replicas, assignment, config))
            if only_check:
                return topic
            if refused := at_once(self.enter_topics([topic])):
                raise refused[name]
            return self._state.topics[name]

    def new_topic(
        self,
        name: str,
        partitions: int,
        replicas: int,
        assignment: Sequence[Sequence[int]] | None,
        config: Mapping[str, str] | None,
    ) -> Work[TopicState]:
        """A topic that does not exist before `enter_topics`. Raises `ApiError`."""
        if assignment is None:
            count = self._broker_configs.number("num.partitions") if partitions == -1 else partitions
            factor = self._broker_configs.number("default.replication.factor") if replicas == -1 else replicas
            if count <= 0:
                raise ApiError(ErrorCode.INVALID_PARTITIONS, f"a topic cannot have {count} partitions")
            self.check_room(count)
            chosen = self.placed(count, factor)
        else:
            self.check_room(len(assignment))
            chosen = self.check_assignment(assignment)
        topic_id = self._services.new_uuid()
        while topic_id in self._state.topics_by_id:  # with the same seed ids come again after a restart
            topic_id = self._services.new_uuid()
        topic = TopicState(name, topic_id, [], dict(config or {}), name in INTERNAL)
        yield from self.new_partitions(topic, chosen)
        return topic

    def new_partitions(self, topic: TopicState, assignment: Sequence[Sequence[int]]) -> Work[list[PartitionState]]:
        """Add partitions to a topic that does not exist yet, or to a copy of one that does; returns them."""
        have = len(topic.partitions)
        for start in range(0, len(assignment), _PARTITIONS_AT_ONCE):
            topic.add_partitions(assignment[start : start + _PARTITIONS_AT_ONCE], self._state.alive)
            yield None
        return topic.partitions[have:]

    def enter_topics(self, topics: Sequence[TopicState]) -> Work[dict[str, ApiError]]:
        """Have new topics exist, all from the same moment on: their records are one batch, as those of KRaft's controller.

        Returns why some are refused: there is no room for them, their logs cannot be made, or the
        disk is full.
        """
        refused: dict[str, ApiError] = {}
        for topic in topics:
            try:
                yield from self._logs.configuring(topic)
                yield None
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
        have_logs = [topic for topic in topics if topic.name not in refused]
        try:
            batch = yield from self.controller.preparing(lambda: self._entering(have_logs, refused))
            if not self._services.turns.closing:
                self.controller.commit(batch)
        except ApiError as refusal:
            refused |= {topic.name: refusal for topic in have_logs if topic.name not in refused}
        if self._services.turns.closing:  # some of the request may have been refused for want of brokers: all of it is
            refused = {topic.name: ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster stops") for topic in topics}
        for topic in topics:
            if topic.name in refused:
                yield from self._logs.dropping(topic, topic.partitions)
        return refused

    def _entering(self, topics: Sequence[TopicState], refused: dict[str, ApiError]) -> Work[MetadataBatch]:
        """Check new topics once more, and give the records of those that are not `refused`."""
        entered = []
        partitions = 0
        up = self._state.alive
        for topic in topics:
            refused.pop(topic.name, None)
            try:
                self.check_new_name(topic.name)  # an internal topic may have been created since
                self.check_room(partitions + len(topic.partitions))
                for partition in topic.partitions:
                    partition.elect(up)  # brokers may have come or gone
                yield from self._logs.preparing(topic, topic.partitions)  # their configs may have changed
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
            else:
                entered.append(topic)
                partitions += len(topic.partitions)
            yield None
        brokers = self._state.brokers
        return (yield from self.controller.encoding(one for topic in entered for one in topic_records(topic, brokers)))

    def internal_topic(self, name: str) -> TopicState:
        """`__consumer_offsets` or `__transaction_state`, created when it is needed first.

        With fewer brokers than its replicas, it has as many as there are.
        """
        found = self._state.topics.get(name)
        if found is not None:
            return found
        prefix, config = INTERNAL[name]
        replicas = min(self._broker_configs.number(f"{prefix}.replication.factor"), len(self._state.alive))
        partitions = self._broker_configs.number(f"{prefix}.num.partitions")
        config = {**config, "segment.bytes": self._broker_configs.get(f"{prefix}.segment.bytes")}
        with self.controller.changes.between():  # it is for a small request, which does not wait for large ones
            return self.create_topic(name, partitions=partitions, replicas=replicas, config=config)

    # ---- deleting

    def delete_topic(self, name: str) -> None:
        """Delete a topic at once. Raises `ApiError` if it does not exist, or on a full disk."""
        with self.controller.changes.at_once():
            topic = self._state.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            at_once(self.delete_topics([topic]))

    def delete_topics(self, topics: Sequence[TopicState]) -> Work[None]:
        """Delete topics, all at the same moment, then their folders.

        Raises `ApiError` on a full disk, and deletes nothing.
        """
        removals = [RemoveTopicRecord(topic_id=topic.id) for topic in topics]
        batch = yield from self.controller.preparing(lambda: self.controller.encoding(removals))
        self.controller.commit(batch)
        for topic in topics:
            self._logs.forget(topic)
        for topic in topics:
            for partition in topic.partitions:
                wake(partition)
                yield None
        yield from self._logs.removing([one for topic in topics for one in topic.partitions])
