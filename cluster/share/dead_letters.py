"""Dead letter queues of share groups: undeliverable records are copied to a topic (KIP-1191).

A record that a member rejects, or that was delivered too often, is ARCHIVING until it is in the
group's topic `errors.deadletterqueue.topic.name`, and then ARCHIVED. If it cannot be written, a
note says why, and it is archived all the same, as in Kafka.
"""

from collections.abc import Iterator

from quorate.cluster.controller.topics import TopicControl
from quorate.cluster.group_configs import GroupConfigs
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState, TopicState
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchProblem, BatchRecord, encode_batch, read_batches
from quorate.codecs.batches.v2 import HEADER_BYTES
from quorate.codecs.errors import QuorateError
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError

_SUPPORTED_SINCE = 2
_MOST_OVERHEAD = 60
"""Bytes of a record, at most, in addition to its key, its value and the texts of its headers."""
_ENABLED = "errors.deadletterqueue.group.enable"
_READ_BYTES = 1 << 20


class _Refused(QuorateError):
    """The group's topic cannot be used."""


class DeadLetterQueues:
    """Writes dead letters of all share groups of a cluster."""

    def __init__(self, services: Services, topics: TopicControl, group_configs: GroupConfigs) -> None:
        self._services = services
        self._group_configs = group_configs
        self._topics = topics

    def topic_of(self, group_id: str) -> str:
        """Return the name of a group's topic, or an empty text.

        Clusters with share.version 1 have no dead letter queues.
        """
        if self._services.state.features.get("share.version", 0) < _SUPPORTED_SINCE:
            return ""
        return self._group_configs.of(group_id).get("errors.deadletterqueue.topic.name", "").strip()

    def write(
        self, group_id: str, partition: PartitionState, first: int, last: int, delivery_count: int, cause: str
    ) -> None:
        """Write the records of a partition from `first` to `last`, inclusive."""
        try:
            topic = self._usable(group_id)
            self._append(topic, group_id, partition, first, last, delivery_count, cause)
        except (_Refused, ApiError, AppendError) as error:
            where = f"{partition.topic}-{partition.index}, offsets {first} to {last}"
            self._services.reports.note(f"{where} are not in the dead letter queue of share group {group_id}: {error}")

    def _usable(self, group_id: str) -> TopicState:
        """Return the topic, which is created if needed. Raises `_Refused` and `ApiError`."""
        name, configs = self.topic_of(group_id), self._services.broker_configs
        known = self._services.state.topics.get(name)
        prefix = configs.effective("errors.deadletterqueue.topic.name.prefix") or ""
        if not name:
            raise _Refused("the group has no errors.deadletterqueue.topic.name")
        if name.startswith("__"):
            raise _Refused(f"{name} starts with __")
        if known is not None and known.config.get(_ENABLED, "false").strip().lower() != "true":
            raise _Refused(f"topic {name} does not have {_ENABLED}=true")
        if known is None and configs.effective("errors.deadletterqueue.auto.create.topics.enable") != "true":
            raise _Refused(
                f"topic {name} does not exist; create it with {_ENABLED}=true, or let brokers create it with "
                "errors.deadletterqueue.auto.create.topics.enable=true"
            )
        if not name.startswith(prefix):
            raise _Refused(f"{name} does not start with errors.deadletterqueue.topic.name.prefix={prefix}")
        if known is not None:
            return known
        config = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
        with self._topics.controller.changes.between():
            return self._topics.create_topic(name, config=config)

    def _append(
        self,
        topic: TopicState,
        group_id: str,
        source: PartitionState,
        first: int,
        last: int,
        delivery_count: int,
        cause: str,
    ) -> None:
        copies = self._group_configs.of(group_id).get("errors.deadletterqueue.copy.record.enable", "")
        originals = _records(source, first, last) if copies.strip().lower() == "true" else {}
        target = topic.partitions[source.index % len(topic.partitions)]
        if target.leader < 0:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic.name}-{target.index} has no leader")
        now_ms, most = self._services.clock.now_ms(), target.log.config.max_message_bytes
        batch: list[BatchRecord] = []
        size = HEADER_BYTES

        def flush() -> None:
            target.log.append_own(encode_batch(batch, partition_leader_epoch=target.leader_epoch), now_ms)

        for offset in range(first, last + 1):
            key, value = originals.get(offset, (None, None))
            headers = (
                ("__dlq.errors.topic", source.topic.encode()),
                ("__dlq.errors.partition", b"%d" % source.index),
                ("__dlq.errors.offset", b"%d" % offset),
                ("__dlq.errors.group", group_id.encode()),
                ("__dlq.errors.delivery.count", b"%d" % delivery_count),
                ("__dlq.errors.message", cause.encode()),
            )
            length = _MOST_OVERHEAD + len(key or b"") + len(value or b"")
            length += sum(len(name) + len(text) for name, text in headers)
            if batch and size + length > most:
                flush()
                batch, size = [], HEADER_BYTES
            at = target.log.next_offset + len(batch)
            batch.append(BatchRecord(offset=at, timestamp_ms=now_ms, key=key, value=value, headers=headers))
            size += length
        flush()


def _records(source: PartitionState, first: int, last: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return offset → key and value, of records that the log still has."""
    return {
        record.offset: (record.key, record.value)
        for record in _read(source, first, last)
        if first <= record.offset <= last
    }


def _read(source: PartitionState, first: int, last: int) -> Iterator[BatchRecord]:
    log, offset = source.log, max(first, source.log.start_offset)
    while offset <= last:
        data = log.read(offset, _READ_BYTES, until=log.high_watermark, at_least_one=True).records
        if not data:
            return
        for batch in read_batches(data):
            if isinstance(batch, BatchProblem):
                return
            for record in batch.records():
                if isinstance(record, BatchRecord):
                    yield record
            offset = batch.header.last_offset + 1
