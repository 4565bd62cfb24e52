"""`ClusterCore`: what the brokers of a cluster share: topics, who leads, settings, coordinators. It is the controller, too, and there is no network in it.

Everything happens in one thread, that of the loop which the brokers run in; so nothing here needs locks, and a change is seen by all brokers at once.

Longer than a module should be, as every change takes the same way: it is made, logs are given, it is written down, coordinators see it, fetches that wait are told. What can be decided
without that is elsewhere (`placement`, `persistence`, `maintenance`).
"""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from quorate.cluster.apis.versions import check_levels, finalized
from quorate.cluster.authorizer import Acls, Authorizer
from quorate.cluster.broker import Broker
from quorate.cluster.changes import Changes
from quorate.cluster.clock import Clock, RealClock
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Faults
from quorate.cluster.groups import GroupCoordinators
from quorate.cluster.log_config import LogConfig
from quorate.cluster.maintenance import Maintenance
from quorate.cluster.meter import Meter
from quorate.cluster.persistence import INTERNAL, facts_of, restore, state_of
from quorate.cluster.placement import place
from quorate.cluster.quotas import Quotas
from quorate.cluster.scram import ScramCredentials
from quorate.cluster.security import Security
from quorate.cluster.settings import MOST_PARTITIONS, Settings
from quorate.cluster.storage.data import DataDirectory, why_unusable
from quorate.cluster.storage.metadata import TopicsChange
from quorate.cluster.storage.metadata_state import TopicFacts
from quorate.cluster.topics import Election, Elections, PartitionState, TopicState, is_valid_name
from quorate.cluster.transactions import TransactionCoordinators
from quorate.cluster.turns import Turns, Work, at_once, parts
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.printable import brief
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import GroupConfig
from quorate.coordinator.errors import ApiError
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import AppendError

__all__ = ["ClusterCore"]

T = TypeVar("T")
Moves = tuple[TopicState, list[tuple[PartitionState, Election]]]
"""A topic, and those of its partitions which get other leaders or replicas in sync."""

_MOST_NOTES = 10_000
"""A client that is refused over and over again must not fill the memory with what is said of it."""

_MOST_NOTE = 2_000
"""Characters in a line of a note."""
_MOST_TRACE = 20_000
_MOST_FAILURES = 100
_TELL_AGAIN_MS = 1_000
_MOST_KNOWN_CONFIGS = 1_000
_PARTITIONS_AT_ONCE = 200
"""New partitions that are made without others having their turn."""
_TRIES = 3
"""How often a change is prepared if something that it depends on changes meanwhile; the last time at once."""


class ClusterCore:
    """A cluster. `notes`: what was said besides responses, the last thousands of it; `failures`: the first hundred tracebacks of faults of quorate's own, of which there were `failure_count`; `meter`: counts what is answered, if there is one.

    `racks`: broker id → rack; `properties`: brokers' settings by Kafka's names; `data`: the directory that everything is kept in, else it is in memory; `accept_data_loss`: start although
    data in it is missing or damaged, else that is a `ClusterError`; `start_notes`: what the start noticed in it; `seed`: of what is random (ids, places, choices). A directory with a cluster goes on with it. Raises `ClusterError` if it cannot be used.
    """

    def __init__(
        self,
        racks: Mapping[int, str | None],
        *,
        properties: Mapping[str, Any] | None = None,
        data: str | PathLike[str] | None = None,
        accept_data_loss: bool = False,
        clock: Clock | None = None,
        security: Security | None = None,
        seed: int | None = None,
        on_note: Callable[[str], object] | None = None,
    ) -> None:
        self.settings = Settings.of(properties or {})
        self.acls = Acls()
        self.authorizer = Authorizer.of(self.settings.properties, self.acls)
        self.features = finalized(self.settings.coordinator.kafka_version)
        self.features_epoch = 0  # goes up with each change: clients take no older ones
        self.meter: Meter | None = None
        self.notes: list[str] = []
        self.failures: list[str] = []
        self.failure_count = 0
        self.clock: Clock = clock or RealClock()
        self.security = security or Security()
        self.credentials = ScramCredentials(self.security.users, self.security.mechanisms)
        self.random = Random(seed)
        self.cluster_id = str(self.new_uuid())
        self.topics: dict[str, TopicState] = {}
        self.topics_by_id: dict[Uuid, TopicState] = {}
        self._partitions = 0  # of all topics
        self._metric_names: dict[str, set[str]] = {}  # topics that come together may share one
        self.group_configs: dict[str, GroupConfig] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}  # subscriptions by name
        self.client_metrics_version = 0  # how often they have changed
        self.group_settings: dict[str, dict[str, str]] = {}  # what group_configs was made of, and what is only kept
        self.faults = Faults(self)
        self.quotas: Quotas = {}
        self._on_note = on_note or (lambda text: None)
        self.brokers = {broker: Broker(self, broker, rack) for broker, rack in sorted(racks.items())}
        self._leadership: dict[str, int] = {}
        self._log_configs: dict[str, tuple[dict[str, str], list[int]]] = {}
        self._known_configs: dict[tuple[frozenset[tuple[str, str]], int], LogConfig] = {}
        self.image = MetadataImage.EMPTY
        self.groups = GroupCoordinators(self)
        self.transactions = TransactionCoordinators(self)
        self.maintenance = Maintenance(self)
        self.turns = Turns(partial(self.failed, "a large request"))
        self.changes = Changes()
        self.data: DataDirectory | None = None
        self._has_started = False
        self._told_ms: int | None = None
        self._version = 0  # goes up with all that a change in progress may depend on
        self.unrecorded = 0  # changes that should be on the disk, and could not be written
        self._unwritten: set[Uuid] | None = None  # topics that may differ from what is written down; `None`: all may
        if data is not None:
            durable = "log.flush.interval.messages" in self.settings.properties
            now_ms = self.clock.now_ms()
            self.data = DataDirectory(
                data,
                new_id=self.cluster_id,
                now_ms=now_ms,
                on_note=self.note,
                durable=durable,
                accept_data_loss=accept_data_loss,
            )
            try:
                restore(self, self.data)
                self.data.inspect(
                    (
                        topic.name,
                        one.index,
                        topic.id,
                        one.replicas,
                        LogConfig.of(self.settings, topic.config, -1).compact,
                    )
                    for topic in self.topics.values()
                    for one in topic.partitions
                )
                for topic in self.topics.values():
                    self._equip(topic)
            except OSError as error:
                self.data.release()
                raise ClusterError(why_unusable(data, error)) from None
            except BaseException:
                self.data.release()
                raise
        self.start_notes = tuple(self.notes)
        self._publish(*self.topics.values())

    def new_uuid(self) -> Uuid:
        """A random id."""
        return Uuid(UUID(int=self.random.getrandbits(128), version=4).bytes)

    def note(self, text: str, trace: str = "") -> None:
        """Report what no response can say, in one line, which may be followed by a traceback.

        Clients choose names and ids in it: nothing in it acts on a terminal, and it has a largest size.
        """
        text = brief(text, _MOST_NOTE)
        if trace:
            text += ":\n" + "\n".join(brief(line, _MOST_NOTE) for line in trace[-_MOST_TRACE:].splitlines())
        if len(self.notes) >= _MOST_NOTES:
            del self.notes[: _MOST_NOTES // 2]
        self.notes.append(text)
        self._on_note(text)

    def failed(self, what: str, error: BaseException, where: str = "") -> None:
        """Report that something failed by a fault of quorate's own, count it, and keep its traceback. `where`: the note begins with it."""
        trace = "".join(traceback.format_exception(error))
        self.note(f"{where}{what} failed, which is a fault of quorate's", trace)
        self.failure_count += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(trace[-_MOST_TRACE:])

    # ---- brokers

    @property
    def alive(self) -> dict[int, str | None]:
        """Brokers that are up, with their racks."""
        return {broker.id: broker.rack for broker in self.brokers.values() if broker.alive}

    @property
    def controller(self) -> int:
        """The broker that clients are told is the controller: the first that is up. -1 if none is."""
        return min(self.alive, default=-1)

    def broker_changed(self) -> None:
        """A broker came, went, or is in another rack: partitions get leaders accordingly."""
        elections = Elections(self.alive)
        moves = [(topic, moved) for topic in self.topics.values() if (moved := elections.moved(topic.partitions))]
        self._lead(moves)
        self._publish(*(topic for topic, _ in moves))
        self._leaders_changed()

    def removing_broker(self, broker: int, leave: Callable[[], bool]) -> Work[bool]:
        """Have other brokers lead in the place of one that leaves, in turns: it leaves, and they lead, at the same moment.

        `leave`: makes the broker leave, and returns whether it still is to; if it is not, nothing changes. Returns the same.
        """

        def electing() -> Work[tuple[list[Moves], list[TopicImage], TopicsChange | None]]:
            elections = Elections(self.alive.keys() - {broker})
            moves, images = [], []
            for topic in list(self.topics.values()):
                moved = []
                for some in parts(topic.partitions):
                    moved += elections.moved(some)
                    yield None
                if moved:
                    moves.append((topic, moved))
                    images.append(self._image_of(topic, self._leadership.get(topic.name, 0) + 1))
            change = yield from self._encoding((topic.id, facts_of(topic, moved)) for topic, moved in moves)
            return moves, images, change

        try:
            moves, images, change = yield from self._preparing(electing)
        except ApiError:  # the disk is full: the broker leaves all the same, and it is written down later
            if leaves := leave():
                self.broker_changed()
            return leaves
        if not leave():
            return False
        self._lead(moves)
        topics = [topic for topic, _ in moves]
        self._commit_or_later(topics, change)
        self._keep(())
        self._show_images(images)
        self._leaders_changed()
        for topic in topics:
            if topic.id in self.topics_by_id:
                yield from self._equipping(topic)
            yield None
        return True

    def _lead(self, moves: Sequence[Moves]) -> None:
        for topic, moved in moves:
            for partition, elected in moved:
                partition.lead(*elected)
            self._leadership[topic.name] = self._leadership.get(topic.name, 0) + 1

    def add_broker(self, rack: str | None) -> Broker:
        """A broker more, with the next number, which the controller does not know until it is `registered`; then `broker_changed` is to be called."""
        added = Broker(self, max(self.brokers) + 1, rack)
        added.registered = False
        self.brokers = {**self.brokers, added.id: added}  # another one: somebody may be going through the old one
        return added

    def remove_broker(self, broker: int) -> None:
        """Stop a broker and forget it. Raises `ClusterError`, and leaves it as it is, while it has replicas, or if it is the last one."""
        self.changes.finish()  # new partitions may have replicas on it
        found = self.need_broker(broker)
        replicas = sum(broker in one.replicas for topic in self.topics.values() for one in topic.partitions)
        if replicas:
            raise ClusterError(f"broker {broker} has replicas of {replicas} partitions; move them to others first")
        if len(self.brokers) == 1:
            raise ClusterError(f"broker {broker} is the last one; stop the cluster instead")
        found.stop()
        self.brokers = {number: one for number, one in self.brokers.items() if number != broker}
        self.broker_changed()

    # ---- topics

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """A partition, if there is one."""
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None

    def has(self, partition: PartitionState) -> bool:
        """Whether a partition still exists: another topic may have the name by now."""
        return self.partition(partition.topic, partition.index) is partition

    def placed(self, partitions: int, replicas: int) -> list[tuple[int, ...]]:
        """Brokers for new partitions. Raises `ApiError` if there are fewer brokers than replicas."""
        up = self.alive
        if not 1 <= replicas <= len(up):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"a replication factor of {replicas} cannot be with {len(up)} brokers that are up",
            )
        return place(up, partitions, replicas, self.random)

    def _check_room(self, partitions: int) -> None:
        """Raises `ApiError` if so many more partitions are too many for this process."""
        most = self.settings.number(MOST_PARTITIONS)
        if self._partitions + partitions > most:
            told = f"the cluster has {self._partitions:,} partitions, and may have {most:,}; raise {MOST_PARTITIONS}"
            raise ApiError(ErrorCode.POLICY_VIOLATION, told)

    def check_new_name(self, name: str) -> None:
        """Raises `ApiError` if no topic may have this name, or one has it, or one that metrics could not tell from it."""
        if not is_valid_name(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {brief(name)!r}")
        if name in self.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
        if clash := self._metric_names.get(_metric_name(name)):
            told = f"{name} could not be told from {min(clash)} in metrics' names"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, told)

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
        """Make a topic at once. -1: the brokers' default. Raises `ApiError`."""
        with self.changes.at_once():
            self.check_new_name(name)
            topic = at_once(self.new_topic(name, partitions, replicas, assignment, config))
            if not only_check and (refused := at_once(self.enter_topics([topic]))):
                raise refused[name]
            return topic

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
            count = self.settings.number("num.partitions") if partitions == -1 else partitions
            factor = self.settings.number("default.replication.factor") if replicas == -1 else replicas
            if count <= 0:
                raise ApiError(ErrorCode.INVALID_PARTITIONS, f"a topic cannot have {count} partitions")
            self._check_room(count)
            chosen = self.placed(count, factor)
        else:
            self._check_room(len(assignment))
            chosen = self.check_assignment(assignment)
        topic_id = self.new_uuid()
        while topic_id in self.topics_by_id:  # with the same seed ids come again after a restart
            topic_id = self.new_uuid()
        topic = TopicState(name, topic_id, [], dict(config or {}), name in INTERNAL)
        for start in range(0, len(chosen), _PARTITIONS_AT_ONCE):
            topic.add_partitions(chosen[start : start + _PARTITIONS_AT_ONCE], self.alive)
            yield None
        return topic

    def enter_topics(self, topics: Sequence[TopicState]) -> Work[dict[str, ApiError]]:
        """Have new topics exist, all from the same moment on, as KRaft's controller writes one atomic batch.

        They are written down before they are visible. Returns why some are refused: there is no room
        for them, their logs cannot be made, or the disk is full.
        """
        refused: dict[str, ApiError] = {}
        for topic in topics:
            try:
                yield from self._equipping(topic)
                yield None
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
        equipped = [topic for topic in topics if topic.name not in refused]
        try:
            entered, change = yield from self._preparing(lambda: self._entering(equipped, refused))
            if not self.turns.closing:
                self._enter_all(entered, change)
        except ApiError as refusal:
            refused |= {topic.name: refusal for topic in equipped if topic.name not in refused}
        if self.turns.closing:  # some of the request may have been refused for want of brokers: all of it is
            refused = {topic.name: ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster stops") for topic in topics}
        for topic in topics:
            if topic.name in refused:
                yield from self._unequipping(topic.partitions)
        return refused

    def _entering(
        self, topics: Sequence[TopicState], refused: dict[str, ApiError]
    ) -> Work[tuple[list[TopicState], TopicsChange | None]]:
        """Check new topics once more, and encode that those exist which are not `refused`."""
        entered = []
        partitions = 0
        up = self.alive
        for topic in topics:
            refused.pop(topic.name, None)
            try:
                self.check_new_name(topic.name)  # an internal topic may have been created since
                self._check_room(partitions + len(topic.partitions))
                for partition in topic.partitions:
                    partition.elect(up)  # brokers may have come or gone
                yield from self._equipping(topic)  # their configs may have changed
            except ApiError as refusal:
                refused[topic.name] = refusal
            except OSError as error:
                refused[topic.name] = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror)
            else:
                entered.append(topic)
                partitions += len(topic.partitions)
            yield None
        change = yield from self._encoding((topic.id, facts_of(topic)) for topic in entered)
        return entered, change

    def _enter_all(self, topics: Sequence[TopicState], change: TopicsChange | None) -> None:
        """Have topics exist. Raises `ApiError` if that cannot be written down."""
        for topic in topics:
            self.enter(topic)
        try:
            self._commit(topics, change)
        except ApiError:
            for topic in topics:
                self._leave(topic)
            raise
        self._show(topics)

    def enter(self, topic: TopicState) -> None:
        """There is a topic from now on, which nobody is told yet."""
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        self._metric_names.setdefault(_metric_name(topic.name), set()).add(topic.name)
        self._partitions += len(topic.partitions)

    def _leave(self, topic: TopicState) -> None:
        del self.topics[topic.name], self.topics_by_id[topic.id]
        self._metric_names[_metric_name(topic.name)].discard(topic.name)
        self._partitions -= len(topic.partitions)

    def internal_topic(self, name: str) -> TopicState:
        """`__consumer_offsets` or `__transaction_state`, made when it is needed first. With fewer brokers than its replicas, it has as many as there are."""
        found = self.topics.get(name)
        if found is not None:
            return found
        prefix, config = INTERNAL[name]
        replicas = min(self.settings.number(f"{prefix}.replication.factor"), len(self.alive))
        partitions = self.settings.number(f"{prefix}.num.partitions")
        config = {**config, "segment.bytes": self.settings.get(f"{prefix}.segment.bytes")}
        with self.changes.between():  # it is for a small request, which does not wait for large ones
            return self.create_topic(name, partitions=partitions, replicas=replicas, config=config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic at once. Raises `ApiError` if it does not exist, or on a full disk."""
        with self.changes.at_once():
            topic = self.topics.get(name)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            at_once(self.delete_topics([topic]))

    def delete_topics(self, topics: Sequence[TopicState]) -> Work[None]:
        """Delete topics, all at the same moment, then their folders. Raises `ApiError` on a full disk, and deletes nothing."""
        change = yield from self._preparing(lambda: self._encoding((topic.id, None) for topic in topics))
        for topic in topics:
            self._leave(topic)
        try:
            self._commit(topics, change)
        except ApiError:
            for topic in topics:
                self.enter(topic)
            raise
        for topic in topics:
            self._log_configs.pop(topic.name, None)
            self._leadership.pop(topic.name, None)
        self._show(topics)
        self._leaders_changed()  # coordinators of its partitions have nothing to do any more
        for topic in topics:
            for partition in topic.partitions:
                self._wake([partition])
                yield None
        yield from self._removing([one for topic in topics for one in topic.partitions])

    def _removing(self, partitions: Sequence[PartitionState]) -> Work[None]:
        """Delete the logs of partitions."""
        for one in partitions:
            if self.data is not None:
                self.data.remove(one.topic, one.index, one.log)
                yield None

    def add_partitions(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None = None,
        *,
        only_check: bool = False,
    ) -> None:
        """Raise a topic's number of partitions at once. Raises `ApiError`."""
        with self.changes.at_once():
            at_once(self.grow(name, count, assignment, only_check=only_check))

    def grow(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None = None,
        *,
        only_check: bool = False,
    ) -> Work[None]:
        """The same in turns: the new partitions are there for all at the same moment."""
        topic = self.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        have = len(topic.partitions)
        if count <= have:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{name} has {have} partitions; {count} would not be more")
        if assignment is None:
            chosen = self.placed(count - have, len(topic.partitions[0].replicas))
        else:
            if len(assignment) != count - have:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{count - have} partitions are to be added, brokers are given for {len(assignment)}",
                )
            chosen = self.check_assignment(assignment)
        self._check_room(count - have)
        if only_check:
            return
        grown = replace(topic, partitions=list(topic.partitions))
        for start in range(0, len(chosen), _PARTITIONS_AT_ONCE):
            grown.add_partitions(chosen[start : start + _PARTITIONS_AT_ONCE], self.alive)
            yield None
        added = grown.partitions[have:]
        try:
            change = yield from self._preparing(lambda: self._adding(grown, added))
            topic.partitions += added
            self._partitions += len(added)
            try:
                self._commit([topic], change)
            except ApiError:
                del topic.partitions[have:]
                self._partitions -= len(added)
                raise
        except (OSError, ApiError) as error:
            yield from self._unequipping(added)
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from None
        self._show([topic])

    def _adding(self, grown: TopicState, added: Sequence[PartitionState]) -> Work[TopicsChange | None]:
        """Give new partitions leaders and logs, and encode that they exist in a topic, which is `grown` then."""
        self._elect(added)
        yield from self._equipping(grown)
        return (yield from self._encoding([(grown.id, facts_of(grown))]))

    def reassign(self, partition: PartitionState, brokers: Sequence[int] | None) -> None:
        """Give a partition other replicas; it has them at once, as replicas share a log. Raises `ApiError`."""
        with self.changes.at_once():
            self._reassign(partition, brokers)

    def _reassign(self, partition: PartitionState, brokers: Sequence[int] | None) -> None:
        if not self.has(partition):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        topic = self.topics[partition.topic]
        if brokers is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        (replicas,) = self.check_assignment([brokers])
        before = replace(partition)
        try:
            if self.data is not None:
                self.data.spread(partition.topic, partition.index, replicas)
            partition.replicas = replicas
            partition.in_sync = ()
            partition.elect(self.alive)
            self._commit([topic])
        except (OSError, ApiError) as error:
            partition.replicas, partition.in_sync = before.replicas, before.in_sync
            partition.leader, partition.leader_epoch = before.leader, before.leader_epoch
            if self.data is not None:
                others = [one for one in replicas if one not in before.replicas]
                self.data.not_spread(partition.topic, partition.index, others)
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from None
        self._leadership[partition.topic] = self._leadership.get(partition.topic, 0) + 1
        self._show([topic])
        if self.data is not None:
            self.data.moved(partition.topic, partition.index, partition.replicas)
        self._leaders_changed()
        self._wake([partition])

    def elect_preferred(self, partition: PartitionState) -> bool:
        """Have the first replica lead again. Returns whether the leader changed."""
        if partition.replicas[0] not in self.alive:
            raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        changed = partition.elect(self.alive, preferred=True)
        if changed:
            self._leadership[partition.topic] = self._leadership.get(partition.topic, 0) + 1
            self._publish(self.topics[partition.topic])
            self._leaders_changed()
            self._wake([partition])
        return changed

    def check_assignment(self, assignment: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Brokers for partitions. Raises `ApiError` for none, one that is named twice, and one that there is not."""
        for brokers in assignment:
            if not brokers or len(set(brokers)) != len(brokers):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"brokers {list(brokers)} are none, or named twice"
                )
            if unknown := sorted(set(brokers) - self.brokers.keys()):
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is no broker {unknown[0]}")
        return [tuple(brokers) for brokers in assignment]

    def _elect(self, partitions: Iterable[PartitionState]) -> None:
        """Leaders of new partitions: brokers may have come or gone while they were made."""
        up = self.alive
        for partition in partitions:
            partition.elect(up)

    def _wake(self, partitions: Iterable[PartitionState]) -> None:
        """Fetches that wait are answered: something about their partition has changed."""
        for partition in partitions:
            for listener in list(partition.log.waiting):
                listener()

    def _leaders_changed(self) -> None:
        self.groups.runtime.leaders_changed()
        self.transactions.runtime.leaders_changed()

    # ---- what is kept

    def _equip(self, topic: TopicState) -> None:
        at_once(self._equipping(topic))

    def _equipping(self, topic: TopicState) -> Work[None]:
        """Give each partition its log, and the log the topic's configs.

        Raises `ApiError` if another topic has the name by now, and `OSError`.
        """
        leaders = [one.leader for one in topic.partitions]
        own = dict(topic.config)
        if self._log_configs.get(topic.name) == (own, leaders):
            return
        known = self._known_configs
        configs = {leader: self._log_config(own, leader) for leader in set(leaders)}
        now_ms = self.clock.now_ms()
        for partition, leader in zip(topic.partitions, leaders, strict=True):  # leaders may change meanwhile
            config = configs[leader]
            files = partition.log.files
            if self.data is not None and (files is None or files.deleted):
                if self.topics.get(topic.name, topic).id != topic.id:
                    raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {topic.name} already")
                partition.log = self.data.log(topic.name, partition.index, topic.id, partition.replicas, config, now_ms)
                partition.log.on_unflushed = self.maintenance.unflushed
                partition.log.on_failure = self._cannot_write
                yield None
            partition.log.config = config
        if known is self._known_configs:  # else brokers were given other settings meanwhile
            self._log_configs[topic.name] = (own, leaders)

    def _log_config(self, own: Mapping[str, str], leader: int) -> LogConfig:
        """What a topic's own settings and those of a leader come to, which is the same for most topics."""
        key = (frozenset(own.items()), leader)
        found = self._known_configs.get(key)
        if found is None:
            if len(self._known_configs) >= _MOST_KNOWN_CONFIGS:
                self._known_configs.clear()
            found = self._known_configs[key] = LogConfig.of(self.settings, own, leader)
        return found

    def _cannot_write(self, why: str) -> None:
        """A log could not be written: the owner is told, too, who can do something about it; once a second, as clients try again and again."""
        now_ms = self.clock.now_ms()
        if self._told_ms is None or not 0 <= now_ms - self._told_ms < _TELL_AGAIN_MS:  # it may have been set back
            self._told_ms = now_ms
            self.note(why)

    def _unequipping(self, partitions: Sequence[PartitionState]) -> Work[None]:
        """Delete the logs of new partitions that are not to be after all."""
        self._log_configs.pop(partitions[0].topic, None)
        yield from self._removing(partitions)

    def settings_changed(self) -> None:
        """Metadata has changed, such as settings of topics or groups: they count, and are written down. Raises `OSError` if new partitions cannot have logs."""
        with self.changes.at_once():
            at_once(self.changing_settings())

    def changing_settings(self, changed: Sequence[TopicState] | None = None) -> Work[None]:
        """The same in turns. `changed`: topics whose own configs are others; `None`: it may be any."""
        if changed is None:
            self._unwritten = None
        for topic in list(self.topics.values()):
            if topic.id in self.topics_by_id:
                yield from self._equipping(topic)
            yield None
        if not changed:
            self._keep(())
            return
        try:
            change = yield from self._preparing(lambda: self._encoding_present(changed))
        except ApiError:
            self._write_later(changed)
        else:
            self._commit_or_later(changed, change)

    def _encoding_present(self, topics: Sequence[TopicState]) -> Work[TopicsChange | None]:
        present = (topic for topic in topics if topic.id in self.topics_by_id)
        return (yield from self._encoding((topic.id, facts_of(topic)) for topic in present))

    def change_client_metrics(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a subscription to clients' metrics, none to remove it; to be followed by `settings_changed`."""
        self.client_metrics.pop(name, None)
        if configs:
            self.client_metrics[name] = dict(configs)
        self.client_metrics_version += 1

    def change_broker_settings(self, broker: int | None, values: Mapping[str, str]) -> None:
        """Have a broker, or all of them, follow other settings than at the start (KIP-226); to be followed by `settings_changed`."""
        self.settings.change(broker, values)
        self._version += 1
        self._log_configs.clear()
        self._known_configs = {}
        self.groups.settings_changed()

    def keep(self) -> None:
        """Write down what changed in addition to topics, or could not be written before. Raises `OSError`."""
        self._keep(())

    def _keep(self, changed: Sequence[TopicState]) -> None:
        """Give new partitions logs, and write down what changed, now or when there is room. Raises `OSError`."""
        for topic in changed:
            if topic.id in self.topics_by_id:
                self._equip(topic)
        try:
            self._write(changed)
        except AppendError as refused:
            self._write_later(changed)
            self.note(_not_written(refused))

    def _write_later(self, changed: Sequence[TopicState]) -> None:
        """What could not be written down is tried again with the next change, from time to time, and at the end."""
        if not changed:  # but something else
            self._unwritten = None
        elif self._unwritten is not None:
            self._unwritten.update(topic.id for topic in changed)
        assert self.data is not None
        self.unrecorded += self.data.durable

    def _commit_or_later(self, changed: Sequence[TopicState], change: TopicsChange | None) -> None:
        """Write down a change that is made in any case, now or when there is room."""
        try:
            self._commit(changed, change)
        except ApiError:  # which `_commit` has noted
            self._write_later(changed)

    def _preparing(self, work: Callable[[], Work[T]]) -> Work[T]:
        """Prepare a change in turns, again if what it depends on changes meanwhile. Raises `ApiError`.

        `work` changes nothing that can be seen. The change is to be made before the next turn.
        """
        for _ in range(_TRIES - 1):
            self._commit(())  # what could not be written before comes first
            seen = self._version, self.alive
            found = yield from work()
            if seen == (self._version, self.alive):
                return found
        self._commit(())
        return at_once(work())

    def _encoding(self, topics: Iterable[tuple[Uuid, TopicFacts | None]]) -> Work[TopicsChange | None]:
        """Encode a change of topics, `None` for deleted ones, for `_commit`, if it is to be written down."""
        if self.data is None or not self._has_started:
            return None
        return (yield from self.data.metadata.preparing(topics, self.clock.now_ms()))

    def _commit(self, changed: Sequence[TopicState], change: TopicsChange | None = None) -> None:
        """Write down a change before it is visible. Raises `ApiError` if that fails: the caller undoes it.

        `change`: the same, which `_preparing` has encoded.
        """
        try:
            if change is None or self.data is None:
                self._write(changed)
            else:
                self._version += 1
                self.data.metadata.write(change, self.clock.now_ms())
        except AppendError as refused:
            self.note(_not_written(refused))
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, refused.message) from None
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from None

    def _write(self, changed: Sequence[TopicState]) -> None:
        """Write down changed and deleted topics, earlier ones that failed, and all else. Raises `AppendError`."""
        self._version += 1
        if self.data is None or not self._has_started:
            return
        only = None if self._unwritten is None else self._unwritten.union(topic.id for topic in changed)
        self.data.metadata.become(state_of(self, self.data, only=only), self.clock.now_ms(), only=only)
        self._unwritten = set()

    def catch_up(self) -> None:
        """What could not be written down is, if there is room for it by now. Raises `OSError`."""
        if self._unwritten is None or self._unwritten:
            self.keep()

    def started(self) -> None:
        """All brokers are up, in a loop that runs: leaders are chosen, and logs are looked after. Raises `ClusterError` after `close`, and where the disk has no room."""
        if self.data is not None and self.data.closed:
            raise ClusterError(f"{self.data.path} was closed; make another cluster with it")
        self._has_started = True
        try:
            self.broker_changed()
        except OSError as error:
            if self.data is None:
                raise
            raise ClusterError(why_unusable(self.data.path, error)) from None
        self.maintenance.start()

    def close(self) -> None:
        """Stop in order, after the brokers: everything is on the disk if there is one."""
        self.maintenance.stop()
        self.turns.close()
        self.changes.finish()
        self.transactions.runtime.close()
        self.groups.runtime.close()
        if self.data is not None:
            try:
                self.catch_up()
                self.data.close()
            except (OSError, AppendError) as error:
                self.note(f"{self.data.path} could not be closed in order: {error}; the next start recovers it")
            finally:
                self.data.release()

    def _publish(self, *changed: TopicState) -> None:
        """Some topics are new, other than before, or gone, or something about brokers has changed: it is written down, the coordinators see it as it is now.

        What it takes grows with what changed, not with what there is: there may be thousands of topics. Raises `OSError` if new partitions cannot have logs.
        """
        self._keep(changed)
        self._show(changed)

    def _show(self, changed: Sequence[TopicState]) -> None:
        """Have the coordinators see topics and brokers as they are now."""
        self._show_images(
            [
                self._image_of(topic, self._leadership.get(topic.name, 0))
                for topic in changed
                if topic.id in self.topics_by_id
            ],
            [topic.name for topic in changed if topic.name not in self.topics],
        )

    def _show_images(self, images: Sequence[TopicImage], gone: Sequence[str] = ()) -> None:
        image = self.image.with_brokers(
            {broker.id: broker.rack for broker in self.brokers.values() if broker.registered}
        )
        self.image = image.with_changed(images, gone)
        self.groups.runtime.image_changed(self.image)

    def _image_of(self, topic: TopicState, leadership: int) -> TopicImage:
        replicas = tuple([partition.replicas for partition in topic.partitions])
        return TopicImage(name=topic.name, id=topic.id, replicas=replicas, leadership=leadership)

    # ---- the owner's view

    def change_version(self, version: str) -> None:
        """Have brokers and coordinators be of another release of Kafka, on the same logs. The levels of features stay. Raises `ConfigError` or `ValueError` for a version that cannot be."""
        parsed = KafkaVersion.parse(version)
        check_levels(self.features, parsed)
        self.settings.coordinator = replace(self.settings.coordinator, kafka_version=parsed)
        self._version += 1
        self._known_configs = {}  # releases have defaults of their own
        for broker in self.brokers.values():
            broker.drop_clients()  # as brokers that restart do; clients ask for versions anew
        self.groups.runtime.restart()

    def change_features(self, levels: Mapping[str, int]) -> None:
        """Agree on other levels of features. What is not named is off."""
        self.features = dict(levels)
        self.features_epoch += 1
        self.settings_changed()

    def need_broker(self, broker: int) -> Broker:
        """A broker by id. Raises `ClusterError`."""
        found = self.brokers.get(broker)
        if found is None:
            known = ", ".join(map(str, self.brokers))
            raise ClusterError(f"there is no broker {broker}, only {known}")
        return found


def _not_written(refused: AppendError) -> str:
    return f"the cluster's metadata could not be written: {refused}; free some space"


def _metric_name(topic: str) -> str:
    """What a topic is called in names of metrics, where dots become underscores: two topics cannot share one."""
    return topic.replace(".", "_")
