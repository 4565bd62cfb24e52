"""Kafka's TimelineHashMap, reduced to its iteration order.

The coordinator keeps groups, members, target assignments and offsets in such maps, and writes
records in their order.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.assignors.java_order.hashes import java_hash, string_hash
from quorate.codecs.extension import extension

K = TypeVar("K")
V = TypeVar("V")

_set = dict.__setitem__  # `super()` takes as long as the rest of a put
_FACTOR = -7046029254386353131
_MASK = (1 << 64) - 1


class CountedDict(dict[K, V]):
    """A dict that counts the slots of Kafka's map, for which `TimelineMap` has the rule.

    That in C has the same methods. A put takes a quarter of the time, and a lookup two thirds.
    """

    __slots__ = ("slots",)

    slots: int

    def __setitem__(self, key: K, value: V) -> None:
        if (len(self) + 1) * 3 > self.slots * 4:
            self.slots *= 2
        _set(self, key, value)


if TYPE_CHECKING:
    _Base = CountedDict
else:
    _Base = CountedDict if extension() is None else extension().NativeDict


class TimelineMap(_Base[K, V]):
    """A dict that can iterate in the order of Kafka's map: `ordered()`.

    Iteration of the dict itself is faster, and in insertion order.

    As in `BaseHashTable`, there are two slots at first. Before each put, even one that replaces a
    value, the slots double if four thirds of them cannot hold one more key; they never shrink.
    Slots are chosen by the high bits of a product, and iterated newest key first. Fill it only with
    `map[key] = value`, `put_new`, `put_all` and `exchange`: `update` and `setdefault` do not count
    slots. `hash_of`: for keys whose Java hash code is not that of `java_hash`.
    """

    __slots__ = ("_hash_of",)

    def __init__(self, hash_of: Callable[[K], int] = java_hash) -> None:
        super().__init__()
        self._hash_of = hash_of
        self.slots = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the number of slots, which never decreases, in copies and pickles."""
        return type(self), (self._hash_of,), (None, {"slots": self.slots}), None, iter(self.items())

    def exchange(self, key: K, value: V) -> None:
        """Replace the value of a present key, without a put in Kafka's map."""
        assert key in self
        _set(self, key, value)

    def put_new(self, keys: Iterable[K], values: Iterable[V]) -> None:
        """Put many keys in turn, none of which is in the map."""
        super().update(zip(keys, values, strict=True))
        while len(self) * 3 > self.slots * 4:
            self.slots *= 2

    def put_all(self, values: dict[K, V]) -> None:
        """Put many keys in turn, new or not."""
        if not values:
            return
        replaces = next(reversed(values)) in self
        super().update(values)
        while (len(self) + replaces) * 3 > self.slots * 4:
            self.slots *= 2

    def ordered(self) -> Iterator[tuple[K, V]]:
        """Return keys and values in the order of Kafka's map."""
        return ((key, self[key]) for key in self.ordered_keys())

    def ordered_keys(self) -> list[K]:
        """Return the keys in the order of Kafka's map."""
        shift = 65 - self.slots.bit_length()
        newest_first = [*reversed(self)]
        slots = [_slot(hashed, shift) for hashed in map(self._hash_of, newest_first)]
        return [newest_first[place] for place in sorted(range(len(slots)), key=slots.__getitem__)]

    def in_order(self, keys: Collection[K]) -> list[K]:
        """Return these keys in the order of Kafka's map, without those that are missing."""
        shift = 65 - self.slots.bit_length()
        newest_first = [key for key in reversed(self) if key in keys]
        return sorted(newest_first, key=lambda key: _slot(self._hash_of(key), shift))

    def ordered_with(self, removed: dict[K, V]) -> Iterator[tuple[K, V]]:
        """Return the same with keys removed since the snapshot that Kafka reads.

        They come first in their slots.
        """
        shift = 65 - self.slots.bit_length()
        found = [(_slot(self._hash_of(key), shift), of, key) for of in (removed, self) for key in reversed(of)]
        found.sort(key=itemgetter(0))
        return ((key, of[key]) for _, of, key in found)


def _slot(hashed: int, shift: int) -> int:
    return _number(hashed) >> shift


def _number(hashed: int) -> int:
    signed = hashed - ((hashed & 0x80000000) << 1)
    return (signed * _FACTOR) & _MASK


@lru_cache(maxsize=1 << 14)
def timeline_number(text: str) -> int:
    """Return the number of 64 bits whose upper ones are the slot of a text."""
    return _number(string_hash(text))
