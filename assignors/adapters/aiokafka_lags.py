"""Reads the lags of an aiokafka consumer's group for its leader.

The reads use the consumer's connections and event loop, and do not block it.
"""

import asyncio
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

import numpy as np
from aiokafka.consumer.fetcher import Fetcher, OffsetResetStrategy
from aiokafka.errors import KafkaError, NotCoordinatorForGroupError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import TopicPartition as At

from quorate.assignors.adapters.consumer_lags import ConsumerLags, Offsets, limit_ms
from quorate.assignors.lags import Lags
from quorate.assignors.topology import TopicPartition, Topology


def fetcher_of(coordinator: Any) -> Any | None:
    """Return the fetcher of the coordinator's consumer, which has its `client_rack`.

    `None` if the coordinator has no consumer, as in a test. aiokafka has no reference from one to
    the other, but the fetcher's task runs in the same loop.
    """
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        found = None if frame is None else frame.f_locals.get("self")
        if isinstance(found, Fetcher) and found._subscriptions is coordinator._subscription:
            return found
    return None


class LagReader:
    """Reads lags for one consumer; holds a weak reference to its coordinator."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator_ref = weakref.ref(coordinator)
        self._limit_ms = limit_ms(coordinator._session_timeout_ms)
        self._until = 0.0
        fetcher = fetcher_of(coordinator)
        reset = OffsetResetStrategy.LATEST if fetcher is None else fetcher._default_reset_strategy
        self._lags = ConsumerLags(
            group=coordinator.group_id,
            reset=OffsetResetStrategy.to_str(reset),
            committed=self._committed,
            ends=partial(self._bounds, "end_offsets"),
            starts=partial(self._bounds, "beginning_offsets"),
        )

    async def read(self, topology: Topology) -> Lags:
        """Return the lags of all partitions of the topology, or the last known. Never raises."""
        cluster = self._coordinator._cluster
        partitions = topology.topic_partitions(np.arange(len(topology.topic_of)))
        with_leader = {at for at in partitions if cluster.leader_for_partition(At(*at)) not in (None, -1)}
        self._until = asyncio.get_running_loop().time() + self._limit_ms / 1000
        return await self._lags.of(partitions, with_leader)

    @property
    def _coordinator(self) -> Any:
        coordinator = self._coordinator_ref()
        assert coordinator is not None  # it is the caller
        return coordinator

    async def _committed(self, partitions: Sequence[TopicPartition]) -> Offsets:
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            by_topic[topic].append(number)
        found: Offsets = await self._in_time(self._fetched(list(by_topic.items())))
        return found

    async def _fetched(self, by_topic: list[tuple[str, list[int]]]) -> Offsets:
        """Return committed offsets.

        aiokafka 0.14 ignores an error of the whole response, as if nothing were committed.
        """
        coordinator = self._coordinator
        while True:
            await coordinator.ensure_coordinator_known()
            try:
                response = await coordinator._send_req(OffsetFetchRequest(coordinator.group_id, by_topic))
                _raise(getattr(response, "error_code", 0), coordinator.group_id)
                found = {}
                for topic, partitions in response.topics:
                    for number, offset, _, error_code in partitions:
                        if error_code != UnknownTopicOrPartitionError.errno:
                            _raise(error_code, f"{topic}-{number}")
                            if offset >= 0:
                                found[TopicPartition(topic, number)] = offset
                return found
            except KafkaError as error:
                if not error.retriable:
                    raise
                if isinstance(error, NotCoordinatorForGroupError):
                    coordinator.coordinator_dead()
                await asyncio.sleep(coordinator._retry_backoff_ms / 1000)

    async def _bounds(self, which: str, partitions: Sequence[TopicPartition]) -> Offsets:
        fetcher = fetcher_of(self._coordinator)
        if fetcher is None:
            raise LookupError("the consumer is not running")
        found = await self._in_time(getattr(fetcher, which)([At(*at) for at in partitions], None))
        return {TopicPartition(*at): offset for at, offset in found.items()}

    async def _in_time(self, reading: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout_at(self._until):
                return await reading
        except TimeoutError:
            raise TimeoutError(f"no response within {self._limit_ms:,} ms") from None


def _raise(error_code: int, about: str) -> None:
    if error_code:
        raise for_code(error_code)(about)
