"""What goes wrong with a cluster as such: no engine, no image, a broker that does not come up."""

from quorate.codecs.errors import QuorateError

__all__ = ["ClusterError"]


class ClusterError(QuorateError, RuntimeError):
    """A cluster cannot be started, or does not do what it was told in time. `message` says what, and of which broker; `remedy` what to do, if that is known."""

    def __init__(self, message: str, *remedy: str) -> None:
        super().__init__("; ".join((message, *remedy)))
        self.message = message
        self.remedy = remedy
