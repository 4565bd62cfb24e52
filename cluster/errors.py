"""Errors for the owner of a cluster.

Errors for clients are `quorate.coordinator.errors.ApiError`.
"""

from quorate.codecs.errors import QuorateError


class ClusterError(QuorateError, RuntimeError):
    """A cluster cannot be started or changed, or an operation timed out.

    `message`: the error, with the broker concerned. `remedy`: what to do, if known.
    """

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__("; ".join((message, *remedy)))
        self.message = message
        self.remedy = remedy
