"""Kafka's task assignor of streams groups (KIP-1071), `sticky`.

```python
members = {"m1": StreamsMemberSpec(process_id="p1"), "m2": StreamsMemberSpec(process_id="p2")}
counts = StreamsSubtopology(subtopology_id="0", max_num_input_partitions=4, is_stateful=True)
configs = StreamsAssignmentConfigs(num_standby_replicas=1)
StickyTaskAssignor().assign(members, configs, [counts])["m1"].active_tasks
```
"""

from typing import TYPE_CHECKING

from quorate.assignors.streams.model import (
    MemberTasks,
    StreamsAssignmentConfigs,
    StreamsMemberSpec,
    StreamsSubtopology,
    TaskOffsets,
    Tasks,
)
from quorate.codecs.lazy_names import lazy_names

if TYPE_CHECKING:
    from quorate.assignors.streams.sticky import StickyTaskAssignor

__all__ = [
    "MemberTasks",
    "StickyTaskAssignor",
    "StreamsAssignmentConfigs",
    "StreamsMemberSpec",
    "StreamsSubtopology",
    "TaskOffsets",
    "Tasks",
]

__getattr__ = lazy_names(__name__, {"StickyTaskAssignor": "sticky"})  # NumPy takes 0.1 s to load
