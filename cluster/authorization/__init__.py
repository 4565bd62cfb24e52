"""Which permissions each API needs, as Kafka's brokers ask for them: a rule stands around the API's own handler (`quorate.cluster.handlers` has both).

A rule refuses a request, takes parts out of it and tells in the response why, or leaves out of the
response what the client may not see. Most handlers know nothing of it; where Kafka asks in the
middle of its work, a handler asks `Context.access`. Without an authorizer none of this runs. What
ACLs allow is known to `quorate.cluster.authorizer`.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from quorate.cluster.access import Access
from quorate.cluster.apis import Handler
from quorate.cluster.authorization.call import Answered, Call
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
) -> Answered:
    """Handle a request as far as a rule allows its client to send it."""
    access = Access(authorizer, context.connection.user, context.client_host)
    context.access, context.principal = access, access.principal
    answered = rule(Call(handler, broker, request, context, access))
    return _flat(answered) if isinstance(answered, Generator) else answered


def _flat(answered: Any) -> Work[Any]:
    """Work whose result may be work, too: of a rule, then of the handler."""
    while isinstance(answered, Generator):
        answered = yield from answered
    return answered
