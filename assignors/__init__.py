"""Partition assignors: Kafka's, with the same results in the same order, and two of our own.

Assignors are pure functions of members and topology. `quorate.assignors.adapters` plugs them into
kafka-python and aiokafka. Modules and NumPy are imported when one of these names is first used.

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

from typing import TYPE_CHECKING

from quorate.codecs.lazy_names import lazy_names

if TYPE_CHECKING:
    from quorate.assignors.assignor import Assignor
    from quorate.assignors.explanations import Explanation, explain
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

_LAZY = {
    "Assignor": "assignor",
    "Explanation": "explanations",
    "explain": "explanations",
    "GroupSpec": "group",
    "MemberSubscription": "group",
    "SubscriptionType": "group",
    "LagAwareAssignor": "lag_aware",
    "Assignment": "model",
    "AssignorError": "model",
    "Member": "model",
    "GroupAssignment": "protocol",
    "ServerAssignor": "protocol",
    "SubscribedTopicDescriber": "protocol",
    "RackAwareUniformAssignor": "rack_aware_uniform",
    "RangeAssignor": "range",
    "client_assignor": "registry",
    "server_assignor": "registry",
    "RoundRobinAssignor": "roundrobin",
    "Topic": "topology",
    "TopicPartition": "topology",
    "Topology": "topology",
}
"""Names whose modules are imported on first use."""

__getattr__ = lazy_names(__name__, _LAZY)
