"""Kafka clusters for tests and experiments, with one interface for embedded and real brokers.

Brokers have racks, and can be stopped, moved, paused, cut off and upgraded.

```python
with KafkaCluster(racks=["a", "b", "c"]) as kafka:
    kafka.create_topic("orders", partitions=6, replicas=2)
    kafka.restart_broker(1, rack="b")
```

`quorate.integration.plugin` is the pytest plugin that provides such a cluster to tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.errors import ClusterError
    from quorate.cluster.interface import TEST_PROPERTIES, BrokerInfo, Cluster
    from quorate.integration.containers import KafkaCluster
    from quorate.integration.embedded_lab import EmbeddedLab

__all__ = ["TEST_PROPERTIES", "BrokerInfo", "Cluster", "ClusterError", "EmbeddedCluster", "EmbeddedLab", "KafkaCluster"]

_MODULES = {
    "TEST_PROPERTIES": "quorate.cluster.interface",
    "BrokerInfo": "quorate.cluster.interface",
    "Cluster": "quorate.cluster.interface",
    "ClusterError": "quorate.cluster.errors",
    "EmbeddedCluster": "quorate.cluster.embedded",
    "EmbeddedLab": "quorate.integration.embedded_lab",
    "KafkaCluster": "quorate.integration.containers",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use.

    pytest loads the plugin, and so this package, wherever quorate is installed.
    """
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
