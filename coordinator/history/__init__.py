"""The history of groups, from the records of `__consumer_offsets`: states and events.

`state_at` and `History` have the state at any offset or time. `events` and `diff` have the changes
in between, as facts with sentences.

```python
entries = list(read_log("__consumer_offsets-17"))
for event in events(entries):
    print(event.timestamp_ms, event.group_id, *event.facts)
before, after = state_at(entries, offset=100), state_at(entries, offset=200)
print(diff(before, after))
```
"""

from quorate.coordinator.history.difference import diff, diff_views
from quorate.coordinator.history.events import Event, History, Moment, events, state_at
from quorate.coordinator.history.facts import Cause, EpochBumped, EpochReason, Fact
from quorate.coordinator.history.labels import Labels
from quorate.coordinator.history.views import GroupView, MemberView, view

__all__ = [
    "Cause",
    "EpochBumped",
    "EpochReason",
    "Event",
    "Fact",
    "GroupView",
    "History",
    "Labels",
    "MemberView",
    "Moment",
    "diff",
    "diff_views",
    "events",
    "state_at",
    "view",
]
