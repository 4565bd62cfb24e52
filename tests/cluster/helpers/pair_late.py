"""Waits for what the coordinators of a real broker write after they responded.

A heartbeat of a share group writes which partitions are initializing, and a broker responds before
their state is in `__share_group_state`. A heartbeat with a new regex is responded to before its
topics are found. The embedded cluster does both at once. The next heartbeat bumps the group epoch.
So random requests wait, by reading `__consumer_offsets`, which alone shows this.
"""

import time
from collections.abc import Callable

from quorate.codecs import CONSUMER_OFFSETS, decode_record
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.batches import BatchRecord, read_batches
from quorate.codecs.messages.consumer_group import ConsumerGroupRegularExpressionKey
from quorate.codecs.messages.share_group import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from quorate.coordinator.partitioning import partition_for
from tests.cluster.helpers.wire import Wire

_TIMEOUT_S = 60


class LateWrites:
    """Late writes of a broker on `port`, with `partitions` partitions of `__consumer_offsets`.

    `user`: for SASL, if required. The waits raise `TimeoutError`.
    """

    def __init__(self, port: int, partitions: int, user: str | None = None) -> None:
        self._port = port
        self._user = user
        self._ends = [0] * partitions
        self._initializing: dict[str, bool] = {}
        self._resolved: set[tuple[str, str]] = set()

    def wait_for_share_states(self, group_id: str) -> None:
        """Wait until no partition of a share group is initializing."""
        self._wait(group_id, lambda: not self._initializing.get(group_id, False), "partitions without state")

    def wait_for_regex(self, group_id: str, regex: str) -> None:
        """Wait until the topics that a regex matches are known."""
        self._wait(group_id, lambda: (group_id, regex) in self._resolved, f"no topics of {regex}")

    def _wait(self, group_id: str, done: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + _TIMEOUT_S
        with Wire(self._port, user=self._user) as wire:
            while self._read(wire, partition_for(group_id, len(self._ends))) or not done():
                if time.monotonic() > until:
                    raise TimeoutError(f"group {group_id} has {otherwise} after {_TIMEOUT_S} s")

    def _read(self, wire: Wire, partition: int) -> bool:
        """Read new records, waiting for a short time; return whether there were any."""
        wanted = FetchPartition(partition=partition, fetch_offset=self._ends[partition], partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=CONSUMER_OFFSETS, partitions=(wanted,))
        (found,) = wire.request(FetchRequest(max_wait_ms=20, min_bytes=1, topics=(topic,)), 11).responses[0].partitions
        assert found.error_code == 0, found
        for batch in read_batches(found.records or b""):
            for record in batch.records():
                assert isinstance(record, BatchRecord), record
                self._ends[partition] = record.offset + 1
                if not batch.header.control:
                    self._take(record)
        return bool(found.records)

    def _take(self, record: BatchRecord) -> None:
        read = decode_record(record.key, record.value)
        if isinstance(read.key, ShareGroupStatePartitionMetadataKey):
            value = read.value
            topics = value.initializing_topics if isinstance(value, ShareGroupStatePartitionMetadataValue) else ()
            partitions = [partition for topic in topics for partition in topic.partitions]
            # Altering offsets of a negative partition fails as a whole, and leaves it initializing.
            self._initializing[read.key.group_id] = bool(partitions) and min(partitions) >= 0
        elif isinstance(read.key, ConsumerGroupRegularExpressionKey):
            regex = read.key.group_id, read.key.regular_expression
            (self._resolved.discard if read.value is None else self._resolved.add)(regex)
