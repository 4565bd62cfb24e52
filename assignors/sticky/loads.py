"""Partition counts of members, and the subscriber of a topic with the fewest.

Kafka keeps all members in one TreeSet by (count, id) and iterates it to the first subscriber.
Members with the same subscription (and the same rack, where racks matter) differ only in count and
id. So each such class has its own heap here, and a topic compares the tops of its classes.

Members are numbered by the rank of their id. Heap entries are `count * members + rank`.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from quorate.assignors.topology import Ints


class Loads:
    """Counts of members, given the subscription and rack (-1 for none) of each.

    A class's heap is created on first use.
    """

    def __init__(self, counts: Ints, subscription: Ints, rack: Ints) -> None:
        self.members = len(counts)
        self.counts = counts
        self.count: list[int] = counts.tolist()
        """The same as a list, for faster access to single counts."""
        racks = int(rack.max()) + 2
        pairs, class_of = np.unique(subscription * racks + rack + 1, return_inverse=True)
        self.class_of: list[int] = class_of.tolist()
        self.rack_of: list[int] = (pairs % racks - 1).tolist()
        """The rack of each class."""
        self._of_subscription: dict[int, list[int]] = {}
        for number, index in enumerate((pairs // racks).tolist()):
            self._of_subscription.setdefault(index, []).append(number)
        order = np.argsort(class_of, kind="stable")
        self._in_class: list[Ints] = np.split(order, np.cumsum(np.bincount(class_of))[:-1])
        self._heaps: dict[int, list[int]] = {}

    def classes(self, subscriptions: Iterable[int]) -> list[int]:
        """Return the classes of members with one of these subscriptions."""
        return [number for index in subscriptions for number in self._of_subscription[index]]

    def heap(self, number: int) -> list[int]:
        """Return the heap of a class; only its first entry is guaranteed to be up to date."""
        heap = self._heaps.get(number)
        if heap is None:
            count, members = self.count, self.members
            heap = [count[rank] * members + rank for rank in self._in_class[number].tolist()]
            heapify(heap)
            self._heaps[number] = heap
        else:
            self.refresh(heap)
        return heap

    def refresh(self, heap: list[int]) -> None:
        """Remove outdated entries from the top."""
        count, members = self.count, self.members
        while count[heap[0] % members] != heap[0] // members:
            heappop(heap)

    def change(self, rank: int, by: int) -> None:
        """Change the count of a member."""
        self.count[rank] += by
        self.counts[rank] += by
        heap = self._heaps.get(self.class_of[rank])
        if heap is not None:
            heappush(heap, self.count[rank] * self.members + rank)

    def reset(self, counts: Ints) -> None:
        """Set all counts."""
        self.counts[:] = counts
        self.count[:] = counts.tolist()
        self._heaps.clear()

    def deal(self, classes: list[int], partitions: int) -> list[int]:
        """Return the members of `partitions`, in turn: each goes to the member with the fewest."""
        members, count = self.members, self.count
        chosen: list[int] = []
        if len(classes) == 1:
            heap = self.heap(classes[0])
            for _ in range(partitions):
                top = heap[0]
                rank = top % members
                chosen.append(rank)
                count[rank] += 1
                heapreplace(heap, top + members)
        else:
            merged = Dealer(self, classes)
            chosen = [merged.take() for _ in range(partitions)]
        self.counts[chosen] = [count[rank] for rank in chosen]
        return chosen

    def deal_local(self, by_rack: dict[int, list[int]], choices: Iterable[tuple[int, ...]]) -> list[int]:
        """Return the members of partitions within racks, in turn; -1 without a candidate.

        `by_rack`: the classes of each rack; `choices`: for each partition the racks of members that
        may get it.
        """
        dealers = {rack: Dealer(self, classes) for rack, classes in by_rack.items()}
        chosen: list[int] = []
        for racks in choices:
            able = [dealers[rack] for rack in racks if rack in dealers]
            if not able:
                chosen.append(-1)
            elif len(able) == 1:
                chosen.append(able[0].take())
            else:
                chosen.append(min(able, key=Dealer.top).take())
        changed = [rank for rank in chosen if rank >= 0]
        self.counts[changed] = [self.count[rank] for rank in changed]
        return chosen


class Dealer:
    """Assigns to the member of some classes with the fewest partitions.

    No other counts may change meanwhile.
    """

    __slots__ = ("_heaps", "_loads", "_tops")

    def __init__(self, loads: Loads, classes: list[int]) -> None:
        self._loads = loads
        self._heaps = {number: loads.heap(number) for number in classes}
        self._tops = [heap[0] for heap in self._heaps.values()]
        heapify(self._tops)

    def top(self) -> int:
        """Return count and rank of the next member."""
        return self._tops[0]

    def take(self) -> int:
        """Return the member that gets the next partition."""
        loads = self._loads
        top = self._tops[0]
        rank = top % loads.members
        loads.count[rank] += 1
        heap = self._heaps[loads.class_of[rank]]
        heapreplace(heap, top + loads.members)
        loads.refresh(heap)
        heapreplace(self._tops, heap[0])
        return rank


class Least:
    """The member of some classes with the fewest partitions, while counts of members change."""

    __slots__ = ("_classes", "_loads", "_only", "_tops")

    def __init__(self, loads: Loads, classes: list[int]) -> None:
        self._loads = loads
        self._classes = frozenset(classes)
        self._only = classes[0] if len(classes) == 1 else None
        self._tops = [loads.heap(number)[0] for number in classes]
        heapify(self._tops)

    def top(self) -> int:
        """Return count and rank of that member."""
        if self._only is not None:
            return self._loads.heap(self._only)[0]
        self._loads.refresh(self._tops)
        return self._tops[0]

    def changed(self, rank: int) -> None:
        """Update after the count of a member changed."""
        number = self._loads.class_of[rank]
        if self._only is None and number in self._classes:
            heappush(self._tops, self._loads.heap(number)[0])
