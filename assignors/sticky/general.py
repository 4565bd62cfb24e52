"""The sticky assignment for different subscriptions.

Members keep what they can, the subscriber with the fewest gets each other partition, and moves
balance the group. The steps are those of Kafka's `GeneralAssignmentBuilder` (KIP-54, KIP-341,
KIP-881); `quorate.assignors.sticky.balance` has the moves. Members are numbered by the rank of
their id, and partitions by their position in `Plan`.
"""

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.sticky.balance import Balance
from quorate.assignors.sticky.loads import Loads
from quorate.assignors.sticky.ownership import NO_MEMBER, Ownership
from quorate.assignors.sticky.plan import Plan, plan_of
from quorate.assignors.sticky.racks import RackView
from quorate.assignors.topology import Ints


def assign_different(
    group: GroupSpec, owned: Ownership, stale_owner: Ints | None, racks: RackView, topics: Ints
) -> tuple[Ints, Ints]:
    """Assign the partitions of `topics` (ascending by name); return members and partition numbers.

    Each member's partitions are in its order. `stale_owner`: by partition number, the owner in an
    older generation.
    """
    plan = plan_of(group, topics)
    positions = np.empty(int(group.topology.first[-1]), np.int64)
    positions[plan.number] = np.arange(len(plan.number))
    owner = np.full(len(plan.number), NO_MEMBER, np.int64)
    since = np.zeros(len(plan.number), np.int64)  # orders the partitions of a member

    at = positions[owned.number]
    keeps = plan.subscribed[group.subscription_of[owned.member], plan.topic[at]]
    keeps &= ~racks.mismatch(owned.member, owned.number)
    revoked = not keeps.all() or _missing_revoked(group, owned, racks, topics, plan)
    owner[at[keeps]] = plan.rank[owned.member[keeps]]
    since[at[keeps]] = np.flatnonzero(keeps)
    initial = not keeps.any()

    rack = group.rack_of[group.id_order] if racks.aware else np.full(len(group), -1, np.int64)
    loads = Loads(np.bincount(owner[owner >= 0], minlength=len(group)), plan.subscription, rack)

    unassigned = np.flatnonzero(owner < 0)
    clock = len(owned.number)
    if len(unassigned):
        unassigned = unassigned[plan.potential[plan.topic[unassigned]] > 0]
        order = _deal(group, plan, loads, unassigned, owner, racks)
        since[order] = clock + np.arange(len(order))
        clock += len(order)

    former = None
    if stale_owner is not None:
        member = stale_owner[plan.number]
        former = np.where(member >= 0, plan.rank[member], NO_MEMBER)
    Balance(group.topology, plan, loads, owner, since, clock).run(
        former, None if revoked else unassigned, initial=initial
    )
    assigned = np.flatnonzero(owner >= 0)
    order = assigned[np.argsort(since[assigned], kind="stable")]
    return group.id_order[owner[order]], plan.number[order]


def _missing_revoked(group: GroupSpec, owned: Ownership, racks: RackView, topics: Ints, plan: Plan) -> bool:
    """Return whether a member loses a partition that its topic no longer has.

    The cause is a missing subscription or a rack mismatch. Otherwise Kafka lets members keep such
    partitions, and assigns what does not exist.
    """
    if not len(owned.missing_member):
        return False
    index = np.full(len(group.topology.topics), 0, np.int64)
    index[plan.topics] = np.arange(len(topics))
    lost = ~plan.subscribed[group.subscription_of[owned.missing_member], index[owned.missing_topic]]
    if racks.aware:
        lost |= group.rack_of[owned.missing_member] >= 0
    return bool(lost.any())


def _deal(group: GroupSpec, plan: Plan, loads: Loads, unassigned: Ints, owner: Ints, racks: RackView) -> Ints:
    """Assign the positions `unassigned`, local ones first if racks matter.

    Returns them in the order in which they were assigned.
    """
    order: list[Ints] = []
    if racks.aware:
        choices = [(*np.flatnonzero(column).tolist(), -1) for column in group.local.T]
        set_of = group.topology.replica_racks_of[plan.number]
        for topic, places in _by_topic(plan, unassigned):
            by_rack: dict[int, list[int]] = {}
            for number in loads.classes(plan.subscriptions(topic)):
                by_rack.setdefault(loads.rack_of[number], []).append(number)
            chosen = np.array(loads.deal_local(by_rack, (choices[one] for one in set_of[places].tolist())), np.int64)
            owner[places] = chosen
            order.append(places[chosen >= 0])
        unassigned = unassigned[owner[unassigned] < 0]
    for topic, places in _by_topic(plan, unassigned):
        owner[places] = loads.deal(loads.classes(plan.subscriptions(topic)), len(places))
        order.append(places)
    return np.concatenate([np.empty(0, np.int64), *order])


def _by_topic(plan: Plan, positions: Ints) -> list[tuple[int, Ints]]:
    """Group positions by topic, ascending."""
    topics = plan.topic[positions]
    cuts = np.flatnonzero(np.diff(topics)) + 1
    return [
        (int(topics[start]), part)
        for start, part in zip([0, *cuts.tolist()], np.split(positions, cuts), strict=True)
        if len(part)
    ]
