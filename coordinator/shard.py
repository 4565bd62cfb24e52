"""`CoordinatorShard`: what handlers know of the group coordinator of one partition of `__consumer_offsets`.

Each API has a module beside this one: a function that gets the shard, the request and its context, and returns a `Result`. It changes nothing that is in the
log, except where Kafka's does, too (classic groups while they rebalance), and then says so (`Result.replay`). `GroupCoordinatorShard` says which function
handles what.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from quorate.codecs import CoordinatorRecord
from quorate.codecs.message import Message
from quorate.coordinator.config import CoordinatorConfig, GroupConfig
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.results import RequestContext, Result, Task
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, ConsumerMember, CoordinatorState
from quorate.coordinator.timers import Timers

__all__ = ["CoordinatorShard", "Failure", "Handler", "MayDescribe", "OnConsumerGroup"]

Handler = Callable[[Any, Any, RequestContext], Result[Any]]
"""Handles a request: shard, request, context."""

Failure = Callable[[Any, RequestContext, ErrorCode, str], Message]
"""The response to a request that failed as a whole: request, context, error code, message."""

OnConsumerGroup = Callable[[Any, ConsumerGroup, Any, RequestContext], Result[Any]]
"""Handles a request of the classic protocol about a consumer group: shard, group, request, context."""

MayDescribe = Callable[[RequestContext, frozenset[str]], Collection[str]]
"""The names of topics that the client of a request may describe (Kafka's DESCRIBE permission)."""


class CoordinatorShard(ABC):
    """State, timers and configuration of one partition's coordinator. `behaviour`: that of the configured release of Kafka.

    `may_describe`: of the topics that regexes match, those that the client may describe (all by default); the rest stay unmatched.
    `new_id`: generates member ids (KIP-848's server-generated ones, and the part after the client id of classic ones).
    `group_configs`: dynamic configs by group; `tasks`: work that is left for later (asynchronous in Kafka); `topic_hashes`: hashes of topics,
    computed on demand (KIP-1101), and forgotten when the topic changes or nobody subscribes to it any more; `new_topics_version`: the version of the
    latest image that brought new topics, from which on regexes have to be matched again; -1 before the first image.
    """

    on_consumer_groups: ClassVar[Mapping[type[Message], OnConsumerGroup]]
    """Requests of the classic protocol that members of consumer groups may send, and their handlers."""

    def __init__(
        self,
        config: CoordinatorConfig | None = None,
        *,
        image: MetadataImage = MetadataImage.EMPTY,
        new_id: Callable[[], UUID],
        may_describe: MayDescribe | None = None,
    ) -> None:
        self.config = config or CoordinatorConfig()
        self.image = image
        self.new_id = new_id
        self.may_describe = may_describe
        self.behaviour = self.config.behaviour
        self.state = CoordinatorState(self.behaviour)
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self.group_configs: dict[str, GroupConfig] = {}
        self.topic_hashes: dict[str, int] = {}
        self.state.topics.on_last = self.forget_topic_hashes
        self.new_topics_version = -1

    def forget_topic_hashes(self, topics: Collection[str]) -> None:
        """The topics have changed, or no group subscribes to them any more."""
        for topic in self.topic_hashes.keys() & topics:
            del self.topic_hashes[topic]

    @abstractmethod
    def upgrade(self, group: ClassicGroup, records: list[CoordinatorRecord], now_ms: int) -> ConsumerGroup:
        """A consumer group made of a classic one with members; appends the records of that.

        Raises `ApiError` GROUP_ID_NOT_FOUND where the group cannot become one.
        """

    @abstractmethod
    def downgrade(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember], now_ms: int) -> Result[None] | None:
        """What makes a consumer group a classic one when these members leave it; `None` if it stays a consumer group."""
