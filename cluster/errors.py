"""What the owner of an embedded cluster did wrong. Errors for clients are `quorate.coordinator.errors.ApiError`."""

from quorate.codecs.errors import QuorateError

__all__ = ["ClusterStateError"]


class ClusterStateError(QuorateError, RuntimeError):
    """What the cluster's owner asked for cannot be, such as stopping a broker that is not there."""
