"""The client-side `range` assignor for groups of which lists are faster than arrays.

It is `range` for members with the same subscription and no racks. The server-side `range` divides
topics in the same way.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order.few import few_strings_in_order
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.model import Assignment


def assign_few(group: GroupSpec) -> Assignment:
    """Return the assignment of a group with one subscription; racks are ignored."""
    topology, listings = group.topology, group.listings
    index, first = topology.index, topology.lists.first
    # The client collects the names in a HashSet, iterates it, and puts the names with partitions
    # into a HashMap.
    names: Sequence[str] = listings[0 if len(listings) == 1 else group.listing_numbers[group.hash_places[0]]]
    if len(names) > 1:
        walked = few_strings_in_order([*dict.fromkeys(names)])
        names = [name for name in walked if name in index and first[index[name]] < first[index[name] + 1]]
        if len(names) < len(walked) or len(names) > TREE_FROM:  # else the map has the order of the set
            names = few_strings_in_order(names)
    topics = [index[name] for name in names if name in index]
    return Assignment.from_lists(topology, group.member_ids, divided(first, topics, group.sorted_places))


def divided(first: Sequence[int], topics: Iterable[int], members: Sequence[int]) -> list[list[int]]:
    """Divide each topic among all members; return the partitions of each member number.

    `first`: of `TopicLists`; `members`: their numbers, in the order in which they get ranges.
    """
    assigned: list[list[int]] = [[] for _ in members]
    in_order = [assigned[member] for member in members]
    count = len(members)
    for topic in topics:
        at, end = first[topic], first[topic + 1]
        if end - at <= count:
            for numbers, number in zip(in_order, range(at, end), strict=False):
                numbers.append(number)
            continue
        share, extra = divmod(end - at, count)
        longer = at + extra * (share + 1)
        parts: Iterable[Sequence[int]] = zip(*[iter(range(longer, end))] * share, strict=True)
        if extra:
            parts = chain(zip(*[iter(range(at, longer))] * (share + 1), strict=True), parts)
        for numbers, part in zip(in_order, parts, strict=True):
            numbers += part
    return assigned
