"""`uniform` for equal subscriptions, for groups of which lists are faster than arrays.

It returns the same as `homogeneous`, whose arrays take about a millisecond for the smallest group,
and does not need NumPy. It works on `FewMembers`, which is made from a `GroupSpec`, or by the
coordinator from its own group. A target is one list of the numbers of partitions, in the order of
the broker's map of topics, and of the sets in it. The accelerator has the same in C
(`assignors/native/uniform.c`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from quorate.assignors.errors import AssignorError
from quorate.assignors.java_order import copied_set_capacity, hash_map_capacity, table_size
from quorate.assignors.java_order.few import changed_numbers_in_order, few_numbers_in_order, may_be_crowded
from quorate.assignors.java_order.hash_map import TREE_FROM
from quorate.assignors.topic_lists import TopicLists
from quorate.codecs.extension import extension
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.releases import KafkaVersion

STABLE_SINCE = KafkaVersion(4, 0, 1)
"""KAFKA-18688: members keep their extra partition."""

LEFT_OVER = "partitions would be left over: a partition of the previous target has several owners; give it one"


class Previous(NamedTuple):
    """The previous target of a member, as the broker's map has it.

    - `numbers`: its partitions, in the order of the map.
    - `topics`: how many topics these are of; `deleted`: how many more were deleted.
    - `has_trees`: whether a set of it may have a bucket that is a tree.
    """

    numbers: list[int]
    topics: int
    deleted: int
    has_trees: bool


_NOTHING = Previous([], 0, 0, False)
_WINDOW = 4
"""Partitions 0 to 15, 16 to 31 … have ascending buckets in tables of any size."""


def previous_target(lists: TopicLists, record: Mapping[int, Sequence[int]], deleted: int, jdk: int) -> Previous:
    """Return a target as the broker reads it from a record.

    `record`: topics with their partitions; `deleted`: how many more topics it has that were
    deleted.
    """
    numbers: list[int] = []
    has_trees = False
    for topic in lists.ordered(list(record), others=deleted):
        partitions = record[topic]
        count = len(partitions)
        if count > 1 and max(partitions) < 1 << _WINDOW:
            partitions = sorted({*partitions})
        elif count > 1:
            capacity = copied_set_capacity(count, jdk)
            partitions = few_numbers_in_order(partitions, capacity)
            if count >= TREE_FROM and (len(partitions) < count or may_be_crowded(partitions, capacity)):
                has_trees = True
        numbers += lists.numbers(topic, partitions)
    return Previous(numbers, len(record), deleted, has_trees)


@dataclass(slots=True)
class FewMembers:
    """The members of a group with their previous targets.

    - `topics`: those of subscriptions and targets; `subscribed`: numbers of the subscribed ones.
    - `order`: numbers of members in HashMap order.
    - `counts[m]`: how many partitions the target of member `m` has; `usable[m]`: how many of
      subscribed topics.
    - `unowned`: numbers of the subscribed topics' partitions without an owner, topic after topic in
      the broker's order; `total`: how many partitions these topics have.
    - `previous`: returns the target of a member with partitions.
    """

    topics: TopicLists
    subscribed: Collection[int]
    order: Sequence[int]
    counts: Sequence[int]
    usable: Sequence[int]
    unowned: list[int]
    total: int
    previous: Callable[[int], Previous]


def assign_in_c(
    lists: TopicLists,
    counts: list[int],
    unowned: list[int],
    previous: Callable[[int], list[int]],
    jdk: int,
    *,
    stable: bool,
) -> list[tuple[int, Sequence[int]]] | None:
    """Return the same as `assign_lists`; `None` if that is needed.

    The members are numbered in HashMap order, and subscribe to all topics. `counts` and `unowned`
    are those of `FewMembers`. `previous`: returns the previous target of a member with partitions,
    in the order of its record.
    """
    native = extension()
    if native is None:
        return None
    targets: list[Sequence[int]] = [()] * len(counts)
    changed = native.assign_few(lists.packed, counts, unowned, previous, targets, jdk, stable)
    return None if changed is None else [(member, targets[member]) for member in changed]


def assign_lists(few: FewMembers, jdk: int, *, stable: bool) -> list[tuple[int, Sequence[int]]]:
    """Return the members whose target changes, in the order of their records, and their targets.

    Topics and partitions are in record order. Raises `AssignorError`, see
    `homogeneous.assign_homogeneous`.
    """
    order, counts, usable, row = few.order, few.counts, few.usable, few.unowned
    left = len(order)
    least, extra = divmod(few.total, left)
    # The changes of each member: what it keeps, and how many it gets. What members lose follows
    # what had no owner.
    changing: list[tuple[int, Previous, list[int], int, bool]] = []
    wanted_by_all = 0
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
        count = counts[member]
        if has == share == count:
            continue
        wanted = share - has if has < share else 0
        wanted_by_all += wanted
        if not count:
            changing.append((member, _NOTHING, [], wanted, False))
            continue
        before = few.previous(member)
        kept = before.numbers
        if has < count:
            topic_of, subscribed = few.topics.topic_of, few.subscribed
            kept = [number for number in kept if topic_of[number] in subscribed]
        if has > share:
            row += kept[share:]
            kept = kept[:share]
        changing.append((member, before, kept, wanted, has < count or has > share))
    if len(row) > wanted_by_all:
        raise AssignorError(LEFT_OVER)
    at = 0
    changed: list[tuple[int, Sequence[int]]] = []
    for member, before, kept, wanted, loses in changing:
        added = row[at : at + wanted]  # fewer if some partitions have several owners
        at += len(added)
        if added or loses:
            changed.append((member, _in_order(few.topics, before, kept, added, jdk)))
    return changed


@lru_cache(maxsize=1 << 10)
def _copied_map(topics: int, deleted: int) -> tuple[int, int]:
    """Return the buckets of a copy of a map, when it is empty, and when it has the topics.

    Deleted topics count for the size of the copy.
    """
    first = table_size(topics + deleted)
    if deleted:
        first = hash_map_capacity(topics + deleted, first)
    return first, hash_map_capacity(topics, first)


def _in_order(topics: TopicLists, before: Previous, kept: list[int], added: list[int], jdk: int) -> list[int]:
    """Return a target in record order: that of the copy of a map that the broker changes.

    The copy was made of `before`. All but `kept` are removed, in its order, and `added` put.
    """
    if not added:
        # A table of the same size, in which no bucket is a tree, has the same order of partitions.
        if not before.has_trees:
            if before.topics == 1:
                return kept
            first, buckets = _copied_map(before.topics, before.deleted)
            if before.topics < TREE_FROM or not topics.may_be_crowded(first):
                return topics.sorted_by_bucket(kept, buckets)
    elif not kept:
        if len(added) == 1:
            return added
        topic = topics.topic_of[added[0]]
        first, lowest, highest = topics.first[topic], min(added), max(added)
        if first <= lowest and highest < topics.first[topic + 1] and topics.is_plain:
            if (lowest - first) >> _WINDOW == (highest - first) >> _WINDOW:
                return sorted(added)
            return topics.numbers(topic, changed_numbers_in_order((), (), [number - first for number in added]))
    return _in_general_order(topics, before, kept, added, jdk)


def _in_general_order(topics: TopicLists, before: Previous, kept: list[int], added: list[int], jdk: int) -> list[int]:
    old, left, new = topics.by_topic(before.numbers), topics.by_topic(kept), topics.by_topic(added)
    names = [*reversed([topic for topic in new if topic not in left]), *left]
    if len(names) > 1:
        # `computeIfAbsent` grows a full table before the lookup, so a topic that only the last
        # call added is not counted.
        last = topics.topic_of[added[-1]] if added else -1
        counted = len(names) - (last in new and last not in left and len(new[last]) == 1)
        names = _topics_in_order(topics, before, old, left, names, counted, added)
    numbers: list[int] = []
    for topic in names:
        given = old[topic] if topic in left else ()  # else a new set
        capacity = copied_set_capacity(len(given), jdk)
        partitions = changed_numbers_in_order(given, left.get(topic, ()), new.get(topic, ()), capacity)
        numbers += topics.numbers(topic, partitions)
    return numbers


def _topics_in_order(
    topics: TopicLists,
    before: Previous,
    old: Collection[int],
    left: Collection[int],
    names: list[int],
    counted: int,
    added: Sequence[int],
) -> list[int]:
    """Return topics in the order of the map: new ones (newest first), then kept ones.

    That is the order within a bucket, which a growing table keeps: `computeIfAbsent` inserts at its
    head, `put` at its end. Where a bucket might become a tree, all steps are repeated with a
    `JavaHashMap`. The table grows to hold `counted` topics.
    """
    spread = topics.spread
    first, buckets = _copied_map(before.topics, before.deleted)
    if before.topics + len(names) >= TREE_FROM and may_be_crowded([spread[topic] for topic in {*old, *names}], first):
        return _step_by_step(topics, first, old, left, added)
    if added:
        buckets = hash_map_capacity(counted, buckets)
    mask = buckets - 1
    return sorted(names, key=lambda topic: spread[topic] & mask)


def _step_by_step(
    topics: TopicLists, first: int, old: Iterable[int], left: Collection[int], added: Iterable[int]
) -> list[int]:
    made = topics.map(first)
    for topic in old:
        made.put(topic, None)
    for topic in old:
        if topic not in left:
            made.remove(topic)
    for number in added:
        made.compute_if_absent(topics.topic_of[number], lambda: None)
    return list(made)
