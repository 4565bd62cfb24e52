"""`FetchError`: an error for each partition of a Fetch, as a broker that does not lead them."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from quorate.cluster.connection import Connection
from quorate.cluster.faults import Handler
from quorate.cluster.fetch_sessions import Key
from quorate.cluster.frames import Header
from quorate.codecs import Uuid
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchableTopicResponse, PartitionData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message


@dataclass(frozen=True, slots=True)
class FetchError:
    """Respond to a Fetch at once, with an error for each of its partitions.

    These are also the partitions that only the session has (KIP-227).
    """

    code: ErrorCode

    def happen(self, handler: Handler, connection: Connection, header: Header, request: Message) -> None:
        """Handle the request, so that the session continues, and replace what was found."""
        assert isinstance(request, FetchRequest)
        wanted: list[Key] = [
            (topic.topic_id if header.version >= 13 else topic.topic, part.partition)
            for topic in request.topics
            for part in topic.partitions
        ]

        def failed(response: Any) -> Any:
            session = handler.broker.fetch_sessions.partitions(response.session_id)
            return replace(response, responses=_failed(list(session) or wanted, self.code))

        handler.handle(connection, header, replace(request, max_wait_ms=0), change=failed)


def _failed(partitions: list[Key], code: ErrorCode) -> tuple[FetchableTopicResponse, ...]:
    by_topic: dict[Hashable, list[PartitionData]] = {}
    for topic, partition in partitions:
        data = PartitionData(partition_index=partition, error_code=code, high_watermark=-1, records=b"")
        by_topic.setdefault(topic, []).append(data)
    return tuple(
        FetchableTopicResponse(topic_id=topic, partitions=tuple(those))
        if isinstance(topic, Uuid)
        else FetchableTopicResponse(topic=str(topic), partitions=tuple(those))
        for topic, those in by_topic.items()
    )
