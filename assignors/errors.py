"""The exception of assignors."""

from quorate.codecs.errors import QuorateError


class AssignorError(QuorateError, ValueError):
    """The input cannot be assigned. The message names the member or topic and the remedy."""
