"""The iteration order of Java's hash maps, where Kafka's results depend on it.

All knowledge of that order is in this package. `hashes` has Java's hash codes, `hash_map` maps and
sets step by step, and `timeline_map` Kafka's own map; `copied_timeline` keeps the order of a copy
of the latter. `bulk_hashes`, `orders` and `grouped` compute with many keys at once, as arrays; they
are imported when one of their names is first used, because NumPy takes 0.1 s to load.

Verified for JDK 17 to 25. Where JDKs differ (copied HashSets, since 19), functions have a parameter
`jdk`.
"""

from typing import TYPE_CHECKING

from quorate.assignors.java_order.few import copied_set
from quorate.assignors.java_order.hash_map import (
    JavaHashMap,
    JavaHashSet,
    copied_map_capacity,
    copied_set_capacity,
    hash_map_capacity,
    table_size,
)
from quorate.assignors.java_order.hashes import in_java_order, java_hash, string_hash, string_key, string_places
from quorate.assignors.java_order.timeline_map import TimelineMap
from quorate.codecs.lazy_names import lazy_names

if TYPE_CHECKING:
    from quorate.assignors.java_order.bulk_hashes import (
        Ints,
        UInts,
        partition_hashes,
        spread,
        string_hashes,
        string_order,
        uuid_hashes,
    )
    from quorate.assignors.java_order.grouped import (
        copied_set_capacities,
        crowded_maps,
        crowded_numbers,
        grown,
        nested_order,
        set_order,
        table_sizes,
    )
    from quorate.assignors.java_order.orders import computed_map_order, hash_map_order, placed, timeline_order

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
    "string_places",
    "table_size",
    "table_sizes",
    "timeline_order",
    "uuid_hashes",
]

_LAZY = {
    "Ints": "bulk_hashes",
    "UInts": "bulk_hashes",
    "partition_hashes": "bulk_hashes",
    "spread": "bulk_hashes",
    "string_hashes": "bulk_hashes",
    "string_order": "bulk_hashes",
    "uuid_hashes": "bulk_hashes",
    "copied_set_capacities": "grouped",
    "crowded_maps": "grouped",
    "crowded_numbers": "grouped",
    "grown": "grouped",
    "nested_order": "grouped",
    "set_order": "grouped",
    "table_sizes": "grouped",
    "computed_map_order": "orders",
    "hash_map_order": "orders",
    "placed": "orders",
    "timeline_order": "orders",
}
"""Names whose modules are imported on first use."""

__getattr__ = lazy_names(__name__, _LAZY)
