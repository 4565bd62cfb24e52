"""`LogManager`: the logs of partitions, which all replicas share: they are made, configured, moved and deleted as the cluster's metadata says."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from quorate.cluster.controller.state import Delta
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.services import Services
from quorate.cluster.storage.data import DataDirectory
from quorate.cluster.topics import PartitionState, TopicState
from quorate.cluster.turns import Work
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.errors import ApiError

__all__ = ["LogManager"]

_TELL_AGAIN_MS = 1_000
_MOST_KNOWN_CONFIGS = 1_000


class LogManager:
    """The logs of a cluster, in memory or in a data directory (`data`).

    `on_unflushed`: called by logs, as `PartitionLog` says.
    """

    def __init__(self, services: Services) -> None:
        self.data: DataDirectory | None = None
        self.on_unflushed: Callable[[PartitionLog], object] | None = None
        self._services = services
        self._state = services.state
        self._noted_ms: int | None = None
        self._prepared: dict[tuple[Uuid, int], PartitionLog] = {}
        self._configured: dict[str, tuple[dict[str, str], list[int]]] = {}
        self._configs: dict[tuple[frozenset[tuple[str, str]], int], LogConfig] = {}

    # ---- new partitions

    def preparing(self, topic: TopicState, new: Sequence[PartitionState]) -> Work[None]:
        """Give the `new` partitions of a topic logs before they exist.

        Raises `ApiError` if another topic has the name by now, and `OSError`.
        """
        yield from self.configuring(topic)
        for one in new:
            self._prepared[topic.id, one.index] = one.log
        yield None

    def new_log(self, topic_id: Uuid, index: int) -> PartitionLog:
        """The log of a partition that exists from now on."""
        prepared = self._prepared.pop((topic_id, index), None)
        return PartitionLog() if prepared is None else prepared

    def dropping(self, topic: TopicState, partitions: Sequence[PartitionState]) -> Work[None]:
        """Delete the logs of new partitions of a topic that will not exist after all."""
        for one in partitions:
            self._prepared.pop((topic.id, one.index), None)
        self._configured.pop(topic.name, None)
        yield from self.removing(partitions)

    # ---- partitions that exist

    def following(self, delta: Delta) -> Work[None]:
        """Give logs the configs that they have after a change: those of topics, and of the brokers that lead.

        Raises `OSError`.
        """
        if delta.broker_configs:
            topics: Iterable[TopicState] = list(self._state.topics.values())
        else:
            topics = ({**delta.led, **delta.configured}).values()
        for topic in topics:
            if topic.id in self._state.topics_by_id:
                yield from self.configuring(topic)
            yield None

    def configuring(self, topic: TopicState) -> Work[None]:
        """Give each partition its log, and the log the topic's configs.

        Raises `ApiError` if another topic has the name by now, and `OSError`.
        """
        leaders = [one.leader for one in topic.partitions]
        own = dict(topic.config)
        if self._configured.get(topic.name) == (own, leaders):
            return
        known = self._configs
        configs = {leader: self._config(own, leader) for leader in set(leaders)}
        now_ms = self._services.clock.now_ms()
        for partition, leader in zip(topic.partitions, leaders, strict=True):  # leaders may change meanwhile
            config = configs[leader]
            files = partition.log.files
            if self.data is not None and (files is None or files.deleted):
                if self._state.topics.get(topic.name, topic).id != topic.id:
                    raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {topic.name} already")
                partition.log = self.data.log(topic.name, partition.index, topic.id, partition.replicas, config, now_ms)
                partition.log.on_unflushed = self.on_unflushed
                partition.log.on_failure = self._cannot_write
                yield None
            partition.log.config = config
        if known is self._configs:  # else brokers were given other configs meanwhile
            self._configured[topic.name] = (own, leaders)

    def _config(self, own: Mapping[str, str], leader: int) -> LogConfig:
        """The configs of a log by those of its topic and its leader, which are the same for most topics."""
        key = (frozenset(own.items()), leader)
        found = self._configs.get(key)
        if found is None:
            if len(self._configs) >= _MOST_KNOWN_CONFIGS:
                self._configs.clear()
            found = self._configs[key] = LogConfig.of(self._services.broker_configs, own, leader)
        return found

    def broker_configs_changed(self) -> None:
        """Brokers have other configs, or are of another release: logs are configured again."""
        self._configured.clear()
        self._configs = {}

    def _cannot_write(self, why: str) -> None:
        """Report that a log could not be written; once a second, as clients try again and again."""
        now_ms = self._services.clock.now_ms()
        if self._noted_ms is None or not 0 <= now_ms - self._noted_ms < _TELL_AGAIN_MS:  # it may have been set back
            self._noted_ms = now_ms
            self._services.reports.note(why)

    # ---- partitions that are gone

    def forget(self, topic: TopicState) -> None:
        """A topic is deleted."""
        self._configured.pop(topic.name, None)

    def removing(self, partitions: Iterable[PartitionState]) -> Work[None]:
        """Delete the logs of partitions."""
        for one in partitions:
            if self.data is not None:
                self.data.remove(one.topic, one.index, one.log)
                yield None
