"""Kafka clusters for tests and experiments, behind one interface: brokers with racks that can be stopped, moved, paused, cut off and upgraded.

```python
with KafkaCluster(racks=["a", "b", "c"]) as kafka:
    kafka.create_topic("orders", partitions=6, replicas=2)
    kafka.restart_broker(1, rack="b")
```

`quorate.integration.plugin` is the pytest plugin that hands such a cluster to tests.
"""

from typing import TYPE_CHECKING, Any

from quorate.integration.cluster import BrokerInfo, Cluster
from quorate.integration.errors import ClusterError

if TYPE_CHECKING:
    from quorate.integration.containers import KafkaCluster

__all__ = ["BrokerInfo", "Cluster", "ClusterError", "KafkaCluster"]


def __getattr__(name: str) -> Any:
    """`KafkaCluster` is imported when it is first asked for: it is not needed where the cluster is another."""
    if name == "KafkaCluster":
        from quorate.integration.containers import KafkaCluster

        return KafkaCluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
