"""The sticky assignment for equal subscriptions, for groups of which lists are faster than arrays.

It is `constrained` without racks, and without partitions that several members claim.
"""

from collections.abc import Sequence

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import string_places
from quorate.assignors.model import Assignment
from quorate.codecs.sticky_user_data import decode_sticky_user_data


def owned_in_user_data(group: GroupSpec) -> list[list[int]]:
    """Return the partitions that the members of `sticky` claim, and that exist.

    See `ownership.sticky_claims`.
    """
    owned = list(group.owned_lists)
    ranges, number_of = group.topology.ranges, group.topology.number
    for member, data in enumerate(group.user_data):
        if not data:
            continue
        owned[member] = mine = []
        for entry in decode_sticky_user_data(data).previous_assignment:
            topic = entry.topic
            numbers = ranges.get(topic)
            if numbers is None:
                mine += [number_of(topic, partition) for partition in entry.partitions]
            else:
                count = len(numbers)
                mine += [numbers[partition] for partition in entry.partitions if 0 <= partition < count]
    return owned


def assign_few(group: GroupSpec, owned: Sequence[list[int]], *, as_of_3_7: bool, hands_over: bool) -> Assignment | None:
    """Return the assignment; `None` if a partition is claimed twice.

    `owned`: the partitions that each member claims, -1 for those that do not exist. `hands_over`:
    partitions that move are assigned to no member, see `CooperativeStickyAssignor`. `as_of_3_7`:
    see `constrained.assign_equal`.
    """
    topology, members = group.topology, len(group)
    lists = topology.lists
    first, partition_of = lists.first, lists.partition_of
    names = [topology.topics[topic].name for topic in group.subscriptions[0].topics.tolist()]
    topics = [topology.index[names[place]] for place in string_places(names)]
    everything = [number for topic in topics for number in range(first[topic], first[topic + 1])]
    least, extra = divmod(len(everything), members)
    most = least + (extra > 0)

    # 1. The partitions that members keep.
    claimed: dict[int, int] = {}
    claims = 0
    kept: list[list[int]] = []
    if as_of_3_7 and any(owned):  # they keep the lowest ones, of all topics
        places = {number: place for place, number in enumerate(sorted(everything, key=partition_of.__getitem__))}
    else:
        places = dict.fromkeys(everything, 0)
    for member, numbers in enumerate(owned):
        if numbers:
            if min(numbers) < 0 or len(topics) < len(topology):
                numbers = [number for number in numbers if number in places]
            claimed.update(dict.fromkeys(numbers, member))
            claims += len(numbers)
            if as_of_3_7 and len(numbers) > 1:
                numbers = sorted(numbers, key=places.__getitem__)
        kept.append(numbers)
    if len(claimed) < claims:
        return None
    sizes = list(map(len, kept))
    extras_left = extra
    full: set[int] = set()
    if extra and claims:
        for member in group.hash_order.tolist():
            if sizes[member] >= most and extras_left:
                full.add(member)
                extras_left -= 1
    assigned = [numbers[: most if member in full else least] for member, numbers in enumerate(kept)]

    # 2. Unassigned partitions, and the members that take them: `needy` have fewer than `least`,
    #    `ready` have `least` and may get one more.
    taken = {number for numbers in assigned for number in numbers}
    unassigned = [number for number in everything if number not in taken] if taken else everything
    by_id = group.id_places
    needy = [member for member in by_id if sizes[member] < least]
    ready = [member for member in by_id if sizes[member] >= least and member not in full] if extras_left else []

    # 3. Deal in rounds. A member that lacks none any more is appended to `ready`.
    at = 0
    while needy:
        for member in needy:
            number = unassigned[at]
            at += 1
            sizes[member] += 1
            if not hands_over or claimed.get(number, member) == member:
                assigned[member].append(number)
        ready += [member for member in needy if sizes[member] == least]
        needy = [member for member in needy if sizes[member] < least]
    for member, number in zip(ready, unassigned[at:], strict=False):
        if not hands_over or claimed.get(number, member) == member:
            assigned[member].append(number)
    return Assignment.from_lists(topology, group.member_ids, assigned)
