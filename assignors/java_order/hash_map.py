"""Java's HashMap and HashSet step by step, with their iteration order.

They are for small maps, and for cases without a faster way: removals, mixed steps, tree buckets.
For many keys that are only inserted, `quorate.assignors.java_order.orders` is faster.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar

from quorate.assignors.java_order.hashes import comparable, java_hash
from quorate.assignors.java_order.tree_bin import TreeBin, TreeNode

K = TypeVar("K")
V = TypeVar("V")

TREE_FROM = 8
"""A bucket with this many keys becomes a tree when another one is put.

With `computeIfAbsent` the new key is counted too.
"""

LIST_UP_TO = 6
"""A tree with at most this many keys becomes a list when the table grows."""

TREE_CAPACITY = 64
"""In smaller tables, the table grows instead of a tree."""


def hash_map_capacity(size: int, initial: int = 16) -> int:
    """Return the buckets of a HashMap after `size` puts: it doubles at three quarters."""
    capacity = initial
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def table_size(capacity: int) -> int:
    """Return the buckets of `new HashMap(capacity)`: the next power of two."""
    return 1 << max(0, capacity - 1).bit_length()


@lru_cache(maxsize=1 << 10)
def copied_set_capacity(size: int, jdk: int) -> int:
    """Return the initial buckets of `new HashSet(collection)` for `size` keys, including repeats.

    Since JDK 19 (JDK-8284780) the size is no longer too large.
    """
    return table_size(max(size * 4 // 3 + 1, 16) if jdk < 19 else (max(size, 12) * 4 + 2) // 3)


def copied_map_capacity(size: int, jdk: int = 17) -> int:
    """Return the buckets of `new HashMap(map)` for a map of `size` keys, at least one.

    Since JDK 19 (JDK-8281631) the size is no longer too large.
    """
    return table_size(size * 4 // 3 + 1 if jdk < 19 else (size * 4 + 2) // 3)


class _Table(Generic[K]):
    """The buckets of a table, with their keys in order."""

    __slots__ = ("_buckets", "_hash_of", "_order_of", "_spread", "_threshold", "capacity")

    def __init__(
        self,
        capacity: int | None = None,
        *,
        hash_of: Callable[[K], int] = java_hash,
        order_of: Callable[[K], Any] = comparable,
    ) -> None:
        self._hash_of = hash_of
        self._order_of = order_of
        self.capacity = 16 if capacity is None else table_size(capacity)
        self._threshold = self.capacity * 3 // 4
        self._buckets: dict[int, list[K] | TreeBin] = {}
        self._spread: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._spread)

    def __contains__(self, key: object) -> bool:
        return key in self._spread

    def __iter__(self) -> Iterator[K]:
        """Iterate over a copy of the keys in Java's order, so keys may be removed meanwhile."""
        keys: list[K] = []
        for _, bucket in sorted(self._buckets.items()):
            keys += bucket if isinstance(bucket, list) else [node.key for node in bucket]
        return iter(keys)

    def _put(self, key: K) -> None:
        """Insert a new key as `put` and `add` do: at the end of its bucket; then grow if needed."""
        self._insert(key, computed=False)
        self._grow_if_full()

    def _insert(self, key: K, *, computed: bool) -> None:
        """Insert a new key; if `computed`, as `computeIfAbsent` does, at the head of its bucket."""
        hashed = self._hash_of(key)
        hashed ^= hashed >> 16
        index = hashed & (self.capacity - 1)
        bucket = self._buckets.setdefault(index, [])
        self._spread[key] = hashed
        if isinstance(bucket, TreeBin):
            bucket.add(TreeNode(key, hashed, self._order_of(key)))
        else:
            bucket.insert(0 if computed else len(bucket), key)
            if len(bucket) + computed > TREE_FROM:
                self._plant(index)

    def _grow_if_full(self) -> None:
        if len(self._spread) > self._threshold:
            self._grow()

    def _remove(self, key: K, *, walking: bool) -> None:
        index = self._spread.pop(key) & (self.capacity - 1)
        bucket = self._buckets[index]
        if isinstance(bucket, TreeBin):
            node = next(node for node in bucket if node.key == key)
            if bucket.remove(node, walking=walking):
                self._buckets[index] = bucket = [left.key for left in bucket]
        else:
            bucket.remove(key)
        if not bucket:
            del self._buckets[index]

    def _plant(self, index: int) -> None:
        if self.capacity < TREE_CAPACITY:
            self._grow()
            return
        keys = self._buckets[index]
        assert isinstance(keys, list)
        self._buckets[index] = TreeBin([TreeNode(key, self._spread[key], self._order_of(key)) for key in keys])

    def _grow(self) -> None:
        old, bit = self._buckets, self.capacity
        self.capacity *= 2
        self._threshold = self.capacity * 3 // 4
        self._buckets = {}
        for index, bucket in old.items():
            halves: tuple[list[K], list[K]] = ([], [])
            for key in bucket if isinstance(bucket, list) else [node.key for node in bucket]:
                halves[bool(self._spread[key] & bit)].append(key)
            for place, half in zip((index, index + bit), halves, strict=True):
                if not half:
                    continue
                if isinstance(bucket, TreeBin) and len(half) > LIST_UP_TO:
                    # A tree whose keys all move together stays as it is.
                    whole = not (halves[0] and halves[1])
                    nodes = [TreeNode(key, self._spread[key], self._order_of(key)) for key in half]
                    self._buckets[place] = bucket if whole else TreeBin(nodes)
                else:
                    self._buckets[place] = half


class JavaHashSet(_Table[K]):
    """A HashSet made by `new HashSet()` or `new HashSet(capacity)`.

    `hash_of` and `order_of` are for keys of other types than those in `hashes`.
    """

    __slots__ = ()

    @classmethod
    def of(cls, keys: Iterable[K], *, jdk: int = 17) -> "JavaHashSet[K]":
        """Return `new HashSet(collection)` as on that JDK."""
        given = list(keys)
        made = cls(copied_set_capacity(len(given), jdk))
        for key in given:
            made.add(key)
        return made

    def add(self, key: K) -> None:
        """Add a key."""
        if key not in self._spread:
            self._put(key)

    def discard(self, key: K, *, walking: bool = False) -> bool:
        """Remove a key, with `walking` through the iterator; return whether it was in the set."""
        if key not in self._spread:
            return False
        self._remove(key, walking=walking)
        return True


class JavaHashMap(_Table[K], Generic[K, V]):
    """A HashMap made by `new HashMap()` or `new HashMap(capacity)`."""

    __slots__ = ("_values",)

    def __init__(
        self,
        capacity: int | None = None,
        *,
        hash_of: Callable[[K], int] = java_hash,
        order_of: Callable[[K], Any] = comparable,
    ) -> None:
        super().__init__(capacity, hash_of=hash_of, order_of=order_of)
        self._values: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def get(self, key: K) -> V | None:
        """Return the value of a key, or `None`."""
        return self._values.get(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """Return keys and values in Java's iteration order."""
        return ((key, self._values[key]) for key in self)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        new = key not in self._spread
        self._values[key] = value
        if new:
            self._put(key)

    def compute_if_absent(self, key: K, make: Callable[[], V]) -> V:
        """Return the value, computed if absent; `compute` and `merge` have the same order."""
        # The table may grow before the lookup, so a call that finds its key can make it grow.
        self._grow_if_full()
        if key not in self._spread:
            self._values[key] = make()
            self._insert(key, computed=True)
        return self._values[key]

    def remove(self, key: K, *, walking: bool = False) -> V | None:
        """Remove a key, with `walking` through the iterator; return its value."""
        if key not in self._spread:
            return None
        self._remove(key, walking=walking)
        return self._values.pop(key)
