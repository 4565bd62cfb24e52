"""Balances members with different subscriptions by moving partitions.

Before each partition Kafka tests whether the group is balanced, which takes all members times all
partitions, and then compares all potential owners of that partition. Both are equivalent to one
rule: a partition moves if its owner has at least two partitions more than the subscriber of the
topic with the fewest, and it moves to that subscriber. (Racks trigger a move in Kafka, but neither
prevent one nor choose the destination.) So only topics are visited where the owner with the most
and the subscriber with the fewest differ that much. A balanced group has no such topic.

The equivalence fails in one case: an owner of an older generation that no longer subscribes to the
topic. Kafka moves partitions to it all the same. `_KafkaPasses` then follows Kafka step by step. If
the result is not valid, such owners are ignored and the balancing is repeated.
"""

from collections.abc import Callable

import numpy as np

from quorate.assignors.sticky.loads import Least, Loads
from quorate.assignors.sticky.movements import Movements
from quorate.assignors.sticky.ownership import NO_MEMBER, Bools
from quorate.assignors.sticky.plan import Plan
from quorate.assignors.topology import Ints, Topology

MANY = 1000
"""Maximum number of passes.

Kafka has no limit, and moves back may not improve balance, but no input is known that takes ten.
"""


class Balance:
    """Balances `owner` (member rank by position) in place, and with it `loads` and `since`.

    New values of `since` start from `clock`.
    """

    def __init__(self, topology: Topology, plan: Plan, loads: Loads, owner: Ints, since: Ints, clock: int) -> None:
        self._topology = topology
        self._plan = plan
        self._loads = loads
        self._owner = owner
        self._since = since
        self._clock = clock
        self._former: Ints | None = None
        self._movements: dict[int, Movements] = {}
        self._shared = np.greater_equal(plan.potential, 2)  # topics with more than one potential owner

    def run(self, former: Ints | None, unassigned: Ints | None, *, initial: bool) -> None:
        """Balance the group.

        `former`: the owner of each partition in an older generation, which gets it back first if
        that improves balance. `unassigned`: positions without an owner before, which are moved
        first; `None` to move all alike. Unless `initial`, all moves are undone if the group is not
        better balanced in the end.
        """
        plan, loads = self._plan, self._loads
        movable: Bools = self._shared[plan.topic]
        shared_owners = np.bincount(self._owner[movable], minlength=loads.members)
        # Members that have all partitions they can have, and share none, are left out. Kafka fails
        # with a NullPointerException if such a member owned a partition in an older generation; it
        # could not get it back anyway.
        capacity = np.matmul(plan.subscribed, np.diff(plan.first), dtype=np.int64)
        taking_part = (loads.counts < capacity[plan.subscription]) | (shared_owners > 0)
        known: Ints | None = None
        unsubscribed_former = False
        if former is not None:
            former = np.where(movable & (former >= 0) & taking_part[former], former, NO_MEMBER)
            unsubscribed = (former >= 0) & ~plan.subscribed[plan.subscription[former], plan.topic]
            known, unsubscribed_former = np.where(unsubscribed, NO_MEMBER, former), bool(unsubscribed.any())
        before = self._owner.copy(), self._since.copy(), loads.counts.copy()
        self._former = former
        if unsubscribed_former:
            self._balance(
                _KafkaPasses(self, taking_part, capacity).passes,
                movable,
                unassigned,
                before,
                taking_part,
                initial=initial,
            )
            if self._valid():
                return
            self._restore(before)
            self._movements.clear()
            self._former = known
        self._balance(self._passes, movable, unassigned, before, taking_part, initial=initial)

    def _balance(
        self,
        passes: Callable[[Bools], bool],
        movable: Bools,
        unassigned: Ints | None,
        before: tuple[Ints, Ints, Ints],
        taking_part: Bools,
        *,
        initial: bool,
    ) -> None:
        if unassigned is not None:
            new = np.zeros(len(movable), np.bool_)
            new[unassigned] = True
            passes(new & movable)
        changed = passes(movable)
        if not initial and changed:
            was, now = _score(before[2][taking_part]), _score(self._loads.counts[taking_part])
            if now >= was:
                self._restore(before)

    def _restore(self, before: tuple[Ints, Ints, Ints]) -> None:
        owner, since, counts = before
        self._owner[:] = owner
        self._since[:] = since
        self._loads.reset(counts)

    def _valid(self) -> bool:
        plan = self._plan
        has = self._owner >= 0
        return bool(plan.subscribed[plan.subscription[self._owner[has]], plan.topic[has]].all())

    # ---- moving

    def _passes(self, among: Bools) -> bool:
        """Pass over the positions `among` until nothing moves; return whether anything moved."""
        passes = 0
        while passes < MANY and self._pass(among):
            passes += 1
        return passes > 0

    def _pass(self, among: Bools) -> bool:
        plan = self._plan
        uneven = self._uneven(among)
        changed = False
        for topic in range(len(plan.topics)):
            if uneven[topic]:
                touched = self._level(topic, among)
                changed = changed or bool(touched)
                for subscription in touched:  # topics that come later may have become uneven
                    uneven |= plan.subscribed[subscription] & self._shared
        return changed

    def _uneven(self, among: Bools) -> Bools:
        """Mark the topics where a move among the positions `among` improves balance."""
        plan, counts = self._plan, self._loads.counts
        order = np.argsort(plan.subscription, kind="stable")
        fewest = np.minimum.reduceat(
            counts[order], np.searchsorted(plan.subscription[order], np.arange(len(plan.subscribed)))
        )
        ascending = np.argsort(fewest, kind="stable")
        low = fewest[ascending[plan.subscribed[ascending].argmax(axis=0)]]
        most = np.maximum.reduceat(np.where(among, counts[self._owner], -1), plan.first[:-1])
        far_apart: Bools = most > low + 1
        return self._shared & far_apart

    def _level(self, topic: int, among: Bools) -> set[int]:
        """Move partitions of a topic in one pass over the positions `among`.

        Returns the subscriptions of members whose counts changed.
        """
        plan, loads, former = self._plan, self._loads, self._former
        members, count = loads.members, loads.count
        start, end = int(plan.first[topic]), int(plan.first[topic + 1])
        least = Least(loads, loads.classes(plan.subscriptions(topic)))
        touched: set[int] = set()
        position = start
        while position < end:
            low = least.top() // members
            # Counts of owners fall and the lowest count rises, so no other owner needs a check,
            # except after one of the irregular moves below.
            wanted = among[position:end] & (loads.counts[self._owner[position:end]] > low + 1)
            places = (np.flatnonzero(wanted) + position).tolist()
            position = end
            for place in places:
                owner = int(self._owner[place])
                top = least.top()
                low = top // members
                if count[owner] <= low + 1:
                    continue
                to = top % members
                if former is not None and former[place] >= 0 and count[owner] > count[former[place]] + 1:
                    to = int(former[place])
                regular = count[to] == low
                moved, origin = self.move(topic, place, to)
                least.changed(origin)
                least.changed(to)
                touched |= {int(plan.subscription[origin]), int(plan.subscription[to])}
                if moved != place or not regular:
                    position = place + 1
                    break
        return touched

    def move(self, topic: int, position: int, to: int) -> tuple[int, int]:
        """Move a partition to a member, or instead one of the topic that came from that member.

        Returns the position moved and its previous owner.
        """
        plan = self._plan
        start = int(plan.first[topic])
        movements = self._movements.get(topic)
        if movements is None:
            known = self._topology
            partitions = known.partition_of[plan.number[start : int(plan.first[topic + 1])]]
            movements = self._movements[topic] = Movements(known.topics[int(plan.topics[topic])].name, partitions)
        position = start + movements.instead(position - start, int(self._owner[position]), to)
        origin = int(self._owner[position])
        movements.record(position - start, origin, to)
        self._loads.change(origin, -1)
        self._loads.change(to, 1)
        self._owner[position] = to
        self._since[position] = self._clock
        self._clock += 1
        return position, origin

    # ---- used by `_KafkaPasses`

    @property
    def state(self) -> tuple[Plan, Loads, Ints, Ints | None]:
        """Plan, counts, owners and former owners."""
        return self._plan, self._loads, self._owner, self._former


class _KafkaPasses:
    """Kafka's passes step by step: over all positions, with a balance test before each."""

    def __init__(self, balance: Balance, taking_part: Bools, capacity: Ints) -> None:
        self._balance = balance
        self._taking_part = taking_part
        self._capacity = capacity

    def passes(self, among: Bools) -> bool:
        plan, loads, owners, former = self._balance.state
        assert former is not None
        positions = np.flatnonzero(among).tolist()
        changed = False
        for _ in range(MANY):
            modified = False
            balanced = self._balanced()
            topic, least = -1, None
            for position in positions:
                if balanced:
                    break
                if least is None or topic != plan.topic[position]:
                    topic = int(plan.topic[position])
                    least = Least(loads, loads.classes(plan.subscriptions(topic)))
                owner, before = int(owners[position]), int(former[position])
                top = least.top()
                if before >= 0 and loads.count[owner] > loads.count[before] + 1:
                    to = before
                elif loads.count[owner] > top // loads.members + 1:
                    to = top % loads.members
                else:
                    continue
                _, origin = self._balance.move(topic, position, to)
                least.changed(origin)
                least.changed(to)
                modified = changed = True
                balanced = self._balanced()
            if not modified:
                break
        return changed

    def _balanced(self) -> bool:
        plan, loads, owners, _ = self._balance.state
        counts = loads.counts
        present = counts[self._taking_part]
        if not len(present) or present.min() >= present.max() - 1:
            return True
        # A member with all partitions that it can have is not compared, even if it lacks some of
        # the positions tested here.
        compared = self._taking_part & (counts != self._capacity[plan.subscription])
        fewest = np.full(len(plan.subscribed), np.iinfo(np.int64).max - 1)
        np.minimum.at(fewest, plan.subscription[compared], counts[compared])
        most = np.maximum.reduceat(np.where(owners >= 0, counts[owners], -1), plan.first[:-1])
        return not (plan.subscribed & (most > fewest[:, None] + 1)).any()


def _score(counts: Ints) -> int:
    """Return the sum of differences between all pairs; lower is more balanced.

    It has 32 bits, as in Java, and overflows for large groups.
    """
    size = len(counts)
    total = int((np.sort(counts) * (2 * np.arange(size) - size + 1)).sum())
    return (total + 0x80000000) % 0x100000000 - 0x80000000
