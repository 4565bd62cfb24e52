"""The state of one partition of `__consumer_offsets`: groups of every type and committed offsets.

```python
state = CoordinatorState()
for entry in read_log("__consumer_offsets-1"):
    producer_id = entry.producer_id if entry.transactional else -1
    state.replay(entry.record, offset=entry.offset, producer_id=producer_id)
state.groups["billing"].state
```
"""

from quorate.coordinator.state.classic import ClassicGroup, ClassicState
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember, MemberState
from quorate.coordinator.state.coordinator_state import CoordinatorState
from quorate.coordinator.state.groups import CoordinatorGroup, GroupKind, ReplayError
from quorate.coordinator.state.offsets import CommittedOffset, Offsets
from quorate.coordinator.state.share import ShareGroup, ShareMember
from quorate.coordinator.state.streams import StreamsGroup, StreamsMember

__all__ = [
    "ClassicGroup",
    "ClassicState",
    "CommittedOffset",
    "ConsumerGroup",
    "ConsumerMember",
    "CoordinatorGroup",
    "CoordinatorState",
    "GroupKind",
    "MemberState",
    "Offsets",
    "ReplayError",
    "ShareGroup",
    "ShareMember",
    "StreamsGroup",
    "StreamsMember",
]
