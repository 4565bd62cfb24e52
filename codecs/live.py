"""Read coordinator topics from a running cluster with kafka-python's consumer.

No group is joined and nothing is committed. Yields the same `LogEntry` values as reading files.
kafka-python hides producer ids, transaction markers and batches, so these are missing. Security
options are passed through unchanged.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final

from quorate.codecs.batches.model import TimestampType
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.live_connect import LiveError, check_connection, client_log, connect, explain_error, where_text
from quorate.codecs.live_outages import OutageNotices, forget_requests
from quorate.codecs.live_parameters import ACCEPTED
from quorate.codecs.live_topic import RETRY_S, offsets_of, retriable_errors, topic_partitions
from quorate.codecs.log.model import IsolationLevel, LogEntry, check_isolation_level
from quorate.codecs.parameters import check_parameters
from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES, decode_record

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.net.compat import KafkaNetClient

    from quorate.codecs.log.raw import RawBlock

__all__ = ["LiveError", "LivePoll", "poll_live", "read_live", "read_live_blocks"]

_POLL_MS: Final = 500
_WHOLE_BATCHES: Final = 1_000_000
"""More records than the responses to one round of fetches have, so that no batch is cut."""
_RESERVED: Final = {
    "auto_offset_reset",
    "enable_auto_commit",
    "group_id",
    "group_instance_id",
    "key_deserializer",
    "value_deserializer",
}
_TIMESTAMP_TYPES: Final = {0: TimestampType.CREATE_TIME, 1: TimestampType.LOG_APPEND_TIME}


def read_live(
    bootstrap_servers: str | Sequence[str],
    *,
    topic: str = CONSUMER_OFFSETS,
    partitions: Collection[int] | None = None,
    follow: bool = False,
    isolation_level: IsolationLevel = "read_committed",
    since_ms: int | None = None,
    start_offsets: Mapping[int, int] | None = None,
    connect_timeout_ms: int = 10_000,
    stall_timeout_ms: int = 30_000,
    on_notice: Callable[[str], None] | None = None,
    **kafka_python_config: Any,
) -> Iterator[LogEntry]:
    """Return the records of a coordinator topic, up to the end offsets at the start of the read.

    With `follow` it continues with new records until the caller stops it. Waiting yields nothing
    and can be interrupted. It survives outages: `on_notice` is called with one line when leaders
    become unreachable, and one when they are back. `partitions` defaults to all; records are in
    order within a partition.

    `since_ms` skips records with an earlier timestamp and starts at the first offset that is not
    earlier. `start_offsets`, by partition, resumes an earlier read. Further options
    (`security_protocol`, `ssl_cafile`, `sasl_mechanism`, …) are those of kafka-python's
    `KafkaConsumer`. The connection is opened with the first record and closed with the iterator.

    Raises `LiveError` at the call if an address (`HOST:PORT`, the port is required) or an option
    is invalid. Raises it while reading if no broker responds within `connect_timeout_ms`, or
    rejects TLS or credentials, which the message then says. Also raised if the topic or a
    partition does not exist or access is denied, or if, without `follow`, no partition advances
    for `stall_timeout_ms`.
    """
    reader = _reader(
        bootstrap_servers,
        topic,
        isolation_level,
        connect_timeout_ms,
        stall_timeout_ms,
        on_notice,
        kafka_python_config,
        partitions=partitions,
        since_ms=since_ms,
        start_offsets=start_offsets,
    )
    return reader.entries(partitions, follow, since_ms, start_offsets or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePoll:
    """The records of one poll, and whether all records that existed at the start are read.

    `records`: kafka-python's, by partition, for `quorate.codecs.live_batches`; only whole batches.
    `waiting`: how many offsets after them the brokers had, as of their last responses.
    """

    records: Mapping[int, Sequence[Any]]
    caught_up: bool
    waiting: int = 0


def poll_live(
    bootstrap_servers: str | Sequence[str],
    *,
    topic: str = CONSUMER_OFFSETS,
    start_offsets: Mapping[int, int] | None = None,
    connect_timeout_ms: int = 10_000,
    on_notice: Callable[[str], None] | None = None,
    **kafka_python_config: Any,
) -> Generator[LivePoll, None, None]:
    """Follow a coordinator topic like `read_live`, but yield each poll, also an empty one.

    Records are not decoded, most are in their batches (see `block_of_polled`). It returns never;
    the caller closes it. Raises as `read_live` does. Needs pyarrow.
    """
    config = {"max_poll_records": _WHOLE_BATCHES} | kafka_python_config
    reader = _reader(
        bootstrap_servers,
        topic,
        "read_committed",
        connect_timeout_ms,
        0,
        on_notice,
        config,
        start_offsets=start_offsets,
    )
    reader.whole_batches = True
    return reader.polls(None, True, None, start_offsets or {})


def read_live_blocks(
    bootstrap_servers: str | Sequence[str],
    *,
    topic: str = CONSUMER_OFFSETS,
    partitions: Collection[int] | None = None,
    isolation_level: IsolationLevel = "read_committed",
    start_offsets: Mapping[int, int] | None = None,
    connect_timeout_ms: int = 10_000,
    stall_timeout_ms: int = 30_000,
    **kafka_python_config: Any,
) -> "Iterator[RawBlock]":
    """Return the records that `read_live` returns, as blocks of one partition, not decoded.

    Much faster for large topics. Raises as `read_live` does. Needs pyarrow.
    """
    reader = _reader(
        bootstrap_servers,
        topic,
        isolation_level,
        connect_timeout_ms,
        stall_timeout_ms,
        None,
        {"max_poll_records": _WHOLE_BATCHES} | kafka_python_config,
        partitions=partitions,
        start_offsets=start_offsets,
    )
    reader.whole_batches = True
    return reader.blocks(partitions, start_offsets or {})


def _reader(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    isolation_level: IsolationLevel,
    connect_timeout_ms: int,
    stall_timeout_ms: int,
    on_notice: Callable[[str], None] | None,
    kafka_python_config: Mapping[str, Any],
    *,
    start_offsets: Mapping[int, int] | None,
    partitions: Collection[int] | None = None,
    since_ms: int | None = None,
) -> "_LiveReader":
    """Check the options of a read. Raises `LiveError`."""
    if topic not in RECORD_TYPES:
        raise LiveError(f"{topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")
    check_isolation_level(isolation_level, LiveError)
    reserved = sorted(_RESERVED & kafka_python_config.keys())
    if reserved:
        raise LiveError(f"{', '.join(reserved)}: cannot be set; reading joins no group and returns raw bytes")
    check_connection(bootstrap_servers, kafka_python_config)
    check_parameters(locals(), ACCEPTED, LiveError)
    config = {
        "isolation_level": isolation_level,
        "bootstrap_timeout_ms": connect_timeout_ms,
        "allow_auto_create_topics": False,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "max_poll_records": 5_000,
        "metrics_enabled": False,
        **kafka_python_config,
    }
    return _LiveReader(bootstrap_servers, topic, config, connect_timeout_ms, stall_timeout_ms, on_notice)


class _LiveReader:
    """One connection and the read that uses it."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        config: dict[str, Any],
        connect_timeout_ms: int,
        stall_timeout_ms: int,
        on_notice: Callable[[str], None] | None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.config = config
        self.connect_timeout_ms = connect_timeout_ms
        self.stall_timeout_ms = stall_timeout_ms
        self.on_notice = on_notice
        self.clients: list[KafkaNetClient] = []
        self.whole_batches = False
        self.ends: dict[int, int] = {}  # of what existed at the start
        self.stale = False  # the client waits for the response to a request that it has not sent
        self.where = where_text(bootstrap_servers, config)

    def entries(
        self, numbers: Collection[int] | None, follow: bool, since_ms: int | None, start_offsets: Mapping[int, int]
    ) -> Iterator[LogEntry]:
        with closing(self.polls(numbers, follow, since_ms, start_offsets)) as polls:
            for poll in polls:
                for records in poll.records.values():
                    yield from map(self._entry, records)

    def blocks(self, numbers: Collection[int] | None, start_offsets: Mapping[int, int]) -> "Iterator[RawBlock]":
        from quorate.codecs.live_batches import block_of_polled

        with closing(self.polls(numbers, False, None, start_offsets)) as polls:
            for poll in polls:
                for number, records in poll.records.items():
                    if records:
                        block = block_of_polled(records, self.topic, number)
                        yield block.upto(offset=self.ends[number] - 1)[0]

    def polls(
        self, numbers: Collection[int] | None, follow: bool, since_ms: int | None, start_offsets: Mapping[int, int]
    ) -> Generator[LivePoll, None, None]:
        from kafka import TopicPartition
        from kafka.errors import KafkaError

        with client_log() as reasons, ExitStack() as self.open:
            self.reasons = reasons
            consumer = self._connected()
            try:
                (client,) = self.clients
                known = topic_partitions(client, self.topic, numbers, self.where, self.connect_timeout_ms)
                partitions = [TopicPartition(self.topic, number) for number in known]
                yield from self._polls(consumer, partitions, follow, since_ms, start_offsets)
            except KafkaError as error:
                raise LiveError(f"{self.where}: reading {self.topic} failed: {explain_error(error)}") from error

    def _connected(self) -> "KafkaConsumer":
        """Return a consumer that is closed when the read ends. Raises `LiveError`."""
        from kafka import KafkaConsumer

        clients: list[KafkaNetClient] = []
        consumer: KafkaConsumer = connect(
            KafkaConsumer, self.bootstrap_servers, self.config, self.connect_timeout_ms, self.reasons, clients
        )
        self.open.enter_context(closing(consumer))
        self.clients = clients
        if self.whole_batches:
            from quorate.codecs.live_batches import return_batches

            return_batches(consumer)
        return consumer

    def _replaced(self, consumer: "KafkaConsumer") -> "KafkaConsumer":
        """Replace a consumer that would wait forever by a new one at the same positions.

        Returns the same consumer if no broker can be reached.
        """
        positions = {at: consumer.position(at, timeout_ms=self.connect_timeout_ms) for at in consumer.assignment()}
        paused = consumer.paused()
        try:
            fresh = self._connected()
        except LiveError:
            return consumer
        consumer.close()
        fresh.assign(list(positions))
        for at, offset in positions.items():
            fresh.seek(at, offset)
        fresh.pause(*paused)
        self.stale = False
        return fresh

    def _polls(
        self,
        consumer: "KafkaConsumer",
        partitions: "list[TopicPartition]",
        follow: bool,
        since_ms: int | None,
        start_offsets: Mapping[int, int],
    ) -> Generator[LivePoll, None, None]:
        timeout = self.connect_timeout_ms
        consumer.assign(partitions)
        ends = self._offsets(consumer.end_offsets, partitions)  # read-committed: the last stable offsets
        self.ends = {at.partition: end for at, end in ends.items()}
        if since_ms is None:
            starts = self._offsets(consumer.beginning_offsets, partitions)
            starts = {at: max(offset, start_offsets.get(at.partition, 0)) for at, offset in starts.items()}
        else:
            found = self._offsets(consumer.offsets_for_times, dict.fromkeys(partitions, since_ms))
            starts = {at: ends[at] if stamp is None else stamp.offset for at, stamp in found.items()}
        for at, offset in starts.items():
            consumer.seek(at, offset)
        notices = OutageNotices(self.where, len(partitions), self.on_notice) if self.on_notice else None
        pending = {at for at in partitions if starts[at] < ends[at]}
        progress = time.monotonic()
        positions: dict[TopicPartition, int | None] = {}
        while follow or pending:
            polled: dict[int, Sequence[Any]] = {}
            waiting = 0
            for at, records in self._polled(consumer).items():
                waiting += max(0, (consumer.highwater(at) or 0) - records[-1].offset - 1)
                if since_ms is not None or not (follow or self.whole_batches):
                    records = [
                        record
                        for record in records
                        if (follow or record.offset < ends[at]) and (since_ms is None or record.timestamp >= since_ms)
                    ]
                polled[at.partition] = records
            if follow and pending:
                pending = {at for at in pending if (consumer.position(at, timeout_ms=timeout) or 0) < ends[at]}
            yield LivePoll(records=polled, caught_up=not pending, waiting=waiting)
            if self.stale:
                consumer = self._replaced(consumer)
            if follow:
                if notices is not None:
                    notices.update(sum(not self._has_connection(at) for at in partitions))
                continue
            # The position also passes records that are not returned: markers, aborted records,
            # and offsets removed by compaction.
            now = {at: consumer.position(at, timeout_ms=timeout) for at in pending}
            for at in [at for at in pending if (now[at] or 0) >= ends[at]]:
                pending.discard(at)
                consumer.pause(at)
            if now != positions:
                positions, progress = now, time.monotonic()
            elif (time.monotonic() - progress) * 1000 > self.stall_timeout_ms:
                stuck = ", ".join(f"{at.topic}-{at.partition} at {now[at]} of {ends[at]}" for at in sorted(pending))
                waited = f"{self.stall_timeout_ms:,} ms"
                raise LiveError(f"{self.where}: no progress for {waited} ({stuck}); are their leaders available?")

    def _offsets(self, lookup: Callable[..., Any], partitions: "Collection[TopicPartition]") -> Any:
        (client,) = self.clients
        return offsets_of(lookup, partitions, client, self.where, self.connect_timeout_ms)

    def _polled(self, consumer: "KafkaConsumer") -> "dict[TopicPartition, list[Any]]":
        """Return the records of one poll.

        Returns none if a broker disappears while the client looks for leaders: kafka-python raises
        an error then.
        """
        from kafka.errors import UnknownBrokerIdError

        try:
            found: dict[TopicPartition, list[Any]] = consumer.poll(timeout_ms=_POLL_MS)
        except retriable_errors() as error:
            if isinstance(error, UnknownBrokerIdError):
                self.stale |= not forget_requests(consumer, error.args)
            time.sleep(RETRY_S)
            return {}
        return found

    def _has_connection(self, at: "TopicPartition") -> bool:
        """Whether the client has a connection to the leader of a partition."""
        (client,) = self.clients
        return bool(client.connected(client.cluster.leader_for_partition(at)))

    def _entry(self, record: Any) -> LogEntry:
        return LogEntry(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=-1 if record.timestamp is None else record.timestamp,
            timestamp_type=_TIMESTAMP_TYPES.get(record.timestamp_type, TimestampType.NO_TIMESTAMP_TYPE),
            producer_id=None,
            producer_epoch=None,
            sequence=None,
            transactional=None,
            partition_leader_epoch=-1 if record.leader_epoch is None else record.leader_epoch,
            headers=tuple(record.headers),
            key_bytes=record.key,
            value_bytes=record.value,
            record=decode_record(record.key, record.value, topic=self.topic),
        )
