"""Consumers that speak the consumer protocol (KIP-848).

`ConsumerMembership` is a member without I/O, for any client (`quorate.consumers.membership`).
"""

from quorate.consumers.heartbeats import Heartbeat, Identity, TopicSubscription
from quorate.consumers.membership import ConsumerMembership
from quorate.consumers.states import ConsumerState
from quorate.consumers.transitions import InvalidTransition, LeaveOperation

__all__ = [
    "ConsumerMembership",
    "ConsumerState",
    "Heartbeat",
    "Identity",
    "InvalidTransition",
    "LeaveOperation",
    "TopicSubscription",
]
