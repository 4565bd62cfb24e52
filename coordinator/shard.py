"""`CoordinatorShard`: the coordinator of one partition of `__consumer_offsets`. Requests give records and a response; replaying records changes its state.

What each API does is in the rooms beside this module, a handler per request type, entered into `HANDLERS` by `handles`. A handler reads the shard, and
returns a `Result`; it changes nothing that is in the log, except where Kafka's does, too (classic groups while they rebalance), and then says so
(`Result.replay`).
"""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.message import Message
from quorate.coordinator.config import CoordinatorConfig, GroupConfig
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.state import CoordinatorState
from quorate.coordinator.timers import Timers

__all__ = ["HANDLERS", "CoordinatorShard", "handles"]

Handler = Callable[["CoordinatorShard", Any, RequestContext], Result[Any]]
H = TypeVar("H", bound=Handler)

HANDLERS: dict[type[Message], Handler] = {}
"""Request type → what answers it."""


def handles(request: type[Message]) -> Callable[[H], H]:
    """Enter a function into `HANDLERS`."""

    def enter(handler: H) -> H:
        if request in HANDLERS:
            raise TypeError(f"{request.__name__} has two handlers")
        HANDLERS[request] = handler
        return handler

    return enter


class CoordinatorShard:
    """The coordinator of one partition. `new_id`: makes up member ids (KIP-848's server-generated ones, and the part behind the client id of classic ones).

    `group_configs`: dynamic settings by group; `topic_hashes`: hashes of topics as of the current image, computed when asked for (KIP-1101).
    """

    def __init__(
        self,
        config: CoordinatorConfig | None = None,
        *,
        image: MetadataImage = MetadataImage.EMPTY,
        new_id: Callable[[], UUID],
    ) -> None:
        self.config = config or CoordinatorConfig()
        self.image = image
        self.new_id = new_id
        self.state = CoordinatorState()
        self.timers = Timers()
        self.group_configs: dict[str, GroupConfig] = {}
        self.topic_hashes: dict[str, int] = {}

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

    def take_image(self, image: MetadataImage) -> MetadataDelta:
        """The cluster's metadata has changed; returns how. Hashes of topics that changed are forgotten."""
        delta = MetadataDelta.between(self.image, image)
        self.image = image
        for name in (*delta.changed, *(topic.name for topic in delta.deleted)):
            self.topic_hashes.pop(name, None)
        return delta
