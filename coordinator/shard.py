"""`CoordinatorShard`: a partition's group coordinator, as its handlers use it.

A handler is a function of the shard, the request and its context, and returns a `Result`. It
changes no state that is in the log. The exception are rebalancing classic groups, as in Kafka;
those results set `Result.replay` to False. `GroupCoordinatorShard` maps requests to handlers.
`ConsumerGroupExtension` is the interface of plug-ins for consumer groups.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar
from uuid import UUID

from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.consumer_group_describe import DescribedGroup
from quorate.codecs.message import Message
from quorate.codecs.tags import Tags
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.results import Pending, RequestContext, Result, Task
from quorate.coordinator.share_state.persister import NoPersister, Persister
from quorate.coordinator.state import ConsumerGroup, ConsumerMember, CoordinatorGroup, CoordinatorState
from quorate.coordinator.state.modern import ModernGroup
from quorate.coordinator.timers import Timers

log = logging.getLogger(__name__)

__all__ = [
    "Addition",
    "ConsumerGroupExtension",
    "CoordinatorShard",
    "Failure",
    "Handler",
    "LogOffsets",
    "MayDescribe",
    "OnConsumerGroup",
]

G = TypeVar("G", bound=CoordinatorGroup)
R = TypeVar("R")

Handler = Callable[[Any, Any, RequestContext], Result[Any]]
"""Handles a request: shard, request, context."""

Failure = Callable[[Any, RequestContext, ErrorCode, str], Message]
"""The response to a request that failed as a whole: request, context, error code, message."""

OnConsumerGroup = Callable[[Any, ConsumerGroup, Any, RequestContext], Result[Any]]
"""Handles a classic protocol request for a consumer group: shard, group, request, context."""

MayDescribe = Callable[[RequestContext, frozenset[str]], Collection[str]]
"""Returns the topic names that the client may describe (Kafka's DESCRIBE operation)."""

LogOffsets = Callable[[str, int], tuple[int, int] | None]
"""Returns the log start offset and the high watermark of a partition; `None` if unknown."""


class Addition(NamedTuple):
    """A plug-in's part of a heartbeat response.

    `tags`: tagged fields. `on_appended`: called when the records are written.
    """

    tags: Tags = ()
    on_appended: Callable[[], None] | None = None


_NOTHING = Addition()


class ConsumerGroupExtension:
    """A plug-in for consumer groups (KIP-848). By default, each method adds nothing.

    A plug-in's own fields are tagged fields of Kafka's requests, responses and records
    (`quorate.codecs.tags`). Replay keeps those of records: `metadata.unknown_tags` of a member,
    `target_tags` and `target_epoch_tags` of a group. State that is in no record belongs in
    `ConsumerGroup.attached`.
    """

    handlers: ClassVar[Mapping[type[Message], Handler]] = MappingProxyType({})
    """The plug-in's own requests, and their handlers."""

    def member_tags(self, tags: Tags, request: ConsumerGroupHeartbeatRequest) -> Tags:
        """Return the tagged fields of a member's metadata after a heartbeat. `tags`: those before.

        A change increments the group epoch. Raises `ApiError`.
        """
        return tags

    def computes_target(self, shard: "CoordinatorShard", group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return whether the plug-in, not an assignor, computes the next target assignment.

        Called when a target assignment is due. `member`: with the metadata of this heartbeat.
        """
        return False

    def assignment_tags(self, group: ConsumerGroup, member: ConsumerMember) -> Tags | None:
        """Return the tagged fields of a member's assignment in a response.

        `None` if the plug-in does not use them.
        With tags, a member gets its assignment with each new epoch, even if the partitions are the
        same.
        """
        return None

    def after_heartbeat(
        self,
        shard: "CoordinatorShard",
        group: ConsumerGroup,
        member: ConsumerMember,
        *,
        target_epoch: int | None,
        now_ms: int,
        joining: bool,
    ) -> Addition:
        """Return the plug-in's part of the response.

        `target_epoch`: epoch of the target assignment that the plug-in has to compute, or `None`.
        """
        return _NOTHING

    def described(self, group: ConsumerGroup, described: DescribedGroup) -> DescribedGroup:
        """Return the group as ConsumerGroupDescribe shows it."""
        return described


class CoordinatorShard:
    """State, timers and configs of the coordinator of one partition.

    `behaviour`: of the configured release of Kafka. `new_id`: generates member ids: whole ids for
    KIP-848, the part after the client id for classic members. `may_describe`: returns those matched
    topics that the client may describe; all by default. `log_offsets`: for assignors that use lags;
    unknown by default. `on_fault`: called with a text if an assignor fails; logged by default.
    `extensions`: plug-ins, called in this order. `persister`: reaches share coordinators; by
    default there are none, and share state needs none. `wake`: called when `tasks` has a new task
    while the shard is not running.

    `group_configs`: dynamic configs by group. `tasks`: pending work, asynchronous in Kafka.
    `topic_hashes`: hashes of topics (KIP-1101), computed on demand, dropped when the topic changes
    or loses its last subscriber. `new_topics_version`: version of the latest image with new topics,
    for which regexes must be resolved; -1 before the first image.
    """

    handlers: ClassVar[Mapping[type[Message], Handler]]
    """Kafka's requests and their handlers. `all_handlers` includes those of extensions."""
    on_consumer_groups: ClassVar[Mapping[type[Message], OnConsumerGroup]]
    """Requests of the classic protocol that members of consumer groups may send, and their
    handlers.
    """

    def __init__(
        self,
        config: CoordinatorConfig | None = None,
        *,
        image: MetadataImage = MetadataImage.EMPTY,
        new_id: Callable[[], UUID],
        may_describe: MayDescribe | None = None,
        log_offsets: LogOffsets | None = None,
        on_fault: Callable[[str], object] = log.error,
        extensions: Sequence[ConsumerGroupExtension] = (),
        persister: Persister | None = None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        self.config = config or CoordinatorConfig()
        self.image = image
        self.new_id = new_id
        self.may_describe = may_describe
        self.log_offsets = log_offsets
        self.on_fault = on_fault
        self.persister: Persister = persister or NoPersister()
        self.wake = wake
        self.extensions = (*self.built_in(), *extensions)
        self.all_handlers = dict(self.handlers)
        for extension in self.extensions:
            self.all_handlers.update(extension.handlers)
        self.behaviour = self.config.behaviour
        self.state = CoordinatorState(self.behaviour)
        self.replay, self.written = self.state.replay, self.state.written  # called for each record, each batch
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self.group_configs: dict[str, Mapping[str, Any]] = {}
        self.topic_hashes: dict[str, int] = {}
        self.state.topics.on_last = self.forget_topic_hashes
        self.new_topics_version = -1

    def built_in(self) -> Sequence[ConsumerGroupExtension]:
        """Return extensions that run before the given ones."""
        return ()

    def after(self, pending: Pending[R], name: str, then: Callable[[R, int], Result[Any]]) -> None:
        """Run a task with a response and the time in ms, once the response is complete."""
        running = True  # the runtime runs tasks that are added meanwhile

        def completed(response: R) -> None:
            self.tasks.append(Task(name=name, operation=partial(then, response)))
            if not running:
                self.wake()

        pending.on_complete(completed)
        running = False

    def group(self, kind: type[G], group_id: str, *, noun: str = "Group") -> G:
        """Return a group of a type.

        Raises `ApiError` GROUP_ID_NOT_FOUND if it does not exist or has another type. `noun`: what
        the message calls a group that does not exist.
        """
        found = self.state.groups.get(group_id)
        if not isinstance(found, kind):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, why_not(kind, group_id, found, noun))
        return found

    def config_of(self, group_id: str, name: str) -> Any:
        """Return a config of a group, by default the broker's.

        `name`: a field of `CoordinatorConfig`.
        """
        if self.group_configs and name in (own := self.group_configs.get(group_id, {})):
            return own[name]
        return getattr(self.config, name)

    def may_assign(self, group: ModernGroup[Any, Any], interval: str, now_ms: int) -> bool:
        """Return whether the assignment interval has passed since the last target assignment.

        Always before 4.3.
        `interval`: the config with the interval (KIP-1263).
        """
        known = self.behaviour.assignment_interval
        return not known or group.may_assign(self.config_of(group.group_id, interval), now_ms)

    def forget_topic_hashes(self, topics: Collection[str]) -> None:
        """Drop the hashes of topics that changed or have no subscribers left."""
        for topic in self.topic_hashes.keys() & topics:
            del self.topic_hashes[topic]


def why_not(kind: type[CoordinatorGroup], group_id: str, found: CoordinatorGroup | None, noun: str = "Group") -> str:
    """Return Kafka's message about a group that does not exist, or that has another type."""
    if found is None:
        return f"{noun} {group_id} not found."
    return f"Group {group_id} is not a {kind.kind.lower()} group."
