"""Creation and deletion of topics (in Kafka: ReplicationControlManager)."""

from collections.abc import Mapping, Sequence

from quorate.cluster.broker_configs import MAX_PARTITIONS
from quorate.cluster.controller.controller import Controller
from quorate.cluster.controller.records import topic_records
from quorate.cluster.log_manager import LogManager
from quorate.cluster.placement import place
from quorate.cluster.services import Services
from quorate.cluster.storage.metadata import MetadataBatch
from quorate.cluster.topics import INTERNAL, PartitionState, TopicState, is_valid_name, name_problem, wake
from quorate.cluster.turns import Work, at_once
from quorate.codecs import SHARE_GROUP_STATE
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.metadata_records import RemoveTopicRecord
from quorate.coordinator.errors import ApiError

_PARTITIONS_AT_ONCE = 200
_NO_REPLICAS = "Replication factor must be larger than 0, or -1 to use the default value."
"""New partitions that are prepared in one turn."""


class TopicControl:
    """Creates and deletes topics."""

    def __init__(self, services: Services, controller: Controller, logs: LogManager) -> None:
        self.controller = controller
        self._services = services
        self._broker_configs = services.broker_configs
        self._state = services.state
        self._logs = logs

    # ---- checks

    def check_partition_limit(self, partitions: int) -> None:
        """Raise `ApiError` if so many new partitions exceed the limit of this process."""
        most = self._broker_configs.number(MAX_PARTITIONS)
        if self._state.partition_count + partitions > most:
            problem = (
                f"the cluster has {self._state.partition_count:,} of at most {most:,} partitions; "
                f"raise {MAX_PARTITIONS}"
            )
            raise ApiError(ErrorCode.POLICY_VIOLATION, problem)

    def check_new_name(self, name: str) -> None:
        """Raise `ApiError` for an invalid name, a topic that exists, or a collision in metrics."""
        if not is_valid_name(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, name_problem(name))
        if name in self._state.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if clash := self._state.same_metric_name(name):
            problem = f"Topic '{name}' collides with existing topic: {min(clash)}"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

    def check_new_partitions(
        self, assignment: Sequence[Sequence[int]], replicas: int | None = None
    ) -> list[tuple[int, ...]]:
        """Return a manual assignment of brokers to new partitions. `replicas`: of each, if known.

        Raises `ApiError`, also if partitions have different numbers of replicas, or no live one.
        """
        for index, brokers in enumerate(assignment):
            self.check_assignment(brokers)
            if replicas is not None and len(brokers) != replicas:
                raise _invalid_assignment(
                    f"includes a partition with {len(brokers)} replica(s), but this is not consistent with previous "
                    f"partitions, which have {replicas} replica(s)."
                )
            replicas = len(brokers)
            if self._state.alive.keys().isdisjoint(brokers):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                    "controlled shutdown.",
                )
        return [tuple(brokers) for brokers in assignment]

    def check_assignment(self, brokers: Sequence[int]) -> None:
        """Check the replicas of a partition.

        Raises `ApiError` if there are none, and for a duplicate or an unknown broker.
        """
        if not brokers:
            raise _invalid_assignment("includes an empty replica list.")
        seen: set[int] = set()
        for broker in sorted(brokers):
            if broker not in self._state.brokers:
                raise _invalid_assignment(f"includes broker {broker}, but no such broker is registered.")
            if broker in seen:
                raise _invalid_assignment(f"includes the broker {broker} more than once.")
            seen.add(broker)

    def place_replicas(self, partitions: int, replicas: int) -> list[tuple[int, ...]]:
        """Choose brokers for new partitions.

        Raises `ApiError` if there are fewer live brokers than replicas.
        """
        up = self._state.alive
        if not 1 <= replicas <= len(up):
            problem = _NO_REPLICAS
            if replicas > len(up):
                cordons = self._broker_configs.behaviour.cordons_directories
                cordoned = " or some brokers have all their log directories cordoned" if cordons else ""
                problem = (
                    f"Unable to replicate the partition {replicas} time(s): The target replication factor of "
                    f"{replicas} cannot be reached because only {len(up)} broker(s) are registered{cordoned}."
                )
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
        return place(up, partitions, replicas, self._services.random)

    # ---- creation

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
        """Create a topic at once. -1 means the brokers' default. Raises `ApiError`."""
        with self.controller.changes.at_once():
            self.check_new_name(name)
            topic = at_once(self.new_topic(name, partitions, replicas, assignment, config))
            if only_check:
                return topic
            if refused := at_once(self.commit_topics([topic])):
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
        """Prepare a topic, which `commit_topics` creates. Raises `ApiError`."""
        if assignment is None:
            count = self._broker_configs.number("num.partitions") if partitions == -1 else partitions
            factor = self._broker_configs.number("default.replication.factor") if replicas == -1 else replicas
            if factor <= 0:
                raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, _NO_REPLICAS)
            if count <= 0:
                raise ApiError(
                    ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
                )
            self.check_partition_limit(count)
            chosen = self.place_replicas(count, factor)
        else:
            self.check_partition_limit(len(assignment))
            chosen = self.check_new_partitions(assignment)
        topic_id = self._services.new_uuid()
        while topic_id in self._state.topics_by_id:  # a seeded generator repeats ids after a restart
            topic_id = self._services.new_uuid()
        topic = TopicState(name, topic_id, [], dict(config or {}), name in INTERNAL)
        yield from self.new_partitions(topic, chosen)
        return topic

    def new_partitions(self, topic: TopicState, assignment: Sequence[Sequence[int]]) -> Work[list[PartitionState]]:
        """Add partitions to a prepared topic, or to a copy of an existing one, and return them."""
        before = len(topic.partitions)
        for start in range(0, len(assignment), _PARTITIONS_AT_ONCE):
            topic.add_partitions(assignment[start : start + _PARTITIONS_AT_ONCE], self._state.alive)
            yield None
        return topic.partitions[before:]

    def commit_topics(self, topics: Sequence[TopicState]) -> Work[dict[str, ApiError]]:
        """Create prepared topics, all in one batch of records, as KRaft's controller does.

        Returns the errors of topics that were rejected: the partition limit is exceeded, their logs
        cannot be created, or the disk is full.
        """
        refused: dict[str, ApiError] = {}
        for topic in topics:
            try:
                yield from self._logs.configure(topic)
                yield None
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
        have_logs = [topic for topic in topics if topic.name not in refused]
        try:
            batch = yield from self.controller.preparing(lambda: self._committing(have_logs, refused))
            if not self._services.turns.closing:
                self.controller.commit(batch)
        except ApiError as refusal:
            refused |= {topic.name: refusal for topic in have_logs if topic.name not in refused}
        if self._services.turns.closing:  # brokers may have stopped halfway; reject the whole request
            stopping = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster is stopping")
            refused = {topic.name: stopping for topic in topics}
        for topic in topics:
            if topic.name in refused:
                yield from self._logs.discard_logs(topic, topic.partitions)
        return refused

    def _committing(self, topics: Sequence[TopicState], refused: dict[str, ApiError]) -> Work[MetadataBatch]:
        """Check prepared topics again, and return the records of the valid ones.

        Adds the errors of the others to `refused`.
        """
        valid = []
        partitions = 0
        up = self._state.alive
        for topic in topics:
            refused.pop(topic.name, None)
            try:
                self.check_new_name(topic.name)  # an internal topic may have been created since
                self.check_partition_limit(partitions + len(topic.partitions))
                for partition in topic.partitions:
                    partition.elect(up)  # brokers may have started or stopped
                yield from self._logs.create_logs(topic, topic.partitions)  # their configs may have changed
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
            else:
                valid.append(topic)
                partitions += len(topic.partitions)
            yield None
        brokers = self._state.brokers
        return (
            yield from self.controller.encoding(
                topic_record for topic in valid for topic_record in topic_records(topic, brokers)
            )
        )

    def internal_topic(self, name: str) -> TopicState:
        """Return an internal topic, and create it on first use.

        Its replication factor is at most the number of live brokers.
        """
        found = self._state.topics.get(name)
        if found is not None:
            return found
        prefix, config = INTERNAL[name]
        replicas = min(self._broker_configs.number(f"{prefix}.replication.factor"), len(self._state.alive))
        partitions = self._broker_configs.number(f"{prefix}.num.partitions")
        config = {**config, "segment.bytes": self._broker_configs.get(f"{prefix}.segment.bytes")}
        if name == SHARE_GROUP_STATE:
            config["min.insync.replicas"] = str(min(self._broker_configs.number(f"{prefix}.min.isr"), replicas))
        with self.controller.changes.between():  # a small request does not wait for large ones
            return self.create_topic(name, partitions=partitions, replicas=replicas, config=config)

    # ---- deletion

    def delete_topic(self, name: str) -> None:
        """Delete a topic at once. Raises `ApiError` if it does not exist, or on a full disk."""
        with self.controller.changes.at_once():
            topic = self._state.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            at_once(self.delete_topics([topic]))

    def delete_topics(self, topics: Sequence[TopicState]) -> Work[None]:
        """Delete topics, all in one batch of records, then their folders.

        Raises `ApiError` on a full disk, and then deletes nothing.
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
        yield from self._logs.delete_logs([one for topic in topics for one in topic.partitions])


def _invalid_assignment(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")
