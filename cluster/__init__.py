"""An embedded Kafka cluster: several brokers with racks in one process.

Its internal topics, such as `__consumer_offsets`, are logs of real record batches.

    with EmbeddedCluster(racks=["a", "b", "c"]) as kafka:
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="g")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.cluster.clock import Clock, ManualClock, RealClock
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.errors import ClusterError
    from quorate.cluster.faults import Corrupt, Delay, Disconnect, Error, Silence, Throttle, WaitFor
    from quorate.cluster.file_log import FileLog
    from quorate.cluster.interface import TEST_PROPERTIES, BrokerInfo, Cluster
    from quorate.cluster.security import Security, make_certificate

__all__ = [
    "TEST_PROPERTIES",
    "BrokerInfo",
    "Clock",
    "Cluster",
    "ClusterError",
    "Corrupt",
    "Delay",
    "Disconnect",
    "EmbeddedCluster",
    "Error",
    "FileLog",
    "ManualClock",
    "RealClock",
    "Security",
    "Silence",
    "Throttle",
    "WaitFor",
    "make_certificate",
]

_MODULES = {
    "clock": ("Clock", "ManualClock", "RealClock"),
    "embedded": ("EmbeddedCluster",),
    "errors": ("ClusterError",),
    "faults": ("Corrupt", "Delay", "Disconnect", "Error", "Silence", "Throttle", "WaitFor"),
    "interface": ("TEST_PROPERTIES", "BrokerInfo", "Cluster"),
    "security": ("Security", "make_certificate"),
    "file_log": ("FileLog",),
}


def __getattr__(name: str) -> Any:
    """Import public names on first use.

    Importing the embedded cluster takes most of a second, which clients of other clusters do not
    need.
    """
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
