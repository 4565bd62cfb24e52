"""The sticky assignment for equal subscriptions, for groups of which lists are faster than arrays.

It is `constrained` without racks, and without partitions that several members claim.
"""

from collections.abc import Collection, Sequence
from itertools import chain, filterfalse, repeat

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import in_java_order
from quorate.assignors.model import Assignment
from quorate.codecs.sticky_user_data import decode_sticky_user_data


def owned_in_user_data(group: GroupSpec) -> Sequence[list[int]]:
    """Return the partitions that the members of `sticky` claim, and that exist.

    See `ownership.sticky_claims`.
    """
    if not any(group.user_data):
        return group.owned_lists
    ranges, number_of = group.topology.ranges, group.topology.number
    owned: list[list[int]] = []
    for member, data in zip(group.members.values(), group.user_data, strict=True):
        if not data:
            owned.append(group.numbers_of(member.owned) if member.owned else [])
            continue
        entries = decode_sticky_user_data(data).previous_assignment
        try:
            mine = [
                ranges[entry.topic][partition] for entry in entries for partition in entry.partitions if partition >= 0
            ]
        except (KeyError, IndexError):  # a topic or partition that does not exist, or a topic with gaps
            mine = [number_of(entry.topic, partition) for entry in entries for partition in entry.partitions]
        owned.append(mine)
    return owned


def assign_few(group: GroupSpec, owned: Sequence[list[int]], *, as_of_3_7: bool, hands_over: bool) -> Assignment | None:
    """Return the assignment; `None` if a partition is claimed twice.

    `owned`: the partitions that each member claims, -1 for those that do not exist. `hands_over`:
    partitions that move are assigned to no member, see `CooperativeStickyAssignor`. `as_of_3_7`:
    see `constrained.assign_equal`.
    """
    topology, members = group.topology, len(group)
    lists, index, by_id = topology.lists, topology.index, group.id_places
    first = lists.first
    names: Collection[str] = group.subscriptions[0].key
    if len(names) > 1:
        names = in_java_order(names)
    topics = [index[name] for name in names if name in index]
    everything: list[int] = []
    for topic in topics:
        everything += range(first[topic], first[topic + 1])
    least, extra = divmod(len(everything), members)
    most = least + (extra > 0)
    assigned: list[list[int]]
    if not any(owned):  # all are dealt in turn
        assigned = [[]] * members
        for place, member in enumerate(by_id):
            assigned[member] = everything[place::members]
        return Assignment.from_lists(topology, group.member_ids, assigned)

    # 1. The partitions that members keep: the lowest ones, of all topics.
    kept = owned
    taken = {*chain.from_iterable(owned)}
    if len(everything) < topology.partition_count or -1 in taken:
        exists = set(everything)
        kept = [[*filter(exists.__contains__, numbers)] for numbers in owned]
        taken &= exists
    sizes = list(map(len, kept))
    if len(taken) < sum(sizes):
        return None
    if as_of_3_7:
        place_of = lists.places_by_partition(topics)
        kept = [sorted(numbers, key=place_of.__getitem__) if len(numbers) > 1 else numbers for numbers in kept]
    extras_left = extra
    full: set[int] = set()
    if extra and taken:
        for member in group.hash_places:
            if sizes[member] >= most and extras_left:
                full.add(member)
                extras_left -= 1
    assigned = []
    moving: dict[int, int] = {}
    for member, numbers in enumerate(kept):
        share = most if member in full else least
        assigned.append(numbers[:share])
        if sizes[member] > share:
            given = numbers[share:]
            taken.difference_update(given)
            if hands_over:
                moving.update(zip(given, repeat(member)))

    # 2. Unassigned partitions, and the members that take them: `needy` have fewer than `least`,
    #    `ready` have `least` and may get one more.
    unassigned = [*filterfalse(taken.__contains__, everything)]
    needy = [member for member in by_id if sizes[member] < least]
    ready = [member for member in by_id if sizes[member] >= least and member not in full] if extras_left else []

    # 3. Deal in rounds, as many at once as the fullest member needs. Members that need no more are
    #    appended to `ready`.
    at = 0
    while needy:
        rounds, width = least - max(map(sizes.__getitem__, needy)), len(needy)
        end = at + rounds * width
        for place, member in enumerate(needy, at):
            given = unassigned[place:end:width]
            if moving:
                given = [number for number in given if moving.get(number, member) == member]
            assigned[member] += given
            sizes[member] += rounds
        at = end
        ready += [member for member in needy if sizes[member] == least]
        needy = [member for member in needy if sizes[member] < least]
    for member, number in zip(ready, unassigned[at:], strict=False):
        if moving.get(number, member) == member:
            assigned[member].append(number)
    return Assignment.from_lists(topology, group.member_ids, assigned)
