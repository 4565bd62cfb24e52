"""`Context`: the request context with the client's connection."""

from quorate.cluster.access import AccessContext
from quorate.cluster.authorizer import ANONYMOUS
from quorate.cluster.connection import Connection
from quorate.codecs.lazy_dataclass import dataclass


@dataclass(slots=True, init=False)
class Context(AccessContext):
    """What a handler receives with a request: the coordinators' context, and the connection.

    `large`: the request is large, so that work on it belongs in the thread.
    """

    connection: Connection
    large: bool

    def __init__(
        self,
        api_version: int,
        now_ms: int,
        client_id: str,
        client_host: str,
        connection: Connection,
        large: bool = False,
    ) -> None:
        # Called for each request. The generated method, with keywords, takes twice as long: 1.3 µs.
        self.api_version = api_version
        self.now_ms = now_ms
        self.client_id = client_id
        self.client_host = client_host
        self.principal = ANONYMOUS
        self.prepared = self.internal_topics = self.access = None
        self.connection = connection
        self.large = large
