"""Kafka's TimelineHashMap, as far as its order shows: the coordinator keeps groups, members, targets and offsets in such maps, and writes records in their order."""

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter
from typing import TypeVar

from quorate.assignors.java_order.hashes import java_hash

__all__ = ["TimelineMap"]

K = TypeVar("K")
V = TypeVar("V")

_set = dict.__setitem__  # each record that is replayed comes by here, and `super()` takes half of the time
_FACTOR = -7046029254386353131
_MASK = (1 << 64) - 1


class TimelineMap(dict[K, V]):
    """A dict that knows in which order Kafka's map would be iterated: `ordered()`.

    Iterating the dict itself is quicker, and gives the order of insertion.

    As `BaseHashTable` has it: two slots at first; before each put, also one that replaces, the
    slots double if four thirds of them do not hold one key more; they never become fewer. Slots are
    chosen by the high bits of a product, and iterated newest key first. Only `map[key] = value`,
    `put_new`, `put_all`, `exchange` and removals keep count: fill it by nothing else (`update`,
    `setdefault`). `hash_of`: of keys whose Java hash code is not that of `java_hash`.
    """

    __slots__ = ("_hash_of", "slots")

    def __init__(self, hash_of: Callable[[K], int] = java_hash) -> None:
        super().__init__()
        self._hash_of = hash_of
        self.slots = 2

    def __setitem__(self, key: K, value: V) -> None:
        if (len(self) + 1) * 3 > self.slots * 4:
            self.slots *= 2
        _set(self, key, value)

    def exchange(self, key: K, value: V) -> None:
        """Exchange the value of a key that is there for another form of the same, of which Kafka's map knows nothing."""
        assert key in self
        _set(self, key, value)

    def put_new(self, keys: Iterable[K], values: Iterable[V]) -> None:
        """Put many keys, one after the other, none of which is there."""
        super().update(zip(keys, values, strict=True))
        while len(self) * 3 > self.slots * 4:
            self.slots *= 2

    def put_all(self, values: dict[K, V]) -> None:
        """Put many keys, one after the other, new ones or not."""
        if not values:
            return
        replaces = next(reversed(values)) in self
        super().update(values)
        while (len(self) + replaces) * 3 > self.slots * 4:
            self.slots *= 2

    def ordered(self) -> Iterator[tuple[K, V]]:
        """Keys and values in the order of Kafka's map."""
        shift = 65 - self.slots.bit_length()
        newest_first = [(_slot(self._hash_of(key), shift), key) for key in reversed(self)]
        newest_first.sort(key=itemgetter(0))
        return ((key, self[key]) for _, key in newest_first)

    def in_order(self, keys: Collection[K]) -> list[K]:
        """Some of the keys in the order of Kafka's map; those that are not in it are left out."""
        shift = 65 - self.slots.bit_length()
        newest_first = [key for key in reversed(self) if key in keys]
        return sorted(newest_first, key=lambda key: _slot(self._hash_of(key), shift))

    def ordered_with(self, removed: dict[K, V]) -> Iterator[tuple[K, V]]:
        """The same with what was removed since the snapshot that Kafka reads, which comes first in its slots."""
        shift = 65 - self.slots.bit_length()
        found = [(_slot(self._hash_of(key), shift), of, key) for of in (removed, self) for key in reversed(of)]
        found.sort(key=itemgetter(0))
        return ((key, of[key]) for _, of, key in found)


def _slot(hashed: int, shift: int) -> int:
    signed = hashed - ((hashed & 0x80000000) << 1)
    return ((signed * _FACTOR) & _MASK) >> shift
