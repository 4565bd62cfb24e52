"""Reading coordinator topics from a running cluster, by kafka-python's consumer: no group is joined and nothing is committed.

Yields the same `LogEntry` values as reading files does, as far as a consumer is told: producer ids, transaction markers and batches stay hidden in the
client. Of security this module knows nothing but to hand the options through.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.codecs.batches.model import TimestampType
from quorate.codecs.live_outage import OutageNotices
from quorate.codecs.log_model import IsolationLevel, LogEntry, check_isolation_level
from quorate.codecs.records import CONSUMER_OFFSETS, RECORD_TYPES, decode_record

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.net.compat import KafkaNetClient

__all__ = ["LiveError", "read_live"]

T = TypeVar("T")

_POLL_MS: Final = 500
_GRACE_MS: Final = 500  # for the client to say itself why it gave up
_OURS: Final = {
    "auto_offset_reset",
    "enable_auto_commit",
    "group_id",
    "group_instance_id",
    "key_deserializer",
    "value_deserializer",
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HINTS: Final = (
    ("ECONNREFUSED", "nothing listens there"),
    ("DNS", "is the host name right?"),
    ("IllegalSaslState", "this listener does not take SASL; try security_protocol PLAINTEXT or SSL"),
    ("UnsupportedSaslMechanism", "the broker does not offer this sasl_mechanism"),
    ("CERTIFICATE_VERIFY_FAILED", "give the certificate of its authority as ssl_cafile"),
    ("Handshake failed", "does this listener speak TLS?"),
    ("Invalid frame length", "this listener may want TLS; try security_protocol SSL or SASL_SSL"),
    (
        "socket disconnected",
        "the broker closed the connection: does this listener take the security_protocol and credentials given?",
    ),
)
_OPTIONS: Final = "the options are those of kafka-python's KafkaConsumer"
_TIMESTAMP_TYPES: Final = {0: TimestampType.CREATE_TIME, 1: TimestampType.LOG_APPEND_TIME}


class LiveError(RuntimeError):
    """The cluster cannot be read. The message says what was tried, what went wrong, and what to look at."""


def read_live(
    bootstrap_servers: str | Sequence[str],
    *,
    topic: str = CONSUMER_OFFSETS,
    partitions: Collection[int] | None = None,
    follow: bool = False,
    isolation_level: IsolationLevel = "read_committed",
    since_ms: int | None = None,
    connect_timeout_ms: int = 10_000,
    stall_timeout_ms: int = 30_000,
    on_notice: Callable[[str], None] | None = None,
    **kafka_python_config: Any,
) -> Iterator[LogEntry]:
    """The records of a coordinator topic on a running cluster, from the beginning to where it ends at the start of the reading.

    With `follow` it goes on with what is written, for ever; waiting yields nothing and can be interrupted. It outlives outages: `on_notice` gets a
    line when leaders are out of reach, and one when they are back. `partitions` are all by default; the order holds within a partition. `since_ms`
    leaves out records with an earlier timestamp and begins at the first that is not. Further options (`security_protocol`, `ssl_cafile`,
    `sasl_mechanism`, …) are those of kafka-python's `KafkaConsumer`. The connection is made when the first record is asked for, and closed with
    the iterator.

    Raises `LiveError` at the call if an address (`HOST:PORT`, the port is needed) or an option cannot be, and while reading: no broker answers in
    `connect_timeout_ms` (also when it refuses TLS or credentials, which the message then says), the topic or a partition is not there or not
    allowed, or, without `follow`, no partition gets further for `stall_timeout_ms`.
    """
    if topic not in RECORD_TYPES:
        raise LiveError(f"{topic!r} is not a coordinator topic; use one of {', '.join(RECORD_TYPES)}")
    check_isolation_level(isolation_level, LiveError)
    reserved = sorted(_OURS & kafka_python_config.keys())
    if reserved:
        raise LiveError(f"{', '.join(reserved)}: cannot be set, reading joins no group and hands out raw bytes")
    protocol = kafka_python_config.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise LiveError(f"security_protocol {protocol!r} is not known; use one of {', '.join(_PROTOCOLS)}")
    _check_addresses([bootstrap_servers] if isinstance(bootstrap_servers, str) else bootstrap_servers)
    _check_security(protocol, kafka_python_config)
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
    reading = _Reading(bootstrap_servers, topic, config, connect_timeout_ms, stall_timeout_ms, on_notice)
    return reading.entries(partitions, follow, since_ms)


def _check_addresses(servers: Sequence[str]) -> None:
    addresses = [address.strip() for listed in servers for address in listed.split(",")]
    for address in addresses or [""]:
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):  # kafka-python takes 9092 then, as Kafka's own tools do not
            raise LiveError(f"bootstrap_servers {address!r}: has no port; an address is HOST:PORT")
        if "/" in address or not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
            raise LiveError(f"bootstrap_servers {address!r}: an address is HOST:PORT, without http:// or the like")
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
            raise LiveError(f"bootstrap_servers {address!r}: the port {port!r} is not a number from 1 to 65535")


def _check_security(protocol: str, config: dict[str, Any]) -> None:
    for option in _FILES:
        if config.get(option) and not Path(config[option]).is_file():
            raise LiveError(f"{option}: there is no file {config[option]}")
    mechanism = config.get("sasl_mechanism")
    if protocol.startswith("SASL") and mechanism is None:
        raise LiveError(f"security_protocol {protocol} needs a sasl_mechanism, such as {', '.join(_WITH_PASSWORD)}")
    if mechanism in _WITH_PASSWORD and protocol.startswith("SASL"):
        for option in ("sasl_plain_username", "sasl_plain_password"):
            if config.get(option) is None:
                raise LiveError(f"sasl_mechanism {mechanism} needs {option}, which is not given")


def _in_time(work: "Callable[[], T]", timeout_ms: int) -> T:
    """What `work` returns or raises, done in another thread; `TimeoutError` if it is still at it after the time, and left to itself."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # handed to the one who waits
            done.set_exception(error)

    thread = Thread(target=run, name="quorate-live-connect", daemon=True)
    thread.start()
    result = done.result(timeout_ms / 1000)
    thread.join()
    return result


class _Reading:
    """One connection and what it reads."""

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
        shown = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        self.where = f"{shown} ({config.get('security_protocol', 'PLAINTEXT')})"

    def entries(self, numbers: Collection[int] | None, follow: bool, since_ms: int | None) -> Iterator[LogEntry]:
        from kafka.errors import KafkaError

        with _client_log() as said:
            consumer = self._connect(said)
            with closing(consumer):
                try:
                    partitions = self._partitions(consumer, numbers)
                    yield from self._records(consumer, partitions, follow, since_ms)
                except KafkaError as error:
                    raise LiveError(f"{self.where}: reading {self.topic} failed: {_explain(error)}") from error

    def _connect(self, said: "deque[str]") -> "KafkaConsumer":
        from kafka import KafkaConsumer
        from kafka.errors import KafkaConfigurationError, KafkaError, KafkaTimeoutError
        from kafka.net.compat import KafkaNetClient

        def client(**config: Any) -> KafkaNetClient:
            self.clients.append(KafkaNetClient(**config))
            return self.clients[-1]

        def connect() -> KafkaConsumer:
            return KafkaConsumer(bootstrap_servers=self.bootstrap_servers, kafka_client=client, **self.config)

        def close() -> None:
            # A consumer whose making fails leaves its thread and sockets behind.
            for one in self.clients:
                one.close()

        tried = f"no broker could be used within {self.connect_timeout_ms:,} ms"
        connected = False
        try:
            # The client's own timeout does not end a TLS handshake that gets no answer (kafka-python 3.0).
            consumer = _in_time(connect, self.connect_timeout_ms + _GRACE_MS)
            connected = True
        except TimeoutError as error:
            hint = "; something listens there that does not answer: is it a TLS listener of a broker?"
            raise LiveError(f"{self.where}: {tried}{hint}") from error
        except KafkaTimeoutError as error:
            raise LiveError(f"{self.where}: {tried}: {_likely(said)}") from error
        except KafkaConfigurationError as error:
            raise LiveError(f"{self.where}: {_explain(error)}; {_OPTIONS}") from error
        except (KafkaError, ValueError, TypeError, AssertionError, OSError) as error:
            detail = f"{_explain(error)}; an address is HOST:PORT, {_OPTIONS}"
            raise LiveError(f"{self.where}: cannot connect: {detail}") from error
        finally:
            if not connected:
                with suppress(TimeoutError):
                    _in_time(close, _GRACE_MS)
        return consumer

    def _partitions(self, consumer: "KafkaConsumer", numbers: Collection[int] | None) -> "list[TopicPartition]":
        from kafka import TopicPartition
        from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

        there = consumer.partitions_for_topic(self.topic)
        if not there:
            # An empty answer means that the topic is not there, or that we may not see it: asking for an offset tells which.
            try:
                consumer.beginning_offsets([TopicPartition(self.topic, 0)], timeout_ms=1_000)
            except KafkaTimeoutError:
                pass
            except TopicAuthorizationFailedError:
                raise LiveError(
                    f"{self.where}: not allowed to describe {self.topic}; reading needs DESCRIBE and READ on it"
                ) from None
            there = consumer.partitions_for_topic(self.topic)
        if not there:
            raise LiveError(
                f"{self.where}: there is no {self.topic} on this cluster; brokers create it when the first group needs it"
            )
        missing = sorted(set(numbers or ()) - there)
        if missing:
            listed = ", ".join(map(str, missing))
            raise LiveError(f"{self.where}: {self.topic} has partitions 0 to {max(there)}, not {listed}")
        return [TopicPartition(self.topic, number) for number in sorted(there if numbers is None else set(numbers))]

    def _records(
        self, consumer: "KafkaConsumer", partitions: "list[TopicPartition]", follow: bool, since_ms: int | None
    ) -> Iterator[LogEntry]:
        timeout = self.connect_timeout_ms
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions, timeout_ms=timeout)  # read-committed: the last stable offsets
        if since_ms is None:
            starts = consumer.beginning_offsets(partitions, timeout_ms=timeout)
        else:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, since_ms), timeout_ms=timeout)
            starts = {at: ends[at] if stamp is None else stamp.offset for at, stamp in found.items()}
        for at, offset in starts.items():
            consumer.seek(at, offset)
        notices = OutageNotices(self.where, len(partitions), self.on_notice) if self.on_notice else None
        pending = {at for at in partitions if starts[at] < ends[at]}
        progress = time.monotonic()
        positions: dict[TopicPartition, int | None] = {}
        while follow or pending:
            for at, records in consumer.poll(timeout_ms=_POLL_MS).items():
                for record in records:
                    if (follow or record.offset < ends[at]) and (since_ms is None or record.timestamp >= since_ms):
                        yield self._entry(record)
            if follow:
                if notices is not None:
                    notices.look(sum(not self._in_reach(at) for at in partitions))
                continue
            # The position also passes what is not handed out: markers, aborted records, what compaction removed.
            now = {at: consumer.position(at, timeout_ms=timeout) for at in pending}
            for at in [at for at in pending if (now[at] or 0) >= ends[at]]:
                pending.discard(at)
                consumer.pause(at)
            if now != positions:
                positions, progress = now, time.monotonic()
            elif (time.monotonic() - progress) * 1000 > self.stall_timeout_ms:
                stuck = ", ".join(f"{at.topic}-{at.partition} at {now[at]} of {ends[at]}" for at in sorted(pending))
                raise LiveError(
                    f"{self.where}: no progress for {self.stall_timeout_ms:,} ms ({stuck}); are their leaders available?"
                )

    def _in_reach(self, at: "TopicPartition") -> bool:
        """Whether there is a connection to the leader, by what the client knows."""
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


@contextmanager
def _client_log() -> "Iterator[deque[str]]":
    """What kafka-python logs while it is in use: only there it says why a connection failed.

    Having a handler also keeps its warnings off stderr in programs that have not set logging up; others get them as always.
    """
    said: deque[str] = deque(maxlen=200)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            said.extend(_explain(argument) for argument in arguments if isinstance(argument, Exception))

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def _explain(error: Exception) -> str:
    """The message of an exception without the name of its class, which kafka-python puts in front, sometimes twice."""
    text = str(error).rpartition(f"{type(error).__name__}: ")[2].strip()
    return text if text and text != type(error).__name__ else type(error).__name__


def _likely(said: "deque[str]") -> str:
    """The reason that tells most of those that repeated attempts gave, with what may help: a broker often just closes the connection."""
    reasons = [reason for reason in said if not reason.startswith("Unable to bootstrap")]
    reason = max(reversed(reasons), key=_weight, default="no answer")
    hints = [hint for sign, hint in _HINTS if sign in reason]
    return f"{reason}; {hints[0]}" if hints else reason


def _weight(reason: str) -> int:
    """How much a reason tells: the last attempt often just runs out of time, and many brokers say nothing when they refuse."""
    return 0 if reason.startswith("Request timed out") else 1 if reason.startswith("socket disconnected") else 2
