"""The group coordinator without sockets, threads or a clock.

- `CoordinatorState`: what a partition of `__consumer_offsets` says, record by record: groups of every kind, and offsets.
- `CoordinatorShard`: requests in, records and responses out; `CoordinatorRuntime` writes, replays and answers.
- `topic_hash`, `group_hash`: the hash by which a group notices that its topics have changed (KIP-1101), equal to Apache Kafka's bit by bit;
  `HashAlgorithm` selects the KIP text's variant instead.
"""

from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash
from quorate.coordinator.state import CoordinatorState

__all__ = ["CoordinatorState", "HashAlgorithm", "group_hash", "topic_hash"]
