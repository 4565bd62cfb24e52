"""An embedded Kafka cluster: several brokers with racks in one process, whose `__consumer_offsets` is a real topic of real bytes.

with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as kafka:
consumer = KafkaConsumer("orders", bootstrap_servers=kafka.bootstrap_servers, group_id="g")
"""

from quorate.cluster.apis import all as _all  # noqa: F401  # fills the table of what is answered
from quorate.cluster.clock import Clock, ManualClock, RealClock
from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Corrupt, Delay, Disconnect, Error, Silence, WaitFor
from quorate.cluster.interface import TEST_PROPERTIES, BrokerInfo, Cluster
from quorate.cluster.security import Security, make_certificate
from quorate.cluster.storage.file_log import FileLog

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
    "WaitFor",
    "make_certificate",
]
