"""`CoordinatorShard`: what handlers know of the group coordinator of one partition of `__consumer_offsets`.

Each API has a module beside this one: a function that gets the shard, the request and its context,
and returns a `Result`. It changes nothing that is in the log, except where Kafka's does, too
(classic groups while they rebalance), and then says so (`Result.replay`). `GroupCoordinatorShard`
says which function handles what. `ConsumerGroupExtension` is what a plug-in may add to consumer
groups.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
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
from quorate.coordinator.results import RequestContext, Result, Task
from quorate.coordinator.state import ConsumerGroup, ConsumerMember, CoordinatorGroup, CoordinatorState
from quorate.coordinator.state.modern import ModernGroup
from quorate.coordinator.timers import Timers

__all__ = [
    "Addition",
    "ConsumerGroupExtension",
    "CoordinatorShard",
    "Failure",
    "Handler",
    "MayDescribe",
    "OnConsumerGroup",
]

G = TypeVar("G", bound=CoordinatorGroup)

Handler = Callable[[Any, Any, RequestContext], Result[Any]]
"""Handles a request: shard, request, context."""

Failure = Callable[[Any, RequestContext, ErrorCode, str], Message]
"""The response to a request that failed as a whole: request, context, error code, message."""

OnConsumerGroup = Callable[[Any, ConsumerGroup, Any, RequestContext], Result[Any]]
"""Handles a request of the classic protocol about a consumer group: shard, group, request, context."""

MayDescribe = Callable[[RequestContext, frozenset[str]], Collection[str]]
"""The names of topics that the client of a request may describe (Kafka's DESCRIBE permission)."""


class Addition(NamedTuple):
    """What a plug-in adds to the response to a heartbeat: tagged fields, and what is done once the records are written."""

    tags: Tags = ()
    on_appended: Callable[[], None] | None = None


_NOTHING = Addition()


class ConsumerGroupExtension:
    """What a plug-in adds to consumer groups of KIP-848. By default, each method adds nothing.

    A plug-in's own fields are tagged fields of Kafka's requests, responses and records
    (`quorate.codecs.tags`). Replay keeps those of records: `metadata.unknown_tags` of a member,
    `target_tags` and `target_epoch_tags` of a group. What stands in no record, a plug-in keeps in
    `ConsumerGroup.attached`.
    """

    handlers: ClassVar[Mapping[type[Message], Handler]] = MappingProxyType({})
    """Requests of the plug-in's own, and their handlers."""

    def member_tags(self, tags: Tags, request: ConsumerGroupHeartbeatRequest) -> Tags:
        """The tagged fields of a member's metadata after a heartbeat, where they were `tags` before.

        A change increments the group epoch. Raises `ApiError`.
        """
        return tags

    def computes_target(self, shard: "CoordinatorShard", group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether the plug-in computes the next target assignment in place of a server-side assignor.

        Called when one is due; `member` is the member as announced.
        """
        return False

    def assignment_tags(self, group: ConsumerGroup, member: ConsumerMember) -> Tags | None:
        """The tagged fields of the assignment in the response to a member; `None` if the plug-in has no part in it.

        Otherwise a member that reaches another epoch is given its assignment even if the partitions
        are the same.
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
        """What the plug-in adds to the response.

        `target_epoch`: of the target that it has to compute (`computes_target`), or `None`.
        """
        return _NOTHING

    def described(self, group: ConsumerGroup, described: DescribedGroup) -> DescribedGroup:
        """The group as ConsumerGroupDescribe shows it."""
        return described


class CoordinatorShard:
    """State, timers and configuration of one partition's coordinator.

    `behaviour`: that of the configured release of Kafka.

    `may_describe`: of the topics that regexes match, those that the client may describe (all by
    default); the rest stay unmatched. `extensions`: plug-ins of consumer groups, asked in this
    order; none by default. `new_id`: generates member ids (KIP-848's server-generated ones, and the
    part after the client id of classic ones). `group_configs`: dynamic configs by group; `tasks`:
    work that is left for later (asynchronous in Kafka); `topic_hashes`: hashes of topics, computed
    on demand (KIP-1101), and forgotten when the topic changes or nobody subscribes to it any more;
    `new_topics_version`: the version of the latest image that brought new topics, from which on
    regexes have to be matched again; -1 before the first image.
    """

    handlers: ClassVar[Mapping[type[Message], Handler]]
    """Kafka's requests, and what handles them; `all_handlers` has those of extensions, too."""
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
        extensions: Sequence[ConsumerGroupExtension] = (),
    ) -> None:
        self.config = config or CoordinatorConfig()
        self.image = image
        self.new_id = new_id
        self.may_describe = may_describe
        self.extensions = (*self.built_in(), *extensions)
        self.all_handlers = dict(self.handlers)
        for extension in self.extensions:
            self.all_handlers.update(extension.handlers)
        self.behaviour = self.config.behaviour
        self.state = CoordinatorState(self.behaviour)
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self.group_configs: dict[str, Mapping[str, int]] = {}
        self.topic_hashes: dict[str, int] = {}
        self.state.topics.on_last = self.forget_topic_hashes
        self.new_topics_version = -1

    def built_in(self) -> Sequence[ConsumerGroupExtension]:
        """Extensions that come before those that are given."""
        return ()

    def group(self, kind: type[G], group_id: str) -> G:
        """The group of this kind.

        Raises `ApiError` GROUP_ID_NOT_FOUND if there is none, or it is of another kind.
        """
        found = self.state.groups.get(group_id)
        if not isinstance(found, kind):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no {kind.kind.lower()} group {group_id}")
        return found

    def config_of(self, group_id: str, name: str) -> int:
        """A config of a group: its own, by default the broker's.

        `name`: the field of `CoordinatorConfig`.
        """
        if self.group_configs and name in (own := self.group_configs.get(group_id, {})):
            return own[name]
        return getattr(self.config, name)  # type: ignore[no-any-return]  # whole numbers all

    def may_assign(self, group: ModernGroup[Any, Any], interval: str, now_ms: int) -> bool:
        """Whether a group's last target is old enough for another one; before 4.3 it always was.

        `interval`: the config that says how old (KIP-1263).
        """
        known = self.behaviour.assignment_interval
        return not known or group.may_assign(self.config_of(group.group_id, interval), now_ms)

    def forget_topic_hashes(self, topics: Collection[str]) -> None:
        """The topics have changed, or no group subscribes to them any more."""
        for topic in self.topic_hashes.keys() & topics:
            del self.topic_hashes[topic]
