"""The exception of assignors."""

from quorate.codecs.errors import QuorateError

__all__ = ["AssignorError"]


class AssignorError(QuorateError, ValueError):
    """The input cannot be assigned. The message names the member or topic and the remedy."""
