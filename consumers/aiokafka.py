"""aiokafka's consumer with the consumer protocol (KIP-848).

```python
consumer = AIOKafkaConsumer("orders", group_id="billing", group_protocol="consumer")
```

With `group_protocol="classic"`, the default, it is aiokafka's own consumer.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Self

from quorate.assignors import Assignor
from quorate.consumers.client_assignors import ConsumerAssignor, OfferedAssignors
from quorate.consumers.options import ProtocolOptions, SubscriptionPattern
from quorate.consumers.transitions import LeaveOperation

try:
    import aiokafka
    from aiokafka.abc import ConsumerRebalanceListener
    from aiokafka.consumer.fetcher import Fetcher
    from aiokafka.errors import (
        IllegalStateError,
        KafkaConfigurationError,
        KafkaConnectionError,
        UnsupportedVersionError,
    )
    from aiokafka.util import commit_structure_validate

    from quorate.consumers.aiokafka_coordinator import AioCoordinator
    from quorate.consumers.aiokafka_requests import GroupError
    from quorate.consumers.aiokafka_subscription import GroupSubscription
except ImportError as error:
    raise ImportError("quorate.consumers.aiokafka needs aiokafka 0.14: pip install 'quorate[aiokafka]'") from error

__all__ = ["AIOKafkaConsumer", "GroupError", "SubscriptionPattern"]

_BOOTSTRAP_S = 1.0
"""How long a cancelled start waits for the response to its first request."""

log = logging.getLogger(__name__)

CLASSIC_ONLY = ("heartbeat_interval_ms", "partition_assignment_strategy", "session_timeout_ms")
"""Configs that the brokers decide in the consumer protocol."""


class AIOKafkaConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's consumer, with these parameters in addition.

    - `group_protocol`: `"consumer"`, or `"classic"`, the default.
    - `group_remote_assignor`: name of an assignor of the brokers, such as `"range"`.

    - `client_assignors`: client-side assignors, in order of preference; the group uses one if all
      members have it. Only quorate's brokers support them (`quorate.consumers.client_assignors`).
    - `client_assignor_fallback`: `"server"` lets other brokers assign, with a warning; `"error"`,
      the default, makes `start` raise `UnsupportedVersionError`.

    Differs from aiokafka with the consumer protocol: a rebalance does not stop partitions that
    stay, and listeners may have `on_partitions_lost`. By default, `rebalance_timeout_ms` is
    `max_poll_interval_ms`. The configs `session_timeout_ms`, `heartbeat_interval_ms` and
    `partition_assignment_strategy` are rejected: brokers decide them. Raises
    `KafkaConfigurationError`, and `start` raises `UnsupportedVersionError` for brokers before 3.7.
    """

    _fetcher: Any
    _coordinator: Any
    _closed: bool | None

    def __init__(
        self,
        *topics: str,
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        client_assignors: Sequence[ConsumerAssignor | Assignor] = (),
        client_assignor_fallback: str = "error",
        **configs: Any,
    ) -> None:
        self._options = ProtocolOptions(
            KafkaConfigurationError, group_protocol, group_remote_assignor, client_assignors, client_assignor_fallback
        )
        uses_consumer_protocol = self._options.check(configs, CLASSIC_ONLY)
        self._assignors = self._options.offered()
        super().__init__(*topics, **configs)
        self._uses_group: bool = uses_consumer_protocol and configs.get("group_id") is not None
        self._own_rebalance_timeout_ms: int | None = configs.get("rebalance_timeout_ms")
        if self._uses_group:
            # A second one would not have the topics of the constructor.
            self._subscription.__class__ = GroupSubscription

    @property
    def _own(self) -> AioCoordinator | None:
        return self._coordinator if isinstance(self._coordinator, AioCoordinator) else None

    async def start(self) -> None:
        """Connect, join the group, and wait for the first assignment."""
        if not self._uses_group:
            await super().start()
            return
        assert self._fetcher is None, "Did you call `start` twice?"
        await self._bootstrap()
        await self._check_brokers()
        await self._wait_topics()
        if self._subscription.subscribed_pattern:
            await self._client.force_metadata_update()
        self._fetcher = Fetcher(
            self._client,
            self._subscription,
            key_deserializer=self._key_deserializer,
            value_deserializer=self._value_deserializer,
            fetch_min_bytes=self._fetch_min_bytes,
            fetch_max_bytes=self._fetch_max_bytes,
            fetch_max_wait_ms=self._fetch_max_wait_ms,
            max_partition_fetch_bytes=self._max_partition_fetch_bytes,
            check_crcs=self._check_crcs,
            fetcher_timeout=self._consumer_timeout,
            retry_backoff_ms=self._retry_backoff_ms,
            auto_offset_reset=self._auto_offset_reset,
            isolation_level=self._isolation_level,
            client_rack=self._client_rack,
        )
        self._coordinator = own = AioCoordinator(
            self._client,
            self._subscription,
            self._fetcher,
            remote_assignor=self._options.remote_assignor,
            rack=self._client_rack,
            client_assignors=self._assignors,
            rebalance_timeout_ms=self._own_rebalance_timeout_ms,
            group_id=self._group_id,
            group_instance_id=self._group_instance_id,
            retry_backoff_ms=self._retry_backoff_ms,
            enable_auto_commit=self._enable_auto_commit,
            auto_commit_interval_ms=self._auto_commit_interval_ms,
            exclude_internal_topics=self._exclude_internal_topics,
            max_poll_interval_ms=self._max_poll_interval_ms,
        )
        subscription = self._subscription.subscription
        if subscription is None:
            return
        if self._subscription.partitions_auto_assigned():
            await own.wait_for_assignment()
        else:
            own.start_commit_offsets_refresh_task(subscription.assignment)

    async def _check_brokers(self) -> None:
        """Raise `UnsupportedVersionError` if the brokers lack the consumer protocol."""
        for broker in self._client.cluster.brokers():
            connection = await self._client._get_conn(broker.nodeId)
            if connection is not None:
                break
        else:
            raise KafkaConnectionError("no broker is available")
        apis = connection._versions
        if (reason := self._options.unsupported(apis, "the brokers")) is not None:
            await self.stop()
            raise UnsupportedVersionError(reason)
        if not self._options.can_assign(apis):
            log.warning("The brokers do not support client-side assignors, so that they assign with their own")
            self._assignors = OfferedAssignors(())

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        """Subscribe to topics, to a regex of Python, or to a `SubscriptionPattern`."""
        if not isinstance(pattern, SubscriptionPattern):
            super().subscribe(topics=topics, pattern=pattern, listener=listener)
        elif not self._uses_group:
            raise KafkaConfigurationError("SubscriptionPattern needs group_protocol='consumer' and a group_id")
        elif topics:
            raise TypeError("You can't provide both `topics` and `pattern`")
        elif listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        else:
            self._subscription.subscribe_regex(pattern.pattern, listener)
        if (own := self._own) is not None:
            own.subscription_changed()

    def unsubscribe(self) -> None:
        """Unsubscribe from all topics, and leave the group.

        Partitions are dropped at once. The rest follows in the background: the automatic commit,
        the listener, and the request to leave.
        """
        if not self._uses_group:
            super().unsubscribe()
            return
        state = self._subscription
        listener, assignment, in_group = state.listener, state.member_assignment, state.partitions_auto_assigned()
        state.unsubscribe()
        if in_group and (own := self._own) is not None:
            own.leave(listener, assignment)
        self._client.set_topics([])

    async def commit(self, offsets: Any = None) -> None:
        """Commit offsets. The listener may also commit when `unsubscribe` calls it."""
        own = self._own
        if own is None or self.assignment() or (dropped := own.dropped) is None:
            await super().commit(offsets)
            return
        offsets = dropped.all_consumed_offsets() if offsets is None else commit_structure_validate(offsets)
        if other := offsets.keys() - dropped.tps:
            raise IllegalStateError(f"Partition {min(other)} is not assigned")
        await own.commit_offsets(dropped, offsets)

    async def _bootstrap(self) -> None:
        # aiokafka 0.14 leaves a connection open, which nothing else refers to, if `bootstrap` is
        # cancelled while it waits for metadata. So it gets a moment to end first.
        bootstrap = asyncio.ensure_future(self._client.bootstrap())
        try:
            await asyncio.shield(bootstrap)
        except asyncio.CancelledError:
            await asyncio.wait([bootstrap], timeout=_BOOTSTRAP_S)
            bootstrap.cancel()
            await asyncio.wait([bootstrap])
            raise

    async def stop(self, operation: LeaveOperation = LeaveOperation.DEFAULT) -> None:
        """Stop the consumer. `operation`: whether it leaves the group (KIP-1092)."""
        operation = LeaveOperation(operation)
        if not self._uses_group:
            await super().stop()
            return
        if self._closed:
            return
        self._closed = True
        try:
            if (own := self._own) is not None:
                await own.close(operation)
        finally:
            try:
                if self._fetcher is not None:
                    await self._close_fetcher()
            finally:
                await self._client.close()

    async def _close_fetcher(self) -> None:
        # aiokafka's own close raises CancelledError if a request waits for its backoff.
        tasks = {self._fetcher._fetch_task, *self._fetcher._pending_tasks}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._fetcher._pending_tasks.clear()
        await self._fetcher.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()  # `async with` does not call __aexit__
            raise
        return self
