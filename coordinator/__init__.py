"""The group coordinator without sockets, files, threads or a clock.

- `CoordinatorState`: what a partition of `__consumer_offsets` says, record by record: groups of
  every kind, and offsets.
- `GroupCoordinatorShard`: requests in, records and responses out; `PartitionRuntime` appends,
  replays and responds; `CoordinatorRuntime` hosts those of all partitions.
- `MetadataImage`, `TopicImage`: the topics that it knows; `RequestContext`: who asks, when, in
  which version.
- `MemoryLog`: the records in memory. `quorate.cluster.FileLog`: in files of Kafka's own form.
- `quorate.coordinator.bulk`, with the extra `arrow`: the state of a log by its columns,
  `load_state(folder)`.
- `topic_hash`, `group_hash`: the hash by which a group notices that its topics have changed
  (KIP-1101), equal to Apache Kafka's bit by bit; `HashAlgorithm` selects the KIP text's variant
  instead.
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
    """Names that bring NumPy along are imported when they are first asked for; the hashes do without."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
