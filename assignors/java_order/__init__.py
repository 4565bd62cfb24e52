"""The order in which Java iterates its hash maps, where Kafka's answers show it. Nothing else in the house knows about it.

`hashes` are Java's hash codes, `orders` the orders of many keys at once, `hash_map` maps and sets step by step. Verified for JDK 17 to 25; where JDKs differ
(HashSets that are copies, since 19), there is a parameter `jdk`.
"""

from quorate.assignors.java_order.hash_map import (
    JavaHashMap,
    JavaHashSet,
    copied_map_capacity,
    copied_set_capacity,
    table_size,
)
from quorate.assignors.java_order.hashes import (
    java_hash,
    partition_hashes,
    spread,
    string_hash,
    string_hashes,
    string_key,
    uuid_hashes,
)
from quorate.assignors.java_order.orders import (
    capacities,
    computed_map_order,
    hash_map_capacity,
    hash_map_order,
    timeline_order,
)

__all__ = [
    "JavaHashMap",
    "JavaHashSet",
    "capacities",
    "computed_map_order",
    "copied_map_capacity",
    "copied_set_capacity",
    "hash_map_capacity",
    "hash_map_order",
    "java_hash",
    "partition_hashes",
    "spread",
    "string_hash",
    "string_hashes",
    "string_key",
    "table_size",
    "timeline_order",
    "uuid_hashes",
]
