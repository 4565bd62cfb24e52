"""Permissions that each API requires, as in Kafka's brokers.

A rule wraps the handler of an API (`quorate.cluster.handlers` has both). It rejects a request,
rejects parts of it with errors in the response, or removes from the response what the client may
not see. Where Kafka checks a permission in the middle of its work, the handler uses
`Context.access`. Without an authorizer no rule runs. `quorate.cluster.authorizer` evaluates ACLs.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from quorate.cluster.access import Access
from quorate.cluster.apis import Handler
from quorate.cluster.authorization.call import Call, HandlerResult
from quorate.cluster.authorization.rules import Rule
from quorate.cluster.authorizer import Authorizer
from quorate.cluster.context import Context
from quorate.cluster.turns import Work
from quorate.codecs.message import Message

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__ = ["Access", "authorized"]


def authorized(
    handler: Handler, rule: Rule, broker: "Broker", authorizer: Authorizer, request: Message, context: Context
) -> HandlerResult:
    """Handle a request under the rule of its API."""
    access = Access(authorizer, context.connection.user, context.client_host)
    context.access, context.principal = access, access.principal
    result = rule(Call(handler, broker, request, context, access))
    return _flat(result) if isinstance(result, Generator) else result


def _flat(result: Any) -> Work[Any]:
    """Run a generator whose result can be another one: that of a rule, then that of the handler."""
    while isinstance(result, Generator):
        result = yield from result
    return result
