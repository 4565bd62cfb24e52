"""What goes wrong with a cluster as such, for its owner.

Errors for clients are `quorate.coordinator.errors.ApiError`.
"""

from quorate.codecs.errors import QuorateError

__all__ = ["ClusterError"]


class ClusterError(QuorateError, RuntimeError):
    """A cluster cannot be started or changed as requested, or does not get there in time.

    `message`: what failed, and of which broker; `remedy`: what to do, if that is known.
    """

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__("; ".join((message, *remedy)))
        self.message = message
        self.remedy = remedy
