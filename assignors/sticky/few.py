"""The sticky assignment for equal subscriptions, for groups of which lists are faster than arrays.

It is `constrained` without racks, and without partitions that several members claim.
"""

from collections.abc import Sequence
from itertools import chain, filterfalse

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import in_java_order
from quorate.assignors.model import Assignment
from quorate.codecs.sticky_user_data import decode_sticky_user_data


def owned_in_user_data(group: GroupSpec) -> list[list[int]]:
    """Return the partitions that the members of `sticky` claim, and that exist.

    See `ownership.sticky_claims`.
    """
    owned = list(group.owned_lists)
    if not any(group.user_data):
        return owned
    ranges, number_of = group.topology.ranges, group.topology.number
    for member, data in enumerate(group.user_data):
        if not data:
            continue
        owned[member] = mine = []
        for entry in decode_sticky_user_data(data).previous_assignment:
            numbers = ranges.get(entry.topic)
            if numbers is None:
                mine += [number_of(entry.topic, partition) for partition in entry.partitions]
                continue
            start, end = numbers.start, numbers.stop
            for partition in entry.partitions:  # often one: no time for a comprehension
                if 0 <= partition < end - start:
                    mine.append(start + partition)
    return owned


def assign_few(group: GroupSpec, owned: Sequence[list[int]], *, as_of_3_7: bool, hands_over: bool) -> Assignment | None:
    """Return the assignment; `None` if a partition is claimed twice.

    `owned`: the partitions that each member claims, -1 for those that do not exist. `hands_over`:
    partitions that move are assigned to no member, see `CooperativeStickyAssignor`. `as_of_3_7`:
    see `constrained.assign_equal`.
    """
    topology, members = group.topology, len(group)
    lists, index = topology.lists, topology.index
    first = lists.first
    everything: list[int] = []
    for name in in_java_order(name for name in group.subscriptions[0].key if name in index):
        topic = index[name]
        everything += range(first[topic], first[topic + 1])
    least, extra = divmod(len(everything), members)
    most = least + (extra > 0)

    # 1. The partitions that members keep: the lowest ones, of all topics.
    kept = owned
    claims = 0
    if any(owned):
        ascending = sorted(everything, key=lists.partition_of.__getitem__) if as_of_3_7 else everything
        places = dict(zip(ascending, range(len(ascending)), strict=True))
        claimed = {*chain.from_iterable(owned)}
        if not claimed <= places.keys():
            kept = [[*filter(places.__contains__, numbers)] for numbers in owned]
            claimed &= places.keys()
        claims = sum(map(len, kept))
        if len(claimed) < claims:
            return None
        if as_of_3_7:
            kept = [sorted(numbers, key=places.__getitem__) if len(numbers) > 1 else numbers for numbers in kept]
    sizes = list(map(len, kept))
    extras_left = extra
    full: set[int] = set()
    if extra and claims:
        for member in group.hash_order.tolist():
            if sizes[member] >= most and extras_left:
                full.add(member)
                extras_left -= 1
    assigned = [numbers[: most if member in full else least] for member, numbers in enumerate(kept)]
    moving: dict[int, int] = {}
    if hands_over and claims:
        moving = {number: member for member, numbers in enumerate(kept) for number in numbers[len(assigned[member]) :]}

    # 2. Unassigned partitions, and the members that take them: `needy` have fewer than `least`,
    #    `ready` have `least` and may get one more.
    taken = {*chain.from_iterable(assigned)}
    unassigned = [*filterfalse(taken.__contains__, everything)] if taken else everything
    by_id = group.id_places
    needy = [member for member in by_id if sizes[member] < least]
    ready = [member for member in by_id if sizes[member] >= least and member not in full] if extras_left else []

    # 3. Deal in rounds, as many at once as the fullest member needs. Members that need no more are
    #    appended to `ready`.
    at = 0
    while needy:
        rounds, width = least - max(map(sizes.__getitem__, needy)), len(needy)
        end = at + rounds * width
        for place, member in enumerate(needy, at):
            assigned[member] += unassigned[place:end:width]
            sizes[member] += rounds
        at = end
        ready += [member for member in needy if sizes[member] == least]
        needy = [member for member in needy if sizes[member] < least]
    for member, number in zip(ready, unassigned[at:], strict=False):
        assigned[member].append(number)
    if moving:
        assigned = [
            [number for number in numbers if moving.get(number, member) == member]
            for member, numbers in enumerate(assigned)
        ]
    return Assignment.from_lists(topology, group.member_ids, assigned)
