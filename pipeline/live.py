"""Reading a running cluster for Spark: record batches are fetched as bytes, and decoded as those of files are.

Knows how to ask brokers for offsets and batches, and when to ask again; nothing about Spark's
streams.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from quorate.codecs.batches.v2 import CONTROL, TRANSACTIONAL
from quorate.codecs.live_connect import LiveError, client_log, connect, explain_error, likely_reason, where_text
from quorate.codecs.live_topic import offsets_of, topic_partitions
from quorate.codecs.log.batch_starts import batch_starts
from quorate.codecs.log.blocks import Batches, headers_of
from quorate.codecs.log.transactions import Transactions
from quorate.pipeline.files import DataLoss, Piece, Split, bundled, check_offset, offset_of
from quorate.pipeline.files_read import Reading, read_piece
from quorate.pipeline.live_options import client_config
from quorate.pipeline.options import EARLIEST, LATEST, Options
from quorate.pipeline.workers import settle

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.net.compat import KafkaNetClient

__all__ = ["OffsetRange", "RangeSplit", "TopicConnection", "cut", "ranges_of", "read_task"]

BYTES_PER_OFFSET: Final = 100
"""What a record takes, roughly: sizes are not known before reading, so that tasks are cut by
offsets.
"""

FETCH_BYTES: Final = 16 << 20
CONNECT_TIMEOUT_MS: Final = 10_000
STALL_TIMEOUT_MS: Final = 30_000
_RETRY_S: Final = 0.1
_TWICE: Final = 2

_OUT_OF_RANGE: Final = 1
_FOR_EVER: Final = {17, 29, 31, 35}  # topics that cannot be, not allowed, a version that the broker does not know


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition from `start` to `end`, not included."""

    partition: int
    start: int
    end: int


class RangeSplit(InputPartition):
    """What one task fetches."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self.ranges = tuple(ranges)
        super().__init__(None)

    def __repr__(self) -> str:
        return f"RangeSplit({', '.join(f'{one.partition}:{one.start}-{one.end}' for one in self.ranges)})"


class TopicConnection:
    """A connection to a cluster for one topic; to be closed, or used in `with`.

    Raises `LiveError` where the cluster cannot be read.
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
        """Close the connection, if there is one."""
        self._stack.close()
        self._consumer = None
        self._clients.clear()

    @property
    def consumer(self) -> "KafkaConsumer":
        """The client, connected when it is first needed."""
        if self._consumer is None:
            from kafka import KafkaConsumer

            said = self._stack.enter_context(client_log())
            self._said = said
            self._consumer = connect(KafkaConsumer, self.servers, self.config, CONNECT_TIMEOUT_MS, said, self._clients)
            self._stack.callback(self._consumer.close)
            (client,) = self._clients
            client.cluster.add_topic(self.topic)  # so that the client learns its leaders
        return self._consumer

    # ---- offsets

    def partitions(self) -> list[int]:
        """The partitions that there are and were asked for."""
        self.consumer  # noqa: B018  # connects
        (client,) = self._clients
        return topic_partitions(client, self.topic, self.options.partitions, self.where, CONNECT_TIMEOUT_MS)

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset of each partition."""
        return self._offsets(partitions, "beginning_offsets")

    def latest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The offset behind the last of each partition: the last stable one if only what was committed is read."""
        return self._offsets(partitions, "end_offsets")

    def at_time(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int | None]:
        """The first offset of each partition whose timestamp is not earlier, or `None`."""
        places = self._places(partitions)
        found = self._asked("offsets_for_times", dict.fromkeys(places, timestamp_ms))
        return {place.partition: None if stamp is None else stamp.offset for place, stamp in found.items()}

    def _offsets(self, partitions: Iterable[int], name: str) -> dict[int, int]:
        places = self._places(partitions)
        if not places:
            return {}
        found = self._asked(name, places)
        return {place.partition: offset for place, offset in found.items()}

    def _places(self, partitions: Iterable[int]) -> "list[TopicPartition]":
        from kafka import TopicPartition

        return [TopicPartition(self.topic, number) for number in partitions]

    def _asked(self, method: str, places: "Collection[TopicPartition]") -> Any:
        from kafka.errors import KafkaError

        ask = getattr(self.consumer, method)
        try:
            return offsets_of(ask, places, self._clients[0], self.where, CONNECT_TIMEOUT_MS)
        except KafkaError as error:
            hint = likely_reason(self._said) if self._said else explain_error(error)
            raise LiveError(f"{self.where}: asking for offsets of {self.topic} failed: {hint}") from error

    # ---- batches

    def fetch(self, wanted: OffsetRange) -> Iterator[tuple[bytes, Transactions]]:
        """The batches of a range as bytes, whole batches each time, with the transactions that were aborted among them.

        Leaders that move, and brokers that are gone for a while, are waited for. Raises `LiveError`
        if nothing comes for `STALL_TIMEOUT_MS`, and `DataLoss` if offsets are gone and
        `failOnDataLoss` is set.
        """
        offset = wanted.start
        progress = time.monotonic()
        empty, problem = 0, "no answer"
        while offset < wanted.end:
            answer, problem = self._fetch_once(wanted.partition, offset)
            if answer is not None:
                if answer.error_code == _OUT_OF_RANGE:
                    offset = self._resumed(wanted, offset)
                    continue
                data, transactions, following = _whole_batches(answer, offset)
                if following > offset:
                    yield data, transactions
                    offset, empty, progress = following, 0, time.monotonic()
                    continue
                # Behind what compaction has removed from the end there is nothing, although the end
                # is further on.
                limit = answer.last_stable_offset if self.options.read_committed else answer.high_watermark
                empty += limit >= wanted.end
                if empty >= _TWICE:
                    return
            if (time.monotonic() - progress) * 1000 > STALL_TIMEOUT_MS:
                place = f"{self.topic}-{wanted.partition} at {offset:,} of {wanted.end:,}"
                raise LiveError(f"{self.where}: no progress for {STALL_TIMEOUT_MS:,} ms ({place}): {problem}")
            if answer is None:
                self._refresh()

    def _fetch_once(self, partition: int, offset: int) -> tuple[Any, str]:
        """One answer of the leader, or `None` and why there is none.

        Raises `LiveError` for what no waiting helps.
        """
        from kafka import TopicPartition
        from kafka.errors import KafkaError, for_code
        from kafka.protocol.consumer import FetchRequest

        self.consumer  # noqa: B018  # connects
        (client,) = self._clients
        manager = client._manager
        leader = client.cluster.leader_for_partition(TopicPartition(self.topic, partition))
        if leader is None or leader == -1:
            return None, "there is no leader"
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
            max_version=12,  # from 13 on, topics have ids in place of names
        )
        try:
            response = manager.run(manager.send, request, leader)
        except KafkaError as error:
            return None, explain_error(error)
        if response.error_code or not response.responses:
            return None, f"error {response.error_code}"
        answer = response.responses[0].partitions[0]
        if answer.error_code in _FOR_EVER:
            raise LiveError(f"{self.where}: {self.topic} cannot be read: {for_code(answer.error_code).description}")
        if answer.error_code not in (0, _OUT_OF_RANGE):
            return None, for_code(answer.error_code).__name__
        return answer, ""

    def _refresh(self) -> None:
        """Ask anew who leads, and give it some time."""
        from kafka.errors import KafkaError

        (client,) = self._clients
        manager = client._manager
        with suppress(KafkaError):  # asked again, until the time is up
            manager.run(manager.wait_for, client.cluster.request_update(), CONNECT_TIMEOUT_MS)
        time.sleep(_RETRY_S)

    def _resumed(self, wanted: OffsetRange, offset: int) -> int:
        """Where to go on if the log does not have `offset`."""
        start = self.earliest([wanted.partition])[wanted.partition]
        end = self.latest([wanted.partition])[wanted.partition]
        if self.options.fail_on_data_loss:
            raise DataLoss(
                f"{self.topic}-{wanted.partition}: offset {offset:,} is not in the log any more, which has {start:,} to {end:,}; "
                "failOnDataLoss=false reads what there is"
            )
        return start if offset < start else wanted.end


def _whole_batches(answer: Any, offset: int) -> tuple[bytes, Transactions, int]:
    """The whole batches of an answer, the aborted transactions among them, and the offset behind them.

    A broker may cut the last batch off.
    """
    data = bytes(answer.records or b"")
    starts, end = batch_starts(data)
    if not len(starts):
        return b"", Transactions(), offset
    batches = headers_of(data, starts, end)
    following = int(batches.base_offset[-1]) + max(int(batches.last_offset_delta[-1]), 0) + 1
    return data[:end], Transactions(_spans(answer.aborted_transactions or (), batches)), following


def _spans(aborted: Iterable[Any], batches: Batches) -> dict[int, list[tuple[int, int]]]:
    """Aborted transactions from their first offset to their marker, by producer, as the client of Kafka finds them (KIP-98)."""
    markers = batches.plain & (batches.attributes & CONTROL != 0) & (batches.attributes & TRANSACTIONAL != 0)
    found: dict[int, list[tuple[int, int]]] = {}
    for one in sorted(aborted, key=lambda transaction: transaction.first_offset):
        own = batches.base_offset[markers & (batches.producer_id == one.producer_id)]
        later = own[own > one.first_offset]
        end = int(later[0]) if len(later) else np.iinfo(np.int64).max
        found.setdefault(one.producer_id, []).append((one.first_offset, int(end)))
    return found


# ---- from options to tasks, and from tasks to rows


def ranges_of(options: Options, cluster: TopicConnection) -> list[OffsetRange]:
    """What the options ask for. Raises `DataLoss` for offsets that the log has not."""
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
    """Where the options say to begin."""
    known = list(partitions)
    if options.starting_timestamp is not None:
        times = cluster.at_time(known, options.starting_timestamp)
        return {number: last[number] if (at := times[number]) is None else at for number in known}
    found: dict[int, int] = {}
    for number in known:
        start = offset_of(options.starting_offsets, number)
        found[number] = {EARLIEST: first[number], LATEST: last[number]}.get(start, start)
    return found


def cut(ranges: Iterable[OffsetRange], max_split_bytes: int) -> list[RangeSplit]:
    """Tasks of about that many bytes: long ranges in parts, short ones together."""
    most = max(max_split_bytes // BYTES_PER_OFFSET, 1)
    parts = (
        replace(whole, start=start, end=min(start + most, whole.end))
        for whole in ranges
        for start in range(whole.start, whole.end, most)
    )
    return [RangeSplit(few) for few in bundled(parts, lambda part: part.end - part.start, most)]


def read_task(task: InputPartition, options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows of a task; where there is none, Spark makes up an empty one."""
    if isinstance(task, Split):
        for piece in task.pieces:
            yield from read_piece(piece, reading)
    elif isinstance(task, RangeSplit):
        yield from _read_ranges(task.ranges, options, reading)
    settle()


def _read_ranges(ranges: Iterable[OffsetRange], options: Options, reading: Reading) -> Iterator[pa.RecordBatch]:
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
