"""Watch the groups of a running cluster, or of a copy of its logs: events with causes, and lags.

An observer follows `__consumer_offsets` and `__share_group_state`. It joins no group and commits
nothing.
"""

from quorate.watch.model import (
    EventKind,
    GroupMoment,
    GroupSummary,
    LagSample,
    MemberRow,
    OwnershipSpan,
    PartitionMove,
    PartitionRow,
    Status,
    TopicRow,
    UpgradeFinding,
    Watched,
    WatchEvent,
    as_json,
)

__all__ = [
    "EventKind",
    "GroupMoment",
    "GroupSummary",
    "LagSample",
    "MemberRow",
    "OwnershipSpan",
    "PartitionMove",
    "PartitionRow",
    "Status",
    "TopicRow",
    "UpgradeFinding",
    "WatchEvent",
    "Watched",
    "as_json",
]
