"""The group coordinator without sockets, files, threads or a clock.

- `CoordinatorState`: the state of a partition of `__consumer_offsets`, replayed record by record:
  groups of every type, and committed offsets.
- `GroupCoordinatorShard`: handles requests and returns records and responses. `PartitionRuntime`
  appends and replays the records, then responds. `CoordinatorRuntime` hosts the coordinators of all
  partitions.
- `MetadataImage`, `TopicImage`: brokers and topics. `RequestContext`: client, time and API version
  of a request.
- `MemoryLog`: a log in memory. `quorate.cluster.FileLog`: a log in files of Kafka's format.
- `quorate.coordinator.bulk`, with the extra `arrow`: loads a log by columns, `load_state(folder)`.
- `topic_hash`, `group_hash`: the metadata hash of KIP-1101, bit by bit equal to Apache Kafka's.
  `HashAlgorithm` selects the variant in the text of the KIP instead.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash

if TYPE_CHECKING:
    from quorate.coordinator.config import CoordinatorConfig
    from quorate.coordinator.group_shard import GroupCoordinatorShard
    from quorate.coordinator.image import MetadataImage, TopicImage
    from quorate.coordinator.log import MemoryLog
    from quorate.coordinator.partition_runtime import PartitionRuntime
    from quorate.coordinator.results import RequestContext
    from quorate.coordinator.runtime import CoordinatorRuntime
    from quorate.coordinator.state import CoordinatorState

__all__ = [
    "CoordinatorConfig",
    "CoordinatorRuntime",
    "CoordinatorState",
    "GroupCoordinatorShard",
    "HashAlgorithm",
    "MemoryLog",
    "MetadataImage",
    "PartitionRuntime",
    "RequestContext",
    "TopicImage",
    "group_hash",
    "topic_hash",
]

_MODULES = {
    "CoordinatorConfig": "config",
    "CoordinatorRuntime": "runtime",
    "GroupCoordinatorShard": "group_shard",
    "CoordinatorState": "state",
    "MemoryLog": "log",
    "MetadataImage": "image",
    "PartitionRuntime": "partition_runtime",
    "RequestContext": "results",
    "TopicImage": "image",
}


def __getattr__(name: str) -> Any:
    """Import names that need NumPy on first use, so that the hashes work without it."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
