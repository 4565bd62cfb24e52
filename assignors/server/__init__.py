"""Assignors of the server side: `uniform` and `range` of KIP-848, and `simple` of KIP-932.

```python
topology = Topology.of({"orders": 6}, ids={"orders": Uuid.parse("s3EzeZ2eYDCUdBwL6zrHEw")})
target = UniformAssignor().target(Group({"m1": Member(topics=["orders"]), "m2": Member(topics=["orders"])}, topology))
target.assignment["m1"], target.changed
```
"""

from quorate.assignors.server.assignor import Record, ServerAssignor, SubscriptionType, TargetAssignment
from quorate.assignors.server.range import ServerRangeAssignor
from quorate.assignors.server.simple import SimpleAssignor
from quorate.assignors.server.uniform import UniformAssignor

__all__ = [
    "Record",
    "ServerAssignor",
    "ServerRangeAssignor",
    "SimpleAssignor",
    "SubscriptionType",
    "TargetAssignment",
    "UniformAssignor",
]
