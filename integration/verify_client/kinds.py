"""`ClientKind`: what a client is, by the requests that it sends."""

from collections.abc import Iterable
from enum import StrEnum

from quorate.integration.verify_client.exchanges import Exchange


class ClientKind(StrEnum):
    """A client can be several of these: a member of a group is a consumer, too."""

    READER = "consumer"
    CONSUMER = "consumer protocol"
    CLASSIC = "classic protocol"
    PRODUCER = "producer"
    TRANSACTIONAL = "transactional producer"


_BY_API = {
    "Fetch": ClientKind.READER,
    "ConsumerGroupHeartbeat": ClientKind.CONSUMER,
    "JoinGroup": ClientKind.CLASSIC,
    "Produce": ClientKind.PRODUCER,
    "EndTxn": ClientKind.TRANSACTIONAL,
}


def kinds_in(exchanges: Iterable[Exchange]) -> frozenset[ClientKind]:
    """Return the kinds that some exchanges show."""
    return frozenset(_BY_API[one.api] for one in exchanges if one.api in _BY_API)
