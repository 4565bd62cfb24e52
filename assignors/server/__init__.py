"""Server-side assignors: `uniform` and `range` of KIP-848, and `simple` of KIP-932.

```python
topology = Topology.of({"orders": 6}, ids={"orders": Uuid.parse("s3EzeZ2eYDCUdBwL6zrHEw")})
members = {"m1": Member(topics=["orders"]), "m2": Member(topics=["orders"])}
target = UniformAssignor().target(GroupSpec(members, topology))
target.assignment["m1"], target.changed
```
"""

from typing import TYPE_CHECKING

from quorate.assignors.subscription_type import SubscriptionType
from quorate.codecs.lazy_names import lazy_names

if TYPE_CHECKING:
    from quorate.assignors.server.assignor import KafkaServerAssignor
    from quorate.assignors.server.range import ServerRangeAssignor
    from quorate.assignors.server.simple import SimpleAssignor
    from quorate.assignors.server.uniform import UniformAssignor
    from quorate.assignors.target import Record, TargetAssignment

__all__ = [
    "KafkaServerAssignor",
    "Record",
    "ServerRangeAssignor",
    "SimpleAssignor",
    "SubscriptionType",
    "TargetAssignment",
    "UniformAssignor",
]

_LAZY = {
    "KafkaServerAssignor": "assignor",
    "Record": "assignor",
    "ServerRangeAssignor": "range",
    "SimpleAssignor": "simple",
    "TargetAssignment": "assignor",
    "UniformAssignor": "uniform",
}
"""Names whose modules are imported on first use: small groups need no NumPy."""

__getattr__ = lazy_names(__name__, _LAZY)
