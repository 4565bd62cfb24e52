"""The group coordinator without sockets, threads or a clock. So far: the hash by which a group notices that its topics have changed (KIP-1101).

- `topic_hash`, `group_hash`: equal to Apache Kafka's bit by bit; `HashAlgorithm` selects the KIP text's variant instead.
"""

from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash

__all__ = ["HashAlgorithm", "group_hash", "topic_hash"]
