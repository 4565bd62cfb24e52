"""aiokafka's subscription state, whose assignment changes partition by partition.

aiokafka replaces the whole assignment in a rebalance, which drops positions, fetched records and
requests in flight. Here the same `Assignment` continues, so that the fetcher does not stop for
partitions that stay.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from aiokafka.consumer.subscription_state import (
    Assignment,
    ManualSubscription,
    Subscription,
    SubscriptionState,
    SubscriptionType,
    TopicPartitionState,
)
from aiokafka.errors import IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.util import create_future

NOT_NEEDED = OffsetAndMetadata(0, "")
"""A committed offset for partitions that are no longer assigned."""


class Hold(Enum):
    """Why a partition is neither fetched nor returned."""

    REBALANCE = "the listener has not received it, or it is about to be revoked"
    UNSUBSCRIBED = "the application does not subscribe to its topic any more"


class HeldPartition(TopicPartitionState):  # type: ignore[misc]  # aiokafka has no types
    """The state of a partition, which can be held.

    `paused` is what the fetcher checks; `paused_by_user` is what the consumer reports.
    """

    def __init__(self, assignment: Any) -> None:
        super().__init__(assignment)
        self._holds: set[Hold] = set()
        self._held: Any = None
        self._prefetched: OffsetAndMetadata | None = None

    @property
    def paused_by_user(self) -> bool:
        """Whether the application paused it."""
        return bool(self._paused)

    @property
    def paused(self) -> bool:
        """Whether the fetcher ignores it."""
        return self._paused or self._held is not None

    @property
    def resume_fut(self) -> Any:
        """The future that the fetcher waits for while it is paused."""
        return self._resume_fut if self._held is None else self._held

    def hold(self, why: Hold) -> None:
        """Stop fetching."""
        self._holds.add(why)
        if self._held is None:
            self._held = create_future()

    def release(self, why: Hold) -> None:
        """Fetch again, if no other reason is left."""
        self._holds.discard(why)
        if not self._holds:
            self._resume()

    def _resume(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.set_result(None)

    # Committed offsets are read for all new partitions at once; aiokafka reads one after the other.

    def fetch_committed(self) -> Any:
        """Return a future of the committed offset."""
        offset, self._prefetched = self._prefetched, None
        if offset is None:
            return super().fetch_committed()
        future = create_future()
        future.set_result(offset)
        return future

    def update_committed(self, offset_meta: Any) -> None:
        """Receive the committed offset; `fetch_committed` may follow."""
        if not self._committed_futs and not self.has_valid_position:
            self._prefetched = offset_meta
        super().update_committed(offset_meta)

    def await_reset(self, strategy: Any) -> None:
        """Forget the position."""
        self._prefetched = None
        super().await_reset(strategy)

    @property
    def wants_committed(self) -> bool:
        """Whether its position depends on the committed offset."""
        return not (self.has_valid_position or self.awaiting_reset or self._prefetched)

    def remove(self) -> None:
        """End all waits for it."""
        self._resume()
        self.update_committed(NOT_NEEDED)
        if not self._position_fut.done():
            self._position_fut.set_result(None)


class _Removed:
    """The state of partitions that were removed while there were requests for them.

    The fetcher discards their responses and records, and committed offsets have no effect.
    """

    has_valid_position = False
    awaiting_reset = False
    paused = True
    position = -1

    def fetch_committed(self) -> Any:
        future = create_future()
        future.set_result(NOT_NEEDED)
        return future

    def reset_to(self, position: int) -> None:
        pass

    def update_committed(self, offset_meta: Any) -> None:
        pass


_REMOVED = _Removed()


class GroupAssignment(Assignment):  # type: ignore[misc]
    """The partitions of a member, from its first assignment until it unsubscribes."""

    _tp_state: dict[Any, Any]
    _topic_partitions: frozenset[Any]

    def __init__(self) -> None:
        super().__init__(())

    def state_value(self, tp: Any) -> Any:
        """Return the state of a partition; for others one that ignores everything."""
        return self._tp_state.get(tp, _REMOVED)

    def replace(self, partitions: Collection[Any]) -> frozenset[Any]:
        """Replace the partitions, and return those that were removed. New ones are held."""
        now = frozenset(partitions)
        removed = self._topic_partitions - now
        old = self._tp_state
        self._tp_state = {at: old[at] if at in old else self._added() for at in now}
        self._topic_partitions = now
        for at in removed:
            old[at].remove()
        return removed

    def _added(self) -> HeldPartition:
        state = HeldPartition(self)
        state.hold(Hold.REBALANCE)
        return state

    def requesting_committed(self) -> list[Any]:
        """Return the partitions whose committed offsets are read next."""
        if not super().requesting_committed():
            return []
        return [at for at, state in self._tp_state.items() if state._committed_futs or state.wants_committed]


class GroupSubscription(SubscriptionState):  # type: ignore[misc]
    """What the application subscribed to, and the partitions of its member.

    `regex`: of a `SubscriptionPattern`.
    """

    regex: str | None = None

    # The application.

    def subscribe(self, topics: set[str], listener: Any = None) -> None:
        """Subscribe to topics."""
        self.regex = None
        super().subscribe(topics, listener)

    def subscribe_pattern(self, pattern: Any, listener: Any = None) -> None:
        """Subscribe to a regex of Python; the metadata has the topics."""
        super().subscribe_pattern(pattern, listener)
        self.regex = None

    def subscribe_regex(self, regex: str, listener: Any) -> None:
        """Subscribe to a regex that the brokers resolve."""
        self._set_subscription_type(SubscriptionType.AUTO_PATTERN)
        self._subscribed_pattern = None
        self.regex = regex
        self._listener = listener
        self._change_subscription(Subscription((), loop=self._loop))

    def unsubscribe(self) -> None:
        """Drop the subscription and all partitions."""
        super().unsubscribe()
        self.regex = None
        self._notify_assignment_waiters()  # `start` returns

    def _change_subscription(self, subscription: Subscription) -> None:
        """Keep the partitions until the coordinator revokes them, as Java's consumer does."""
        previous = self._subscription
        kept = None if previous is None or isinstance(subscription, ManualSubscription) else previous._assignment
        if kept is None or not kept.active:
            super()._change_subscription(subscription)
            return
        previous._assignment = None  # aiokafka would end it
        subscription._assignment = kept
        subscription._reassignment_in_progress = False
        super()._change_subscription(subscription)
        unsubscribed = {at for at in kept.tps if self.regex is None and at.topic not in subscription.topics}
        for at in kept.tps:
            state = kept.state_value(at)
            (state.hold if at in unsubscribed else state.release)(Hold.UNSUBSCRIBED)

    def _assigned_state(self, tp: Any) -> Any:
        if self._subscription is None or not self.is_assigned(tp):
            raise IllegalStateError(f"No current assignment for partition {tp}")
        return super()._assigned_state(tp)

    def paused_partitions(self) -> set[Any]:
        """Return the partitions that the application paused."""
        if not self.partitions_auto_assigned():
            return set(super().paused_partitions())
        return {at for at in self.assigned_partitions() if self._assigned_state(at).paused_by_user}

    async def wait_for_assignment(self) -> None:
        """Wait for an assignment that still exists when the caller continues.

        aiokafka's fetcher would end for ever if the application has unsubscribed in between.
        """
        while True:
            await super().wait_for_assignment()
            if self._subscription is not None and self._subscription.assignment is not None:
                return

    async def wait_for_first_assignment(self) -> None:
        """Wait for an assignment, or until the application does not subscribe any more."""
        while self.partitions_auto_assigned() and (self._subscription is None or self._subscription.assignment is None):
            await super().wait_for_assignment()

    # The coordinator.

    @property
    def member_assignment(self) -> GroupAssignment | None:
        """The assignment of the member, if it has one."""
        found = None if self._subscription is None else self._subscription.assignment
        return found if isinstance(found, GroupAssignment) else None

    def own(self, partitions: Collection[Any]) -> frozenset[Any]:
        """Replace the partitions of the member, and return those that were removed."""
        if self._subscription is None or not self.partitions_auto_assigned():
            return frozenset()
        assignment = self.member_assignment
        if assignment is None:
            assignment = self._subscription._assignment = GroupAssignment()
            self._subscription._reassignment_in_progress = False
        removed = assignment.replace(partitions)
        self._notify_assignment_waiters()
        return removed

    def hold(self, partitions: Iterable[Any]) -> None:
        """Stop fetching and returning records of partitions, for a rebalance."""
        assignment = self.member_assignment
        if assignment is None:
            return
        for at in assignment.tps.intersection(partitions):
            assignment.state_value(at).hold(Hold.REBALANCE)

    def release(self, partitions: Iterable[Any]) -> None:
        """Fetch partitions, after a rebalance."""
        assignment = self.member_assignment
        if assignment is None:
            return
        for at in assignment.tps.intersection(partitions):
            assignment.state_value(at).release(Hold.REBALANCE)

    # How long the application has not polled.

    @contextmanager
    def fetch_context(self) -> Iterator[None]:
        """Count calls that wait for records; aiokafka's own counter misses cancelled ones."""
        self._fetch_count += 1
        try:
            yield
        finally:
            self._fetch_count -= 1
            if self._fetch_count == 0:
                self._last_fetch_ended = time.monotonic()

    @property
    def polling(self) -> bool:
        """Whether the application waits for records."""
        return bool(self._fetch_count)

    @property
    def polled_ms(self) -> int:
        """When the application last polled."""
        return int(self._last_fetch_ended * 1000)
