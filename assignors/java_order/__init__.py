"""The iteration order of Java's hash maps, where Kafka's results depend on it.

All knowledge of that order is in this package. `hashes` has Java's hash codes, `orders` the orders
of many keys at once, `hash_map` maps and sets step by step, and `timeline_map` Kafka's own map.

Verified for JDK 17 to 25. Where JDKs differ (copied HashSets, since 19), functions have a parameter
`jdk`.
"""

from quorate.assignors.java_order.grouped import (
    copied_set_capacities,
    crowded_maps,
    crowded_numbers,
    grown,
    nested_order,
    set_order,
    table_sizes,
)
from quorate.assignors.java_order.hash_map import (
    JavaHashMap,
    JavaHashSet,
    copied_map_capacity,
    copied_set_capacity,
    table_size,
)
from quorate.assignors.java_order.hashes import (
    Ints,
    UInts,
    in_java_order,
    java_hash,
    partition_hashes,
    spread,
    string_hash,
    string_hashes,
    string_key,
    string_order,
    uuid_hashes,
)
from quorate.assignors.java_order.orders import (
    computed_map_order,
    copied_set,
    hash_map_capacity,
    hash_map_order,
    placed,
    timeline_order,
)
from quorate.assignors.java_order.timeline_map import TimelineMap

__all__ = [
    "Ints",
    "JavaHashMap",
    "JavaHashSet",
    "TimelineMap",
    "UInts",
    "computed_map_order",
    "copied_map_capacity",
    "copied_set",
    "copied_set_capacities",
    "copied_set_capacity",
    "crowded_maps",
    "crowded_numbers",
    "grown",
    "hash_map_capacity",
    "hash_map_order",
    "in_java_order",
    "java_hash",
    "nested_order",
    "partition_hashes",
    "placed",
    "set_order",
    "spread",
    "string_hash",
    "string_hashes",
    "string_key",
    "string_order",
    "table_size",
    "table_sizes",
    "timeline_order",
    "uuid_hashes",
]
