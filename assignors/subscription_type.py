"""Whether the subscriptions of a group are equal."""

from enum import Enum


class SubscriptionType(Enum):
    """Whether the subscriptions of a group are equal, as determined by the coordinator.

    `uniform` and `simple` have an algorithm for each.
    """

    HOMOGENEOUS = "HOMOGENEOUS"
    """All members subscribe to the same topics."""

    HETEROGENEOUS = "HETEROGENEOUS"
