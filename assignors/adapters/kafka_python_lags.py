"""Reads the lags of a kafka-python consumer's group for its leader.

The reads use the consumer's connections and kafka-python's thread, and do not block it.
"""

import time
import weakref
from collections.abc import Awaitable, Collection, Sequence
from functools import partial
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.protocol.consumer.offsets import OffsetSpec
from kafka.structs import TopicPartition as At

from quorate.assignors.adapters.consumer_lags import ConsumerLags, Offsets, limit_ms
from quorate.assignors.lags import Lags
from quorate.assignors.topology import TopicPartition


class LagReader:
    """Reads lags for one consumer; holds a weak reference to it."""

    def __init__(self, coordinator: Any, consumer: Any) -> None:
        self._coordinator_ref = weakref.ref(coordinator)
        self._consumer_ref = weakref.ref(consumer)
        self._fetcher_ref = weakref.ref(consumer._fetcher)
        self._limit_ms = limit_ms(coordinator.config["session_timeout_ms"])
        self._until = 0.0
        self._lags = ConsumerLags(
            group=coordinator.group_id or "(none)",
            reset=consumer.config["auto_offset_reset"],
            committed=self._committed,
            ends=partial(self._bounds, OffsetSpec.LATEST),
            starts=partial(self._bounds, OffsetSpec.EARLIEST),
            closed=self._closed,
        )

    async def read(self, topics: Collection[str]) -> Lags:
        """Return the lags of all partitions of these topics, or the last known. Never raises."""
        cluster = _alive(self._coordinator_ref)._cluster
        partitions = [
            TopicPartition(topic, number)
            for topic in sorted(topics)
            for number in sorted(cluster.partitions_for_topic(topic) or ())
        ]
        with_leader = {at for at in partitions if cluster.leader_for_partition(At(*at)) not in (None, -1)}
        self._until = time.monotonic() + self._limit_ms / 1000
        return await self._lags.of(partitions, with_leader)

    def _closed(self) -> bool:
        consumer = self._consumer_ref()
        return consumer is None or consumer._closed

    async def _committed(self, partitions: Sequence[TopicPartition]) -> Offsets:
        wanted = [At(*at) for at in partitions]
        coordinator = _alive(self._coordinator_ref)
        found = await self._in_time(coordinator.fetch_committed_offsets_async(wanted, self._left_ms()))
        return {TopicPartition(*at): one.offset for at, one in found.items()}

    async def _bounds(self, which: OffsetSpec, partitions: Sequence[TopicPartition]) -> Offsets:
        wanted = {At(*at): which for at in partitions}
        fetcher = _alive(self._fetcher_ref)
        found = await self._in_time(fetcher._fetch_offsets_by_times_async(wanted, self._left_ms()))
        return {TopicPartition(*at): one.offset for at, one in found.items()}

    def _left_ms(self) -> float:
        return max(1.0, (self._until - time.monotonic()) * 1000)

    async def _in_time(self, reading: Awaitable[Any]) -> Any:
        try:
            return await reading
        except KafkaTimeoutError:
            raise TimeoutError(f"no response within {self._limit_ms:,} ms") from None


def _alive(reference: "weakref.ref[Any]") -> Any:
    found = reference()
    assert found is not None  # it is the caller
    return found
