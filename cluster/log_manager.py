"""`LogManager`: creates, configures and deletes the logs of partitions, following the metadata."""

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

_REPORT_INTERVAL_MS = 1_000
_MAX_CACHED_CONFIGS = 1_000


class LogManager:
    """The logs of a cluster, in memory or in a data directory (`data`).

    `on_unflushed`: the callback of all logs, see `PartitionLog`.
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

    def create_logs(self, topic: TopicState, new: Sequence[PartitionState]) -> Work[None]:
        """Create the logs of the `new` partitions of a topic, before the partitions exist.

        Raises `ApiError` if another topic has the name meanwhile, and `OSError`.
        """
        yield from self.configure(topic)
        for one in new:
            self._prepared[topic.id, one.index] = one.log
        yield None

    def new_log(self, topic_id: Uuid, index: int) -> PartitionLog:
        """Return the log of a new partition."""
        prepared = self._prepared.pop((topic_id, index), None)
        return PartitionLog() if prepared is None else prepared

    def discard_logs(self, topic: TopicState, partitions: Sequence[PartitionState]) -> Work[None]:
        """Delete the logs of new partitions whose creation failed."""
        for partition in partitions:
            self._prepared.pop((topic.id, partition.index), None)
        self._configured.pop(topic.name, None)
        yield from self.delete_logs(partitions)

    # ---- partitions that exist

    def apply_configs(self, delta: Delta) -> Work[None]:
        """Apply changed configs of topics, and of the brokers that lead, to logs.

        Raises `OSError`.
        """
        if delta.broker_configs:
            topics: Iterable[TopicState] = list(self._state.topics.values())
        else:
            topics = ({**delta.led, **delta.configured}).values()
        for topic in topics:
            if topic.id in self._state.topics_by_id:
                yield from self.configure(topic)
            yield None

    def configure(self, topic: TopicState) -> Work[None]:
        """Create missing logs of a topic's partitions, and apply the topic's configs.

        Raises `ApiError` if another topic has the name meanwhile, and `OSError`.
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
                    raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name} already exists")
                partition.log = self.data.log(topic.name, partition.index, topic.id, partition.replicas, config, now_ms)
                partition.log.on_unflushed = self.on_unflushed
                partition.log.on_failure = self._cannot_write
                yield None
            partition.log.config = config
        if known is self._configs:  # else brokers' configs have changed meanwhile
            self._configured[topic.name] = (own, leaders)

    def _config(self, own: Mapping[str, str], leader: int) -> LogConfig:
        """Return a log's config, cached by the topic's configs and the leader."""
        key = (frozenset(own.items()), leader)
        found = self._configs.get(key)
        if found is None:
            if len(self._configs) >= _MAX_CACHED_CONFIGS:
                self._configs.clear()
            found = self._configs[key] = LogConfig.of(self._services.broker_configs, own, leader)
        return found

    def broker_configs_changed(self) -> None:
        """Forget cached configs, after brokers' configs or the release changed."""
        self._configured.clear()
        self._configs = {}

    def _cannot_write(self, why: str) -> None:
        """Report that a log cannot be written, at most once a second, because clients retry."""
        now_ms = self._services.clock.now_ms()
        # The clock may have been set back.
        if self._noted_ms is None or not 0 <= now_ms - self._noted_ms < _REPORT_INTERVAL_MS:
            self._noted_ms = now_ms
            self._services.reports.note(why)

    # ---- deleted partitions

    def forget(self, topic: TopicState) -> None:
        """Forget a deleted topic."""
        self._configured.pop(topic.name, None)

    def delete_logs(self, partitions: Iterable[PartitionState]) -> Work[None]:
        """Delete the logs of partitions."""
        for partition in partitions:
            if self.data is not None:
                self.data.remove(partition.topic, partition.index, partition.log)
                yield None
