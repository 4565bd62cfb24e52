"""States of a member, the transitions between them, and reactions to errors.

They are those of Java's `MemberState` and `AbstractHeartbeatRequestManager` (4.4).
"""

from collections.abc import Mapping
from enum import Enum, auto

from quorate.codecs.api.error_codes import ErrorCode


class ConsumerState(Enum):
    """States of a member, by the names of Java's `MemberState`."""

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"  # releases its partitions, then joins again
    PREPARE_LEAVING = "prepare-leaving"  # releases its partitions, then leaves
    LEAVING = "leaving"
    STALE = "stale"  # left because the application did not poll; joins again when it does
    FATAL = "fatal"


_S = ConsumerState

TRANSITIONS: Mapping[ConsumerState, frozenset[ConsumerState]] = {
    _S.UNSUBSCRIBED: frozenset({_S.JOINING, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.JOINING: frozenset({_S.STABLE, _S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.RECONCILING: frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.ACKNOWLEDGING: frozenset({_S.STABLE, _S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.STABLE: frozenset({_S.RECONCILING, _S.FENCED, _S.PREPARE_LEAVING, _S.FATAL}),
    _S.FENCED: frozenset({_S.JOINING, _S.UNSUBSCRIBED}),
    _S.PREPARE_LEAVING: frozenset({_S.LEAVING, _S.UNSUBSCRIBED, _S.FENCED, _S.FATAL}),
    _S.LEAVING: frozenset({_S.UNSUBSCRIBED, _S.STALE, _S.FENCED, _S.FATAL}),
    _S.STALE: frozenset({_S.JOINING}),
    _S.FATAL: frozenset(),
}
"""State → possible next states. A state may also be entered again."""

NOT_IN_GROUP = frozenset({_S.UNSUBSCRIBED, _S.FENCED, _S.FATAL, _S.STALE})
"""States without heartbeats."""

CAN_RECEIVE_ASSIGNMENT = frozenset(state for state, following in TRANSITIONS.items() if _S.RECONCILING in following)
"""In other states an assignment in a response is ignored."""


class Reaction(Enum):
    """What a member does after an error in a heartbeat's response."""

    FIND_COORDINATOR = auto()  # and send the next heartbeat without a backoff
    RETRY = auto()
    RAISE = auto()  # in the application's poll, and retry
    REJOIN = auto()
    GROUP_NOT_FOUND = auto()  # expected when leaving a group that it never joined; else fatal
    FAIL = auto()


REACTIONS: Mapping[ErrorCode, Reaction] = {
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.RAISE,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    ErrorCode.GROUP_ID_NOT_FOUND: Reaction.GROUP_NOT_FOUND,
}
"""All other errors are fatal, such as UNRELEASED_INSTANCE_ID and UNSUPPORTED_ASSIGNOR."""


def known_error(code: int) -> ErrorCode:
    """Return the error; UNKNOWN_SERVER_ERROR for a code of a newer release, as in Java."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
