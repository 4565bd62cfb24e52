"""The handlers of requests: a module per API, named by it, opening with the versions and KIPs it handles.

`quorate.cluster.handlers` has the table of them.

A handler is a function of the broker, the request and its context; it returns the response, or a
`Pending` if that comes later, or `None` if there is none. One that may have much to do is a
generator (`quorate.cluster.turns`): it yields between the parts of its work, and returns the same.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from quorate.cluster.broker import Broker
from quorate.cluster.context import Context
from quorate.cluster.controller.controller import NotWrittenError
from quorate.cluster.error_responses import failed_response
from quorate.cluster.turns import Work
from quorate.codecs.message import Message
from quorate.coordinator.results import Pending

__all__ = ["Context", "Handler", "changes_metadata"]


M = TypeVar("M", bound=Message)
T = TypeVar("T")
Handler = Callable[[Broker, Any, Context], "Message | Pending[Any] | Work[Any] | None"]
"""Handles the requests of one API."""


def changes_metadata(
    function: Callable[[Broker, M, Context], Work[T]],
) -> Callable[[Broker, M, Context], Work[T]]:
    """Have a handler run as one change of the cluster's metadata.

    If that cannot be written, the response is an error.
    """

    def written(broker: Broker, request: M, context: Context) -> Work[Any]:
        try:
            return (yield from function(broker, request, context))
        except NotWrittenError as refused:
            return failed_response(broker.cluster, request, context.api_version, refused.code)

    @wraps(function)
    def run(broker: Broker, request: M, context: Context) -> Work[T]:
        return broker.cluster.controller.changes.run(written(broker, request, context))

    return run
