"""The iteration order of maps with few keys, as lists: without NumPy, and without a map.

Keys are ordered by the buckets of the last table, and within a bucket by insertion, as in `orders`.
Where a bucket may become a tree, or may make a small table grow, the keys are put into a
`JavaHashMap` instead.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from operator import eq
from typing import Any, TypeVar

from quorate.assignors.java_order.hash_map import TREE_FROM, JavaHashSet, copied_set_capacity, hash_map_capacity
from quorate.assignors.java_order.hashes import java_hash, string_hash
from quorate.assignors.java_order.timeline_map import TimelineMap, timeline_number

K = TypeVar("K")

_DEFAULT = 16
_FEW = 50
"""Of fewer keys, lists are faster than arrays."""
_UNSPREAD = (1 << 16) - 1
"""Java mixes in the upper 16 bits of a hash, which numbers up to this one do not have."""


def few_in_order(keys: Sequence[K], capacity: int = _DEFAULT) -> Sequence[K]:
    """Return different keys in the iteration order of a HashMap into which they were put in turn.

    `capacity`: the initial number of buckets, a power of two.
    """
    if len(keys) < 2:
        return keys
    hashes = [java_hash(key) for key in keys]
    return _in_order(keys, [hashed ^ hashed >> 16 for hashed in hashes], capacity)


def few_strings_in_order(texts: Sequence[str], capacity: int = _DEFAULT) -> Sequence[str]:
    """Return the same for different texts."""
    if len(texts) < 2:
        return texts
    return _in_order(texts, list(map(spread_of, texts)), capacity)


def few_string_places(texts: Sequence[str]) -> list[int]:
    """Return the positions of different texts in that order."""
    spreaded = list(map(spread_of, texts))
    if len(texts) > TREE_FROM and is_crowded(spreaded, _DEFAULT):
        places = {text: place for place, text in enumerate(texts)}
        return [places[text] for text in _in_order(texts, spreaded, _DEFAULT)]
    mask = hash_map_capacity(len(texts), _DEFAULT) - 1
    return sorted(range(len(texts)), key=list(map(mask.__and__, spreaded)).__getitem__)


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


def map_of_timeline(members: TimelineMap[str, Any], last: str) -> Sequence[str]:
    """Return the order of a HashMap into which the texts of a TimelineHashMap are put.

    `last`: put after these, unless it is one of them.
    """
    shift = 65 - members.slots.bit_length()
    newest_first = [*reversed(members)]
    numbers = [timeline_number(text) >> shift for text in newest_first]
    texts = [newest_first[place] for place in sorted(range(len(numbers)), key=numbers.__getitem__)]
    if last not in members:
        texts.append(last)
    return few_strings_in_order(texts)


@lru_cache(maxsize=1 << 14)
def spread_of(text: str) -> int:
    """Return a text's hash, as spread by HashMap."""
    hashed = string_hash(text)
    return hashed ^ hashed >> 16


def _in_order(keys: Sequence[K], spreaded: Sequence[int], capacity: int) -> Sequence[K]:
    if len(keys) > TREE_FROM and is_crowded(spreaded, capacity):
        made: JavaHashSet[K] = JavaHashSet(capacity)
        for key in keys:
            made.add(key)
        return list(made)
    mask = hash_map_capacity(len(keys), capacity) - 1
    buckets = list(map(mask.__and__, spreaded))
    return [keys[place] for place in sorted(range(len(keys)), key=buckets.__getitem__)]


def few_numbers_in_order(numbers: Collection[int], capacity: int = _DEFAULT) -> Sequence[int]:
    """Return numbers, such as partitions, in the order of a HashMap into which they were put.

    A number is its own hash.
    """
    if len(numbers) < 2:
        return [*numbers]
    different = [*dict.fromkeys(numbers)]
    mask = hash_map_capacity(len(different), capacity) - 1
    highest = max(different)
    if highest <= mask and highest <= _UNSPREAD:  # each has a bucket of its own
        different.sort()
    elif highest > _UNSPREAD or may_be_crowded(different, capacity):
        return list(_set_of(different, capacity))
    else:
        different.sort(key=mask.__and__)
    return different


def changed_numbers_in_order(
    given: Collection[int], kept: Collection[int], added: Sequence[int], capacity: int = _DEFAULT
) -> Sequence[int]:
    """Return the order of a HashMap in which `given` was put, all but `kept` removed, `added` put.

    `given` are different numbers, `kept` some of these in the same order.
    """
    final = [*kept, *added]
    if len(final) < 2:
        return final
    if kept and added:  # a number may be added where it is
        final = list(dict.fromkeys(final))
    mask = hash_map_capacity(max(len(final), len(given)), capacity) - 1
    if max(final) <= min(mask, _UNSPREAD):  # each has a bucket of its own
        final.sort()
    elif max(*final, *given) > _UNSPREAD or may_be_crowded({*given, *added}, capacity):
        made = _set_of(given, capacity)
        for number in given:
            if number not in kept:
                made.discard(number)
        for number in added:
            made.add(number)
        return list(made)
    else:
        final.sort(key=mask.__and__)
    return final


def _set_of(numbers: Iterable[int], capacity: int) -> JavaHashSet[int]:
    made: JavaHashSet[int] = JavaHashSet(capacity)
    for number in numbers:
        made.add(number)
    return made


def is_crowded(spreaded: Sequence[int], capacity: int = _DEFAULT) -> bool:
    """Return whether a bucket ever holds more keys than a list has (`TREE_FROM`).

    `spreaded`: the hashes in order of insertion, as spread by HashMap, while the table grows from
    `capacity` buckets to take all.
    """
    count = len(spreaded)
    if count - len(set(map((capacity - 1).__and__, spreaded))) < TREE_FROM:
        return False  # so few share buckets that none has more than that, nor in larger tables
    # If no bucket is crowded although all keys are in a smaller table, it is not in larger ones.
    safe = max(capacity, hash_map_capacity(count, capacity) // 4)
    is_safe = not _is_full(spreaded, safe)
    while not is_safe or capacity < safe:
        # One key more than the threshold, as `put` grows the table after it.
        if _is_full(spreaded[: capacity * 3 // 4 + 1], capacity):
            return True
        if count <= capacity * 3 // 4:
            return False
        capacity *= 2
    return False


def _is_full(spreaded: Sequence[int], capacity: int) -> bool:
    buckets = sorted(map((capacity - 1).__and__, spreaded))
    return any(map(eq, buckets, buckets[TREE_FROM:]))


def may_be_crowded(hashes: Collection[int], first: int) -> bool:
    """Return whether a bucket may become a tree, or make a small table grow, in any order."""
    if len(hashes) < TREE_FROM:
        return False
    mask = max(first, _DEFAULT) - 1  # smaller tables do not hold so many keys
    buckets = [*map(mask.__and__, hashes)]
    if len(buckets) - len({*buckets}) < TREE_FROM - 1:
        return False
    return max(Counter(buckets).values()) >= TREE_FROM
