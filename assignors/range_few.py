"""The client-side `range` assignor for groups of which lists are faster than arrays.

It is `range` for members with the same subscription and no racks. The server-side `range` divides
topics in the same way.
"""

from collections.abc import Iterable, Sequence

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order.few import few_strings_in_order
from quorate.assignors.model import Assignment


def assign_few(group: GroupSpec) -> Assignment:
    """Return the assignment of a group with one subscription; racks are ignored."""
    index, first = group.topology.index, group.topology.lists.first
    # The client collects the names in a HashSet, iterates it, and puts the names with partitions
    # into a HashMap.
    names = [*dict.fromkeys(group.listings[int(group.listing_of[group.hash_order[0]])])]
    walked = few_strings_in_order(names)
    known = [name for name in walked if name in index and first[index[name]] < first[index[name] + 1]]
    topics = [index[name] for name in few_strings_in_order(known)]
    return Assignment.from_lists(group.topology, group.member_ids, divided(first, topics, group.sorted_places))


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
        for place, numbers in enumerate(in_order):
            start, at = at, at + share + (place < extra)
            numbers += range(start, at)
    return assigned
