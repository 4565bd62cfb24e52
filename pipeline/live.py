"""Read a running cluster: fetch record batches as bytes, and decode them like files.

Requests offsets and batches from brokers, and retries. Knows nothing about Spark's streams.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from quorate.codecs.batches.v2 import CONTROL, TRANSACTIONAL
from quorate.codecs.live_connect import LiveError, client_log, connect, explain_error, likely_reason, where_text
from quorate.codecs.live_topic import offsets_of, topic_partitions
from quorate.codecs.log.batch_starts import batch_starts
from quorate.codecs.log.blocks import Batches, headers_of
from quorate.codecs.log.transactions import Transactions
from quorate.pipeline.files import DataLoss, Piece, check_offset, offset_of
from quorate.pipeline.files_read import Reading, read_piece
from quorate.pipeline.live_options import client_config
from quorate.pipeline.options import EARLIEST, LATEST, Options

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.net.compat import KafkaNetClient

BYTES_PER_OFFSET: Final = 100
"""Estimated size of a record. Sizes are not known before reading, so ranges are cut by offsets."""

FETCH_BYTES: Final = 16 << 20
CONNECT_TIMEOUT_MS: Final = 10_000
STALL_TIMEOUT_MS: Final = 30_000
_RETRY_S: Final = 0.1
_EMPTY_FETCHES: Final = 2
"""Fetches without batches up to the end of the log after which the range counts as read."""

_OUT_OF_RANGE: Final = 1
_NOT_RETRIABLE: Final = {17, 29, 31, 35}
"""INVALID_TOPIC_EXCEPTION, TOPIC_ and CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


class TopicConnection:
    """A connection to a cluster for one topic. Close it, or use it in `with`.

    Methods raise `LiveError` if the cluster cannot be read.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.topic = options.topic
        config = client_config(options.kafka)
        self.servers: str = config.pop("bootstrap_servers")
        self.where = where_text(self.servers, config)
        self.config = {
            "isolation_level": "read_committed" if options.read_committed else "read_uncommitted",
            "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
            "allow_auto_create_topics": False,
            "enable_auto_commit": False,
            "metrics_enabled": False,
            **config,
        }
        self._stack = ExitStack()
        self._consumer: KafkaConsumer | None = None
        self._clients: list[KafkaNetClient] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it is open."""
        self._stack.close()
        self._consumer = None
        self._clients.clear()

    @property
    def consumer(self) -> "KafkaConsumer":
        """The client, connected on first use."""
        if self._consumer is None:
            from kafka import KafkaConsumer

            log = self._stack.enter_context(client_log())
            self._client_log = log
            self._consumer = connect(KafkaConsumer, self.servers, self.config, CONNECT_TIMEOUT_MS, log, self._clients)
            self._stack.callback(self._consumer.close)
            (client,) = self._clients
            client.cluster.add_topic(self.topic)  # the client fetches metadata, and so leaders, of its topics only
        return self._consumer

    # ---- offsets

    def partitions(self) -> list[int]:
        """Return the existing partitions that were requested."""
        self.consumer  # noqa: B018  # connects
        (client,) = self._clients
        return topic_partitions(client, self.topic, self.options.partitions, self.where, CONNECT_TIMEOUT_MS)

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offset of each partition."""
        return self._offsets(partitions, "beginning_offsets")

    def latest(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end offset of each partition, with `read_committed` the last stable offset."""
        return self._offsets(partitions, "end_offsets")

    def at_time(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int | None]:
        """Return each partition's first offset with this or a later timestamp, or `None`."""
        wanted = self._topic_partitions(partitions)
        found = self._list_offsets("offsets_for_times", dict.fromkeys(wanted, timestamp_ms))
        return {one.partition: None if stamp is None else stamp.offset for one, stamp in found.items()}

    def _offsets(self, partitions: Iterable[int], name: str) -> dict[int, int]:
        wanted = self._topic_partitions(partitions)
        if not wanted:
            return {}
        found = self._list_offsets(name, wanted)
        return {one.partition: offset for one, offset in found.items()}

    def _topic_partitions(self, partitions: Iterable[int]) -> "list[TopicPartition]":
        from kafka import TopicPartition

        return [TopicPartition(self.topic, number) for number in partitions]

    def _list_offsets(self, method: str, wanted: "Collection[TopicPartition]") -> Any:
        from kafka.errors import KafkaError

        request = getattr(self.consumer, method)
        try:
            return offsets_of(request, wanted, self._clients[0], self.where, CONNECT_TIMEOUT_MS)
        except KafkaError as error:
            hint = likely_reason(self._client_log) if self._client_log else explain_error(error)
            raise LiveError(f"{self.where}: listing offsets of {self.topic} failed: {hint}") from error

    # ---- batches

    def fetch(self, wanted: OffsetRange) -> Iterator[tuple[bytes, Transactions]]:
        """Fetch a range: whole batches as bytes, with the aborted transactions among them.

        Waits while a partition has no leader, or brokers are down. Raises `LiveError` after
        `STALL_TIMEOUT_MS` without progress, and `DataLoss` if offsets are missing from the log and
        `failOnDataLoss` is set.
        """
        offset = wanted.start
        progress = time.monotonic()
        empty, problem = 0, "no response"
        while offset < wanted.end:
            fetched, problem = self._fetch_once(wanted.partition, offset)
            if fetched is not None:
                if fetched.error_code == _OUT_OF_RANGE:
                    offset = self._reset_offset(wanted, offset)
                    continue
                data, transactions, following = _whole_batches(fetched, offset)
                if following > offset:
                    yield data, transactions
                    offset, empty, progress = following, 0, time.monotonic()
                    continue
                # Compaction may have removed the last records before the end offset.
                limit = fetched.last_stable_offset if self.options.read_committed else fetched.high_watermark
                empty += limit >= wanted.end
                if empty >= _EMPTY_FETCHES:
                    return
            if (time.monotonic() - progress) * 1000 > STALL_TIMEOUT_MS:
                place = f"{self.topic}-{wanted.partition} at {offset:,} of {wanted.end:,}"
                raise LiveError(f"{self.where}: no progress for {STALL_TIMEOUT_MS:,} ms ({place}): {problem}")
            if fetched is None:
                self._refresh()

    def _fetch_once(self, partition: int, offset: int) -> tuple[Any, str]:
        """Send one Fetch to the leader; return its partition's response, or `None` and the reason.

        Raises `LiveError` for errors that are not retriable.
        """
        from kafka import TopicPartition
        from kafka.errors import KafkaError, for_code
        from kafka.protocol.consumer import FetchRequest

        self.consumer  # noqa: B018  # connects
        (client,) = self._clients
        manager = client._manager
        leader = client.cluster.leader_for_partition(TopicPartition(self.topic, partition))
        if leader is None or leader == -1:
            return None, "no leader"
        most = self.config.get("max_partition_fetch_bytes", FETCH_BYTES)
        place = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=most,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=max(most, self.config.get("fetch_max_bytes", 0)),
            isolation_level=int(self.options.read_committed),
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=self.topic, partitions=[place])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            max_version=12,  # since 13, requests contain topic ids instead of names
        )
        try:
            response = manager.run(manager.send, request, leader)
        except KafkaError as error:
            return None, explain_error(error)
        if response.error_code or not response.responses:
            return None, f"error {response.error_code}"
        fetched = response.responses[0].partitions[0]
        if fetched.error_code in _NOT_RETRIABLE:
            raise LiveError(f"{self.where}: {self.topic} cannot be read: {for_code(fetched.error_code).description}")
        if fetched.error_code not in (0, _OUT_OF_RANGE):
            return None, for_code(fetched.error_code).__name__
        return fetched, ""

    def _refresh(self) -> None:
        """Update the metadata, which names the leaders, and wait before the next fetch."""
        from kafka.errors import KafkaError

        (client,) = self._clients
        manager = client._manager
        with suppress(KafkaError):  # `fetch` retries until its timeout
            manager.run(manager.wait_for, client.cluster.request_update(), CONNECT_TIMEOUT_MS)
        time.sleep(_RETRY_S)

    def _reset_offset(self, wanted: OffsetRange, offset: int) -> int:
        """Return the offset to continue from if `offset` is out of range. Raises `DataLoss`."""
        start = self.earliest([wanted.partition])[wanted.partition]
        end = self.latest([wanted.partition])[wanted.partition]
        if self.options.fail_on_data_loss:
            raise DataLoss(
                f"{self.topic}-{wanted.partition}: offset {offset:,} is not in the log any more, "
                f"which has {start:,} to {end:,}; failOnDataLoss=false reads the rest"
            )
        return start if offset < start else wanted.end


def _whole_batches(fetched: Any, offset: int) -> tuple[bytes, Transactions, int]:
    """Return the whole batches of a response, their aborted transactions, and the next offset.

    A broker may cut off the last batch.
    """
    data = bytes(fetched.records or b"")
    starts, end = batch_starts(data)
    if not len(starts):
        return b"", Transactions(), offset
    batches = headers_of(data, starts, end)
    following = int(batches.base_offset[-1]) + max(int(batches.last_offset_delta[-1]), 0) + 1
    return data[:end], Transactions(_spans(fetched.aborted_transactions or (), batches)), following


def _spans(aborted: Iterable[Any], batches: Batches) -> dict[int, list[tuple[int, int]]]:
    """Return aborted transactions by producer, each from its first offset to its marker.

    Kafka's consumer finds the markers in the same way (KIP-98).
    """
    markers = batches.plain & (batches.attributes & CONTROL != 0) & (batches.attributes & TRANSACTIONAL != 0)
    found: dict[int, list[tuple[int, int]]] = {}
    for one in sorted(aborted, key=lambda transaction: transaction.first_offset):
        own = batches.base_offset[markers & (batches.producer_id == one.producer_id)]
        later = own[own > one.first_offset]
        end = int(later[0]) if len(later) else np.iinfo(np.int64).max
        found.setdefault(one.producer_id, []).append((one.first_offset, int(end)))
    return found


# ---- options to ranges, ranges to rows


def ranges_of(options: Options, cluster: TopicConnection) -> list[OffsetRange]:
    """Return the offset ranges to read. Raises `DataLoss` for offsets that are not in the log."""
    partitions = cluster.partitions()
    first, last = cluster.earliest(partitions), cluster.latest(partitions)
    starts = starts_of(options, cluster, partitions, first, last)
    found = []
    for number in partitions:
        end = offset_of(options.ending_offsets, number)
        end = last[number] if end == LATEST else end
        start = starts[number]
        for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if options.fail_on_data_loss:
                check_offset(f"{options.topic}-{number}", name, offset, first[number], last[number])
        found.append(OffsetRange(number, max(start, first[number]), min(end, last[number])))
    return [one for one in found if one.start < one.end]


def starts_of(
    options: Options,
    cluster: TopicConnection,
    partitions: Iterable[int],
    first: Mapping[int, int],
    last: Mapping[int, int],
) -> dict[int, int]:
    """Return the offset of each partition at which the options start reading."""
    known = list(partitions)
    if options.starting_timestamp is not None:
        times = cluster.at_time(known, options.starting_timestamp)
        return {number: last[number] if (at := times[number]) is None else at for number in known}
    found: dict[int, int] = {}
    for number in known:
        start = offset_of(options.starting_offsets, number)
        found[number] = {EARLIEST: first[number], LATEST: last[number]}.get(start, start)
    return found


def read_ranges(ranges: Iterable[OffsetRange], options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Fetch offset ranges, and return their rows. Raises `LiveError`, and `DataLoss`."""
    with TopicConnection(options) as cluster:
        for wanted in ranges:
            for data, transactions in cluster.fetch(wanted):
                piece = Piece(
                    topic=options.topic,
                    partition=wanted.partition,
                    path=Path(f"{cluster.servers}/{options.topic}-{wanted.partition}"),
                    begin=0,
                    end=len(data),
                    size_bytes=len(data),
                    first_offset=wanted.start,
                    next_offset=wanted.end,
                    transactions=transactions,
                    start_offset=wanted.start,
                    end_offset=wanted.end,
                )
                yield from read_piece(piece, reading, BytesIO(data))
