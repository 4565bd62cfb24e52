"""When a member sends a heartbeat, and which fields it has.

A heartbeat to join has all fields; later ones have those that changed since the last one
(KIP-848). After an error all changed fields are sent again. Times are milliseconds of any clock
that does not run backwards.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from quorate.codecs.client_assignors import AnnouncedAssignors, ClientAssignor
from quorate.codecs.parameters import check_parameters
from quorate.codecs.tags import written_tags
from quorate.consumers.parameters import IDENTITY, IDENTITY_VALUES, SUBSCRIPTION, check_values
from quorate.consumers.reconciliation import LocalAssignment


class ClientTimer:
    """Kafka's `Timer`: its time is that of the last update, so it can expire only by an update."""

    def __init__(self, now_ms: int, timeout_ms: int) -> None:
        self._now_ms = now_ms
        self._deadline_ms = now_ms + timeout_ms

    def update(self, now_ms: int) -> None:
        """Advance to `now_ms`, never back."""
        self._now_ms = max(self._now_ms, now_ms)

    def reset(self, timeout_ms: int) -> None:
        """Start again, from the time of the last update."""
        self._deadline_ms = self._now_ms + timeout_ms

    @property
    def expired(self) -> bool:
        """Whether the deadline was reached at the last update."""
        return self._now_ms >= self._deadline_ms

    @property
    def remaining_ms(self) -> int:
        """Time left at the last update, at least 0."""
        return max(0, self._deadline_ms - self._now_ms)


class HeartbeatSchedule:
    """The interval that the coordinator sets, the backoff after errors, the request in flight.

    `random` returns numbers from 0 to 1, for the jitter of the backoff.
    """

    def __init__(
        self,
        now_ms: int,
        *,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        jitter: float,
        random: Callable[[], float],
    ) -> None:
        self.retry_backoff_ms = retry_backoff_ms
        self._retry_backoff_max_ms = retry_backoff_max_ms
        self._jitter = jitter
        self._random = random
        self.interval_ms = 0
        self._timer = ClientTimer(now_ms, 0)
        self.in_flight = False
        self._attempts = 0
        self._backoff_ms = 0
        self._received_ms = -1

    def reset(self) -> None:
        """Forget the request in flight and the backoff; the timer of the interval continues."""
        self.in_flight = False
        self._attempts = 0
        self._backoff_ms = self._backoff(0)
        self._received_ms = -1

    def can_send(self, now_ms: int) -> bool:
        """Return whether the interval and the backoff are over, and no request is in flight."""
        self._timer.update(now_ms)
        return self._timer.expired and not self.in_flight and self.remaining_backoff_ms(now_ms) == 0

    def sent(self) -> None:
        """Start the interval; `can_send` was called with the same time."""
        self.in_flight = True
        self._timer.reset(self.interval_ms)

    def succeeded(self, now_ms: int, interval_ms: int) -> None:
        """Adopt the interval of a response; an unchanged one continues from the request."""
        if interval_ms != self.interval_ms:
            self.interval_ms = interval_ms
            self._timer.update(now_ms)
            self._timer.reset(interval_ms)
        self.in_flight = False
        self._received_ms = now_ms
        self._backoff_ms = self._backoff(0)
        self._attempts = 0

    def failed(self, now_ms: int) -> None:
        """Replace the interval by a backoff."""
        self._timer.reset(0)
        self.in_flight = False
        self._received_ms = now_ms
        self._backoff_ms = self._backoff(self._attempts)
        self._attempts += 1

    def remaining_backoff_ms(self, now_ms: int) -> int:
        """Time left of the backoff."""
        return max(0, self._backoff_ms - (now_ms - self._received_ms))

    def time_to_next_ms(self, now_ms: int) -> int:
        """Time until the interval or the backoff is over."""
        return self.remaining_backoff_ms(now_ms) if self._timer.expired else self._timer.remaining_ms

    def _backoff(self, attempts: int) -> int:
        if self._retry_backoff_max_ms <= self.retry_backoff_ms:
            return self._retry_backoff_max_ms
        # The jitter also applies to the longest backoff, so that members do not retry in step.
        longest = self._retry_backoff_max_ms / max(1, self.retry_backoff_ms)
        exponent = min(attempts, math.log(longest) / math.log(2))  # Java's rounding, which differs from that of log2
        factor = 1 - self._jitter + 2 * self._jitter * self._random()
        return min(int(factor * self.retry_backoff_ms * 2**exponent), self._retry_backoff_max_ms)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a member is for its whole life.

    `max_poll_interval_ms`: if it differs from the rebalance timeout. In Java they are one config.
    Raises `TypeError` for fields of a wrong type, and `ValueError` for values that Java's consumer
    or brokers reject: an empty text, `rebalance_timeout_ms=0`, or an `instance_id` with spaces.
    """

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = 300_000
    server_assignor: str | None = None
    max_poll_interval_ms: int | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in IDENTITY}
        check_parameters(given, IDENTITY, TypeError)
        check_values(given, IDENTITY_VALUES)


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """Topics by name, or a regex that the coordinator resolves (RE2).

    `has_listener`: without one, partitions are revoked and lost without an action to complete.
    Raises `TypeError` for fields of a wrong type.
    """

    topics: Sequence[str] = ()
    regex: str | None = None
    has_listener: bool = False

    def __post_init__(self) -> None:
        check_parameters({"topics": self.topics, "regex": self.regex}, SUBSCRIPTION, TypeError)


@dataclass(frozen=True, slots=True, eq=False)
class Heartbeat:
    """A request to send to the coordinator.

    `ignore_response`: the member continues without the response, which only belongs in a log.
    `incarnation`: how often the member had joined or left when it was sent.
    """

    request: ConsumerGroupHeartbeatRequest
    ignore_response: bool
    incarnation: int


@dataclass(slots=True)
class HeartbeatFields:
    """The fields of the last heartbeat, and the request that differs from it."""

    identity: Identity
    client_assignors: tuple[ClientAssignor, ...] | None = None
    _rebalance_timeout_ms: int = field(default=-1, init=False)
    _topics: frozenset[str] | None = field(default=None, init=False)
    _regex: str | None = field(default=None, init=False)
    _server_assignor: str | None = field(default=None, init=False)
    _assignment: LocalAssignment | None = field(default=None, init=False)
    _client_assignors: tuple[ClientAssignor, ...] | None = field(default=None, init=False)

    def reset(self) -> None:
        """Forget what was sent: the coordinator may not have received it."""
        self._rebalance_timeout_ms = -1
        self._topics = None
        self._regex = None
        self._server_assignor = None
        self._assignment = None
        self._client_assignors = None

    def request(
        self, epoch: int, subscription: TopicSubscription, assignment: LocalAssignment, *, full: bool
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next request, and remember its fields as sent.

        `full`: all fields, as when joining. A rack is only sent then.
        """
        identity = self.identity
        timeout_ms = topics = regex = server_assignor = owned = announced = None
        if full or self._rebalance_timeout_ms != identity.rebalance_timeout_ms:
            self._rebalance_timeout_ms = timeout_ms = identity.rebalance_timeout_ms
        if full or self._topics != frozenset(subscription.topics):
            self._topics = frozenset(subscription.topics)
            topics = tuple(subscription.topics)
        if (full and subscription.regex is not None) or self._regex != subscription.regex:
            self._regex = subscription.regex
            regex = subscription.regex or ""  # an empty regex removes the one before
        if identity.server_assignor is not None and (full or self._server_assignor != identity.server_assignor):
            self._server_assignor = server_assignor = identity.server_assignor
        if full or self._assignment != assignment:
            self._assignment = assignment
            owned = _owned(assignment.partitions)
        if self.client_assignors is not None and (full or self._client_assignors != self.client_assignors):
            self._client_assignors = announced = self.client_assignors
        return ConsumerGroupHeartbeatRequest(
            group_id=identity.group_id,
            member_id=identity.member_id,
            member_epoch=epoch,
            instance_id=identity.instance_id,
            rack_id=identity.rack_id if full else None,
            rebalance_timeout_ms=-1 if timeout_ms is None else timeout_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=server_assignor,
            topic_partitions=owned,
            unknown_tags=() if announced is None else written_tags(AnnouncedAssignors(client_assignors=announced)),
        )


def _owned(partitions: "dict[Uuid, tuple[int, ...]]") -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in partitions.items())
