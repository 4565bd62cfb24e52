"""The client-side `range` assignor for groups of which lists are faster than arrays.

It is `range` for members with the same subscription and no racks.
"""

from collections.abc import Sequence

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order.few import few_strings_in_order
from quorate.assignors.model import Assignment


def assign_few(group: GroupSpec) -> Assignment:
    """Return the assignment of a group with one subscription; racks are ignored."""
    topology = group.topology
    index, first = topology.index, topology.lists.first
    members = group.sorted_places
    # The client collects the names in a HashSet, iterates it, and puts the names with partitions
    # into a HashMap.
    names = [*dict.fromkeys(group.listings[int(group.listing_of[group.hash_order[0]])])]
    walked = few_strings_in_order(names)
    known = [name for name in walked if name in index and first[index[name]] < first[index[name] + 1]]
    assigned: list[list[int]] = [[] for _ in members]
    shares: dict[int, list[tuple[list[int], int, int]]] = {}
    for name in few_strings_in_order(known):
        at, end = first[index[name]], first[index[name] + 1]
        if end - at not in shares:
            shares[end - at] = _shares([assigned[member] for member in members], end - at)
        for numbers, start, stop in shares[end - at]:
            numbers += range(at + start, at + stop)
    return Assignment.from_lists(topology, group.member_ids, assigned)


def _shares(members: Sequence[list[int]], count: int) -> list[tuple[list[int], int, int]]:
    """Divide `count` partitions: return the members that get some, with start and end of each."""
    share, extra = divmod(count, len(members))
    starts = [place * share + min(place, extra) for place in range(len(members) + 1)]
    return [one for one in zip(members, starts, starts[1:], strict=False) if one[1] < one[2]]
