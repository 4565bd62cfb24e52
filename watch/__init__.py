"""Watch the groups of a running cluster, or of a copy of its logs: events with causes, and lags.

An observer follows `__consumer_offsets` and `__share_group_state`. It joins no group and commits
nothing.

```python
with Observer("localhost:9092") as observer:
    event = observer.wait_for(rebalance(group="orders", cause=MemberLeft))
    print(event.sentence, event.duration_ms, event.moved)
    print(observer.group("orders", at_ms=event.at_ms - 1_000))
```
"""

from quorate.coordinator.history.facts import Fact, MemberJoined, MemberLeft, RegexResolved
from quorate.watch.causes import (
    AssignorChanged,
    ConfigChanged,
    CooperativeStep,
    CoordinatorMoved,
    MemberMoved,
    MemberTimedOut,
    NewTopicId,
    PartitionsChanged,
    RacksChanged,
    Rejoined,
    ResetByAdmin,
    ResetByClient,
    ShareStateChanged,
    StaticBounce,
    SubscriptionChanged,
    TopicsChanged,
    TopologyChanged,
    UnknownCause,
    Upgraded,
)
from quorate.watch.limits import WatchLimits
from quorate.watch.matching import event, rebalance
from quorate.watch.model import (
    EventKind,
    GroupMoment,
    GroupSummary,
    LagSample,
    MemberRow,
    MovedPartition,
    OwnershipSpan,
    PartitionRow,
    TopicRow,
    UpgradeFinding,
    Watched,
    WatchEvent,
    WatchStatus,
    as_json,
)
from quorate.watch.observer import NotObserved, Observer
from quorate.watch.outputs import EventLines, EventLog, Output, Webhook

__all__ = [
    "AssignorChanged",
    "ConfigChanged",
    "CooperativeStep",
    "CoordinatorMoved",
    "EventKind",
    "EventLines",
    "EventLog",
    "Fact",
    "GroupMoment",
    "GroupSummary",
    "LagSample",
    "MemberJoined",
    "MemberLeft",
    "MemberMoved",
    "MemberRow",
    "MemberTimedOut",
    "MovedPartition",
    "NewTopicId",
    "NotObserved",
    "Observer",
    "Output",
    "OwnershipSpan",
    "PartitionRow",
    "PartitionsChanged",
    "RacksChanged",
    "RegexResolved",
    "Rejoined",
    "ResetByAdmin",
    "ResetByClient",
    "ShareStateChanged",
    "StaticBounce",
    "SubscriptionChanged",
    "TopicRow",
    "TopicsChanged",
    "TopologyChanged",
    "UnknownCause",
    "UpgradeFinding",
    "Upgraded",
    "WatchEvent",
    "WatchLimits",
    "WatchStatus",
    "Watched",
    "Webhook",
    "as_json",
    "event",
    "rebalance",
]
