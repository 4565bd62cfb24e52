"""Partition assignors: Kafka's, with the same results in the same order, and two of our own.

Assignors are pure functions of members and topology. `quorate.assignors.adapters` plugs them into
kafka-python and aiokafka.

```python
# The racks of each partition's replicas, the leader's first.
topology = Topology.of({"orders": [["a", "b"], ["b", "c"], ["c", "a"]]})
members = {
    "m1": Member(topics=["orders"], rack="a"),
    "m2": Member(topics=["orders"], rack="b"),
}
RangeAssignor().assign(members, topology)["m1"]  # (TopicPartition("orders", 0), ...)
```
"""

from quorate.assignors.assignor import Assignor
from quorate.assignors.explain import Explanation, explain
from quorate.assignors.group import GroupSpec, MemberSubscription, SubscriptionType
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.model import Assignment, AssignorError, Member
from quorate.assignors.protocol import GroupAssignment, ServerAssignor, SubscribedTopicDescriber
from quorate.assignors.rack_aware_uniform import RackAwareUniformAssignor
from quorate.assignors.range import RangeAssignor
from quorate.assignors.registry import client_assignor, server_assignor
from quorate.assignors.roundrobin import RoundRobinAssignor
from quorate.assignors.topology import Topic, TopicPartition, Topology

__all__ = [
    "Assignment",
    "Assignor",
    "AssignorError",
    "Explanation",
    "GroupAssignment",
    "GroupSpec",
    "LagAwareAssignor",
    "Member",
    "MemberSubscription",
    "RackAwareUniformAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "ServerAssignor",
    "SubscribedTopicDescriber",
    "SubscriptionType",
    "Topic",
    "TopicPartition",
    "Topology",
    "client_assignor",
    "explain",
    "server_assignor",
]
