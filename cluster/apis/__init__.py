"""Request handlers. Each module is named after its APIs and starts with their versions and KIPs.

`quorate.cluster.handlers` maps each API to its handler.

A handler is a function of the broker, the request and its context. It returns the response, a
`Pending` that is completed later, or `None` if the client expects no response. A handler of large
requests is a generator (`quorate.cluster.turns`). It yields between parts of its work, so that
other requests are served meanwhile.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from quorate.cluster.broker import Broker
from quorate.cluster.context import Context
from quorate.cluster.controller.controller import MetadataWriteError
from quorate.cluster.error_responses import failed_response
from quorate.cluster.turns import Work
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

__all__ = ["Context", "Handler", "changes_metadata", "endpoints"]


M = TypeVar("M", bound=Message)
T = TypeVar("T")
Handler = Callable[[Broker, Any, Context], "Message | Pending[Any] | Work[Any] | None"]
"""A function that handles the requests of one API."""


def changes_metadata(
    function: Callable[[Broker, M, Context], Work[T]],
) -> Callable[[Broker, M, Context], Work[T]]:
    """Decorate a handler so that it runs as one change of the cluster's metadata.

    If the metadata log cannot be written, the response is an error.
    """

    def guarded(broker: Broker, request: M, context: Context) -> Work[Any]:
        try:
            return (yield from function(broker, request, context))
        except MetadataWriteError as refused:
            return failed_response(broker.cluster, request, context.api_version, refused.code)

    @wraps(function)
    def run(broker: Broker, request: M, context: Context) -> Work[T]:
        return broker.cluster.controller.changes.run(guarded(broker, request, context))

    return run


def endpoints(broker: Broker, leaders: Iterable[int], kind: Callable[..., M]) -> tuple[M, ...]:
    """Return the addresses of those leaders that are alive. `kind`: the API's struct."""
    found = map(broker.cluster.state.brokers.get, leaders)
    return tuple(
        kind(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
        for one in found
        if one is not None and one.alive
    )
