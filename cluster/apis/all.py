"""All modules that answer: importing this one fills `ANSWERS`."""

from quorate.cluster.apis import (
    cluster,
    configs,
    fetch,
    find_coordinator,
    groups,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    offsets,
    produce,
    replicas,
    sasl,
    topics,
    transactions,
    versions,
)

__all__ = [
    "cluster",
    "configs",
    "fetch",
    "find_coordinator",
    "groups",
    "list_offsets",
    "metadata",
    "offset_for_leader_epoch",
    "offsets",
    "produce",
    "replicas",
    "sasl",
    "topics",
    "transactions",
    "versions",
]
