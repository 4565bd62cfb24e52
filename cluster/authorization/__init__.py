"""Which permissions each API needs, as Kafka's brokers ask for them: `RULES` is the one table, and a rule stands around the API's own handler.

A rule refuses a request, takes parts out of it and tells in the response why, or leaves out of the response what the client may not see. Most handlers know nothing of it;
where Kafka asks in the middle of its work, a handler asks `Context.access`. Without an authorizer none of this runs. What ACLs allow is known to `quorate.cluster.authorizer`.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from quorate.cluster.access import Access
from quorate.cluster.authorization import cluster as _cluster  # noqa: F401  # fills `RULES`
from quorate.cluster.authorization import groups as _groups  # noqa: F401
from quorate.cluster.authorization import topics as _topics  # noqa: F401
from quorate.cluster.authorization.call import Answered, Call
from quorate.cluster.authorization.rules import RULES
from quorate.cluster.authorizer import Authorizer
from quorate.cluster.context import Context
from quorate.cluster.turns import Work
from quorate.codecs.message import Message

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker

__all__ = ["RULES", "Access", "authorized"]


def authorized(broker: "Broker", authorizer: Authorizer, request: Message, context: Context) -> Answered:
    """Handle a request as far as its client may ask for it."""
    access = Access(authorizer, context.connection.user, context.client_host)
    context.access, context.principal = access, access.principal
    answered = RULES[type(request)](Call(broker, request, context, access))
    return _flat(answered) if isinstance(answered, Generator) else answered


def _flat(answered: Any) -> Work[Any]:
    """Work whose result may be work, too: of a rule, then of the handler."""
    while isinstance(answered, Generator):
        answered = yield from answered
    return answered
