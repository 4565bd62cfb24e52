"""`CoordinatorShard`: the coordinator of one partition of `__consumer_offsets`. Requests give records and a response; replaying records changes its state.

What each API does is in the rooms beside this module, a handler per request type, entered into `HANDLERS` by `handles`. A handler reads the shard, and
returns a `Result`; it changes nothing that is in the log, except where Kafka's does, too (classic groups while they rebalance), and then says so
(`Result.replay`).
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar
from uuid import UUID

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.codecs.api import api_of
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.message import Message
from quorate.coordinator.config import CoordinatorConfig, GroupConfig
from quorate.coordinator.errors import ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import RequestContext, Result, Task
from quorate.coordinator.state import CoordinatorState, Group
from quorate.coordinator.timers import Timers

__all__ = [
    "CLEAN_UP",
    "ERRORS",
    "GROUP_LOADED",
    "HANDLERS",
    "ON_IMAGE",
    "ON_LOADED",
    "ON_UNLOADED",
    "CoordinatorShard",
    "MayDescribe",
    "fails",
    "handles",
    "when_loaded",
]

Handler = Callable[["CoordinatorShard", Any, RequestContext], Result[Any]]
H = TypeVar("H", bound=Handler)

HANDLERS: dict[type[Message], Handler] = {}
"""Request type → what answers it."""

Failure = Callable[[Any, RequestContext, ErrorCode, str], Message]
F = TypeVar("F", bound=Failure)

ERRORS: dict[type[Message], Failure] = {}
"""Request type → what its answer is if it fails as a whole; without an entry, a response with `error_code`, and with what is wrong where there is a field for it."""

MayDescribe = Callable[[RequestContext, frozenset[str]], Collection[str]]
"""Who asks, and names of topics → those of them that may be described (Kafka's DESCRIBE permission)."""

ON_LOADED: list[Callable[["CoordinatorShard", int], Result[None]]] = []
"""What is done when the log has been replayed, such as setting the timer of expiry; each gets the time in ms."""

Loaded = Callable[["CoordinatorShard", Any, int], object]
L = TypeVar("L", bound=Loaded)

GROUP_LOADED: dict[type[Group], Loaded] = {}
"""Kind of group → what is done with each when the log has been replayed, such as starting sessions anew. In the order of groups, so that timers of all kinds of
groups that are due at once fire as in Kafka."""

ON_UNLOADED: list[Callable[["CoordinatorShard"], object]] = []
"""What is done when another broker coordinates the partition from now on: whoever waits for an answer is sent there."""

ON_IMAGE: list[Callable[["CoordinatorShard", MetadataDelta, int], Result[None]]] = []
"""What is done when the cluster's metadata has changed; each gets what changed and the time in ms."""

CLEAN_UP: list[Callable[["CoordinatorShard", int], Result[None]]] = []
"""What is done from time to time: expiry. Their records are one batch."""


def handles(request: type[Message]) -> Callable[[H], H]:
    """Enter a function into `HANDLERS`."""

    def enter(handler: H) -> H:
        if request in HANDLERS:
            raise TypeError(f"{request.__name__} has two handlers")
        HANDLERS[request] = handler
        return handler

    return enter


def fails(request: type[Message]) -> Callable[[F], F]:
    """Enter a function into `ERRORS`."""

    def enter(failure: F) -> F:
        ERRORS[request] = failure
        return failure

    return enter


def when_loaded(kind: type[Group]) -> Callable[[L], L]:
    """Enter a function into `GROUP_LOADED`: it gets the shard, the group and the time in ms."""

    def enter(listener: L) -> L:
        GROUP_LOADED[kind] = listener
        return listener

    return enter


class CoordinatorShard:
    """The coordinator of one partition. `behaviour`: that of the configured release of Kafka.

    `may_describe`: says which of the topics that expressions match may be described by who asks (all by default); the rest stay unmatched.
    `new_id`: makes up member ids (KIP-848's server-generated ones, and the part behind the client id of classic ones).
    `group_configs`: dynamic settings by group; `tasks`: work that is left for later (asynchronous in Kafka); `topic_hashes`: hashes of topics,
    computed when asked for (KIP-1101), and forgotten when the topic changes or nobody subscribes to it any more; `new_topics_version`: the version of the
    latest image that brought new topics, from which on regular expressions have to be matched again; -1 before the first image.
    """

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

    def handle(self, request: Message, context: RequestContext) -> Result[Any]:
        """Answer a request. Raises `ApiError` where the whole answer is an error, and `KeyError` for a request that nothing handles."""
        return HANDLERS[type(request)](self, request, context)

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord | ControlRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Take a record of the log in: see `CoordinatorState.replay`."""
        self.state.replay(record, offset=offset, producer_id=producer_id, strict=strict)

    def failed(self, request: Message, context: RequestContext, code: ErrorCode, message: str) -> Message:
        """The answer to a request that failed as a whole."""
        failure = ERRORS.get(type(request))
        if failure is not None:
            return failure(request, context, code, message)
        response: Any = api_of(type(request)).response.cls
        told = {"error_message": message} if message and hasattr(response, "error_message") else {}
        return response(error_code=code, **told)  # type: ignore[no-any-return]

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a producer's transaction is in the log."""
        self.state.offsets.end_transaction(producer_id, commit=commit)

    def loaded(self, now_ms: int) -> Result[None]:
        """The log has been replayed: see `GROUP_LOADED` and `ON_LOADED`."""
        for _, group in self.state.groups.ordered():
            listener = GROUP_LOADED.get(type(group))
            if listener is not None:
                listener(self, group, now_ms)
        return _together(listener(self, now_ms) for listener in ON_LOADED)

    def unloaded(self) -> None:
        """Another broker coordinates the partition from now on: see `ON_UNLOADED`. The shard is not to be asked any more."""
        for listener in ON_UNLOADED:
            listener(self)

    def clean_up(self, now_ms: int) -> Result[None]:
        """Expire what has expired: see `CLEAN_UP`."""
        return _together(listener(self, now_ms) for listener in CLEAN_UP)

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """The cluster's metadata has changed: how (`delta`, if that is known), and what is to be written for it. Hashes of topics that changed are forgotten."""
        delta = delta or MetadataDelta.between(self.image, image)
        self.image = image
        self.forget_topic_hashes([*delta.changed, *(topic.name for topic in delta.deleted)])
        return delta, [listener(self, delta, now_ms) for listener in ON_IMAGE]


def _together(results: Iterable[Result[None]]) -> Result[None]:
    """One result of several that only write, in one batch if one of them has to be."""
    writing = [result for result in results if result.records]
    records = [record for result in writing for record in result.records]
    return Result(records=records, atomic=any(result.atomic for result in writing))
