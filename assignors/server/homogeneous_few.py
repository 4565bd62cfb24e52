"""`uniform` for equal subscriptions, for groups of which lists are faster than arrays.

It returns the same as `homogeneous`, whose arrays take about a millisecond for the smallest group,
and does not need NumPy. It works on `FewMembers`, which is made from a `GroupSpec`, or by the
coordinator from its own group.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from quorate.assignors.errors import AssignorError
from quorate.assignors.java_order import copied_set_capacity, hash_map_capacity, table_size
from quorate.assignors.java_order.few import changed_numbers_in_order, few_numbers_in_order, may_be_crowded
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.topic_lists import TopicLists
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import KafkaVersion

STABLE_SINCE = KafkaVersion(4, 0, 1)
"""KAFKA-18688: members keep their extra partition."""

LEFT_OVER = "partitions would be left over: a partition of the previous target has several owners; give it one"
Read = Mapping[int, Sequence[int]]
"""Topics and their partitions, as a record lists them."""


@dataclass(slots=True)
class FewMembers:
    """The members of a group with their previous targets.

    - `topics`: those of subscriptions and targets; `subscribed`: numbers of the subscribed ones.
    - `order`: numbers of members in HashMap order.
    - `counts[m]`: how many partitions the target of member `m` has; `usable[m]`: how many of
      subscribed topics.
    - `unowned`: numbers of the subscribed topics' partitions without an owner, topic after topic in
      the broker's order; `total`: how many partitions these topics have.
    - `read`: returns a member's target, and how many of its topics were deleted.
    """

    topics: TopicLists
    subscribed: frozenset[int]
    order: Sequence[int]
    counts: Sequence[int]
    usable: Sequence[int]
    unowned: list[int]
    total: int
    read: Callable[[int], tuple[Read, int]]


def assign_few(few: FewMembers, jdk: int, *, stable: bool) -> list[tuple[int, Read]]:
    """Return the members whose target changes, in the order of their records, and their targets.

    Topics and partitions are in record order. Raises `AssignorError`, see
    `homogeneous.assign_homogeneous`.
    """
    order, counts, usable, row = few.order, few.counts, few.usable, few.unowned
    left = len(order)
    least, extra = divmod(few.total, left)
    # The changes of each member: what it keeps, and how many it gets. What members lose follows
    # what had no owner.
    changing: list[tuple[int, _Target, int, bool]] = []
    wanted_by_all = 0
    nothing = _Target(few, None, jdk)
    for member in order:
        has = usable[member]
        share = least
        if not stable:
            if extra:
                share += 1
                extra -= 1
        elif left <= extra:  # each of the last members gets an extra partition
            share += 1
        elif extra and has > least:
            share += 1
            extra -= 1
        left -= 1
        if has == share == counts[member]:
            continue
        wanted = share - has if has < share else 0
        wanted_by_all += wanted
        keeps = min(has, share)
        loses = keeps < counts[member]
        target = _Target(few, member, jdk) if counts[member] else nothing
        if loses:
            row += target.keep(keeps, few.subscribed)
        changing.append((member, target, wanted, loses))
    if len(row) > wanted_by_all:
        raise AssignorError(LEFT_OVER)
    at = 0
    changed: list[tuple[int, Read]] = []
    for member, target, wanted, loses in changing:
        added = row[at : at + wanted]  # fewer if some partitions have several owners
        at += len(added)
        if added or loses:
            changed.append((member, target.with_added(added)))
    return changed


class _Target:
    """The target of one member, from the previous one to the new one.

    The broker reads the previous one from its record (`read`), and changes a copy. `before`: that
    copy, in its order; `kept`: what is left of it; `deleted`: how many topics it had that were
    deleted.
    """

    __slots__ = ("before", "deleted", "jdk", "kept", "read", "topics")

    def __init__(self, few: FewMembers, member: int | None, jdk: int) -> None:
        self.topics = few.topics
        self.jdk = jdk
        self.deleted = 0
        self.read: Read = {}
        self.before: Read = {}
        if member is not None:
            read, self.deleted = few.read(member)
            self.read = read
            self.before = {
                topic: few_numbers_in_order(read[topic], copied_set_capacity(len(read[topic]), jdk))
                for topic in few.topics.ordered(list(read), hash_map_capacity(len(read) + self.deleted))
            }
        self.kept = self.before

    def keep(self, most: int, subscribed: Container[int]) -> list[int]:
        """Keep so many partitions of subscribed topics; return the others of these, in order."""
        lost: list[int] = []
        kept: dict[int, Sequence[int]] = {}
        for topic, partitions in self.before.items():
            if topic not in subscribed:
                continue
            if most:
                kept[topic] = partitions[:most]
            if len(partitions) > most:
                lost += self.topics.numbers({topic: partitions[most:]})
                most = 0
            else:
                most -= len(partitions)
        self.kept = kept
        return lost

    def with_added(self, numbers: Sequence[int]) -> Read:
        """Add partitions; return all in record order."""
        topic_of, partition_of, kept = self.topics.topic_of, self.topics.partition_of, self.kept
        if len(numbers) == 1 and not kept:
            return {topic_of[numbers[0]]: (partition_of[numbers[0]],)}
        added: dict[int, list[int]] = {}
        for number in numbers:
            topic = topic_of[number]
            if topic in added:
                added[topic].append(partition_of[number])
            else:
                added[topic] = [partition_of[number]]
        new = [topic for topic in added if topic not in kept]
        names = [*reversed(new), *kept]
        if len(names) > 1:
            # `computeIfAbsent` grows a full table before the lookup, so a topic that only the last
            # call added is not counted.
            last = topic_of[numbers[-1]] if numbers else -1
            counted = len(names) - (last in added and last not in kept and len(added[last]) == 1)
            names = self._in_order(names, counted, numbers)
        return {topic: self._partitions(topic, added.get(topic, ())) for topic in names}

    def _partitions(self, topic: int, added: Sequence[int]) -> Sequence[int]:
        """Return the partitions of a topic in the order of a set: a copy, or else a new one."""
        kept = self.kept.get(topic)
        if kept is None:
            return changed_numbers_in_order((), (), added)
        if not added and (len(kept) == 1 or len(self.read[topic]) < TREE_FROM):
            return kept  # a table of the same size, in which no bucket is a tree, has the same order
        before = self.before[topic]
        return changed_numbers_in_order(before, kept, added, copied_set_capacity(len(before), self.jdk))

    def _in_order(self, names: list[int], counted: int, numbers: Sequence[int]) -> list[int]:
        """Return topics in the order of the map: new ones (newest first), then kept ones.

        That is the order within a bucket, which a growing table keeps: `computeIfAbsent` inserts at
        its head, `put` at its end. Where a bucket might become a tree, all steps are repeated with
        a `JavaHashMap`. The table grows to hold `counted` topics.
        """
        spread, before = self.topics.spread, self.before
        first = table_size(len(before) + self.deleted)
        if self.deleted:  # they count for the size of the copy
            first = hash_map_capacity(len(before) + self.deleted, first)
        if len(before) + len(names) >= TREE_FROM and may_be_crowded(
            [spread[topic] for topic in {*before, *names}], first
        ):
            return self._step_by_step(first, numbers)
        buckets = hash_map_capacity(len(before), first)
        if numbers:
            buckets = hash_map_capacity(counted, buckets)
        mask = buckets - 1
        return sorted(names, key=lambda topic: spread[topic] & mask)

    def _step_by_step(self, first: int, numbers: Iterable[int]) -> list[int]:
        made = self.topics.map(first)
        for topic in self.before:
            made.put(topic, None)
        for topic in self.before:
            if topic not in self.kept:
                made.remove(topic)
        for number in numbers:
            made.compute_if_absent(self.topics.topic_of[number], lambda: None)
        return list(made)
