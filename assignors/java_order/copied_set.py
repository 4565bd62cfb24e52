"""The order of a copied HashSet of texts: few texts as lists, many as arrays."""

from collections.abc import Sequence

from quorate.assignors.java_order.few import few_strings_in_order
from quorate.assignors.java_order.hash_map import copied_set_capacity

_FEW = 50
"""Of fewer keys, lists are faster than arrays."""


def copied_set(texts: Sequence[str], jdk: int = 17) -> list[str]:
    """Return texts in the iteration order of `new HashSet(collection)` on that JDK.

    The same as `JavaHashSet.of`, but faster for many texts.
    """
    keys = list(dict.fromkeys(texts))
    capacity = copied_set_capacity(len(texts), jdk)
    if len(keys) < _FEW:
        return list(few_strings_in_order(keys, capacity))
    from quorate.assignors.java_order.bulk_hashes import string_hashes  # NumPy takes 0.1 s to load
    from quorate.assignors.java_order.orders import hash_map_order

    order = hash_map_order(string_hashes(keys), capacity, keys=keys)
    return list(map(keys.__getitem__, order.tolist()))
