"""Java's PriorityQueue of numbered elements, which decides ties by its array of elements."""

from collections.abc import Iterable


class JavaPriorityQueue:
    """A queue of elements by priority, least first.

    `heapq` has another order of equal priorities: it prefers the right one of two equal children.
    """

    __slots__ = ("_elements", "_priorities")

    def __init__(self, elements: Iterable[tuple[float, int]] = ()) -> None:
        self._priorities: list[float] = []
        self._elements: list[int] = []
        for priority, element in elements:
            self.add(priority, element)

    def __bool__(self) -> bool:
        return bool(self._elements)

    def add(self, priority: float, element: int) -> None:
        """Insert an element."""
        priorities, elements = self._priorities, self._elements
        place = len(elements)
        priorities.append(priority)
        elements.append(element)
        while place:
            parent = (place - 1) >> 1
            above = priorities[parent]
            if priority >= above:
                break
            priorities[place] = above
            elements[place] = elements[parent]
            place = parent
        priorities[place] = priority
        elements[place] = element

    def poll(self) -> int:
        """Remove and return the first element."""
        priorities, elements = self._priorities, self._elements
        first = elements[0]
        priority, element = priorities.pop(), elements.pop()
        size = len(elements)
        if not size:
            return first
        place, half = 0, size >> 1
        while place < half:
            child = 2 * place + 1
            least = priorities[child]
            right = child + 1
            if right < size and least > priorities[right]:
                child, least = right, priorities[right]
            if priority <= least:
                break
            priorities[place] = least
            elements[place] = elements[child]
            place = child
        priorities[place] = priority
        elements[place] = element
        return first
