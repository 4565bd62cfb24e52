"""The sticky assignment for equal subscriptions.

With P partitions and n members, each member gets ⌊P/n⌋ or ⌈P/n⌉ partitions; P mod n members get the
larger number ("full" below). Each keeps owned partitions up to that quota, and the rest is dealt
out. The partitions kept, the order of dealing, and the choice of full members follow Kafka's
`ConstrainedAssignmentBuilder` (KIP-54, KIP-881). Its rounds over lists are sorts here, with one
queue per rack where racks match.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.sticky.ownership import Bools, Ownership
from quorate.assignors.sticky.racks import RackView
from quorate.assignors.topology import Ints, concatenated, runs, stable_order


@dataclass(frozen=True, slots=True)
class Dealt:
    """An assignment: `number[i]` is assigned to `member[i]`, each member's partitions in order.

    `transferring`: marks partitions that their previous owner must revoke first.
    """

    member: Ints
    number: Ints
    transferring: Bools


def assign_equal(group: GroupSpec, owned: Ownership, racks: RackView, topics: Ints, *, as_of_3_7: bool) -> Dealt:
    """Assign the partitions of `topics` (ascending by name) to all members.

    Without `as_of_3_7`, members keep the partitions that they list first instead of the lowest, and
    partitions lost because of racks are not `transferring`.
    """
    everything = group.topology.partitions_of(topics)
    members = len(group)
    least, extra = divmod(len(everything), members)
    most = least + (extra > 0)

    # 1. The partitions that members keep.
    claimed_by = np.full(int(group.topology.first[-1]), -1, np.int32)
    member, number = owned.member, owned.number
    claimed_by[number] = member
    rejected = racks.mismatch(member, number)
    if not as_of_3_7:
        claimed_by[number[rejected]] = -1
    if len(owned.contested):
        rejected |= np.isin(number, owned.contested)
    if rejected.any():
        member, number = member[~rejected], number[~rejected]
    if as_of_3_7 and len(number):
        number = _by_partition_and_topic(group, member, number, everything)
    sizes = np.bincount(member, minlength=members)
    full = np.zeros(members, np.bool_)
    if extra:
        in_turn = group.hash_order
        full[in_turn[sizes[in_turn] >= most][:extra]] = True
    over = np.maximum(sizes - np.where(full, most, least), 0)
    if over.any():
        kept = np.ones(len(member), np.bool_)
        kept[runs(np.cumsum(sizes) - over, over)] = False  # the last ones of each member
        member, number = member[kept], number[kept]

    # 2. Unassigned partitions, and the members that take them: `needy` have fewer than `least`,
    #    `ready` have `least` and may get one more.
    taken = np.zeros(len(claimed_by), np.bool_)
    taken[number] = True
    unassigned = everything[~taken[everything]] if len(number) else everything
    if racks.readers is not None:
        few_first = racks.readers[group.topology.replica_racks_of[unassigned]]
        unassigned = unassigned[np.argsort(few_first, kind="stable")]
    by_id = group.id_order
    sizes = sizes[by_id]
    needy = by_id[sizes < least]
    lacking = least - sizes[sizes < least]
    extras_left = extra - int(full.sum())
    ready = by_id[(sizes >= least) & ~full[by_id]] if extras_left else by_id[:0]

    # 3. Deal: within racks first.
    dealt = [(member, number)]
    if racks.aware:
        local = _RackRound(group, needy, lacking, ready, extras_left)
        chosen = local.deal(group.topology.replica_racks_of[unassigned])
        found = chosen >= 0
        dealt.append((chosen[found], unassigned[found]))
        unassigned = unassigned[~found]
        needy, lacking, ready = local.needy, local.lacking, local.ready
    dealt.append((_deal_rounds(needy, lacking, ready, len(unassigned)), unassigned))
    member, number = (concatenated(parts) for parts in zip(*dealt, strict=True))

    transferring = np.zeros(len(number), np.bool_)
    if len(owned.number):
        owner = claimed_by[number]
        transferring = (owner >= 0) & (owner != member)
    if len(owned.contested):
        transferring |= np.isin(number, owned.contested)
    return Dealt(member, number, transferring)


def _by_partition_and_topic(group: GroupSpec, member: Ints, number: Ints, everything: Ints) -> Ints:
    """Sort each member's partitions by partition id, then in the order of `everything`.

    `member` is ascending.
    """
    # In one block: malloc returns several free blocks of this size to the system, which then has to
    # provide their pages again.
    partitions, in_order, owners = np.empty((3, len(everything)), np.int64)
    partition_of = group.topology.partition_of
    np.take(partition_of, everything, out=partitions, mode="clip")
    np.take(everything, stable_order(partitions, int(partition_of.max(initial=0)) + 1), out=in_order, mode="clip")
    owner = np.full(int(group.topology.first[-1]), len(group), np.int64)
    owner[number] = member
    np.take(owner, in_order, out=owners, mode="clip")
    return in_order[stable_order(owners, len(group) + 1)[: len(number)]]


def _deal_rounds(needy: Ints, lacking: Ints, ready: Ints, count: int) -> Ints:
    """Return the members of the next `count` partitions.

    In rounds, each of `needy` gets one partition until it lacks none; then each of `ready` gets
    one. Members that lack none any more are appended to `ready` as they get there.
    """
    rounds = np.arange(lacking.max(initial=0))[:, np.newaxis] < lacking
    in_rounds = np.broadcast_to(needy, rounds.shape)[rounds]
    queue = np.concatenate([ready, needy[np.argsort(lacking, kind="stable")]])
    return concatenated([in_rounds, queue[: count - len(in_rounds)]])


class _RackRound:
    """Assigns partitions to members with a matching rack.

    Kafka iterates `needy` in a circle: the next member with a matching rack gets the partition, and
    the pointer moves past it. If none of `needy` matches, the first match in `ready` gets its
    extra partition.
    """

    def __init__(self, group: GroupSpec, needy: Ints, lacking: Ints, ready: Ints, extras_left: int) -> None:
        self._rack_sets: list[list[int]] = [np.flatnonzero(column).tolist() for column in group.local.T]
        self._rack_of = group.rack_of
        self._needy = needy.tolist()
        self._lacking = lacking.tolist()
        self._extras_left = extras_left
        # Positions in `needy` by rack, ascending; and `ready` as a queue of (position, member) by
        # rack.
        self._waiting: list[list[int]] = [[] for _ in group.racks]
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in group.racks]
        self._rackless: list[tuple[int, int]] = []
        self._queued = 0
        racks = group.rack_of[needy].tolist()
        for place, rack in enumerate(racks):
            if rack >= 0:
                self._waiting[rack].append(place)
        for member in ready.tolist():
            self._enqueue(member)

    def _enqueue(self, member: int) -> None:
        rack = int(self._rack_of[member])
        (self._queues[rack] if rack >= 0 else self._rackless).append((self._queued, member))
        self._queued += 1

    def deal(self, rack_sets: Ints) -> Ints:
        """Return the member of each partition, given the number of its rack set; -1 for none."""
        needy, lacking, waiting, queues = self._needy, self._lacking, self._waiting, self._queues
        members_racks = [[rack for rack in racks if waiting[rack] or queues[rack]] for racks in self._rack_sets]
        end = len(needy)
        pointer = 0
        chosen: list[int] = []
        for rack_set in rack_sets.tolist():
            # The next position from the pointer on, in a circle.
            best, best_rack, best_index = 2 * end, -1, -1
            for rack in members_racks[rack_set]:
                places = waiting[rack]
                if places:
                    index = bisect_left(places, pointer)
                    if index == len(places):
                        index = 0
                        place = places[0] + end
                    else:
                        place = places[index]
                    if place < best:
                        best, best_rack, best_index = place, rack, index
            if best_rack >= 0:
                place = best - end if best >= end else best
                lacking[place] -= 1
                pointer = place + 1
                chosen.append(needy[place])
                if not lacking[place]:
                    del waiting[best_rack][best_index]
                    if self._extras_left:
                        self._enqueue(needy[place])
                continue
            if self._extras_left:
                heads = [queues[rack][0] + (rack,) for rack in members_racks[rack_set] if queues[rack]]
                if heads:
                    _, member, rack = min(heads)
                    queues[rack].popleft()
                    chosen.append(member)
                    self._extras_left -= 1
                    continue
            chosen.append(-1)
        return np.array(chosen, np.int64)

    @property
    def needy(self) -> Ints:
        """Members that still lack partitions."""
        return np.array([one for one, lacks in zip(self._needy, self._lacking, strict=True) if lacks], np.int64)

    @property
    def lacking(self) -> Ints:
        """The number of partitions that each of `needy` lacks."""
        return np.array([lacks for lacks in self._lacking if lacks], np.int64)

    @property
    def ready(self) -> Ints:
        """Members that may still get an extra partition, in queue order."""
        if not self._extras_left:
            return np.empty(0, np.int64)
        left = sorted([*self._rackless, *(one for queue in self._queues for one in queue)])
        return np.array([member for _, member in left], np.int64)
