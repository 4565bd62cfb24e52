"""Topics by subscribers, and Java's iteration order of topics.

Shared by the assignors that divide one topic after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.topology import Ints, stable_order


@dataclass(frozen=True, slots=True)
class SubscriberSets:
    """Topics by their set of subscribers.

    `set_of`: for each topic of the topology the number of its set, -1 without subscribers.
    `members[s]`: the subscribers of set `s` in the order of `GroupSpec.sorted_order`; `places[s]`:
    their positions among all sorted members.
    """

    set_of: Ints
    members: Sequence[Ints]
    places: Sequence[Ints]


def subscriber_sets(group: GroupSpec, order: Ints | None = None) -> SubscriberSets:
    """Return the subscribers of each topic; members with the same subscription are compared once.

    `order`: the order of members in `members` and `places`; by default `GroupSpec.sorted_order`.
    """
    set_of = np.full(len(group.topology), -1, np.int64)
    order = group.sorted_order if order is None else order
    subscriptions = group.subscriptions
    if len(subscriptions) == 1:
        set_of[subscriptions[0].topics] = 0
        return SubscriberSets(set_of, [order], [np.arange(len(order))])
    topics, naming, starts, ends = by_topic([one.topics for one in subscriptions], len(group.topology))
    alone = ends - starts == 1
    whole, set_of[topics[starts[alone]]] = np.unique(naming[starts[alone]], return_inverse=True)
    named: list[Ints] = list(whole.reshape(-1, 1))
    number_of: dict[bytes, int] = {}
    for start, end in zip(starts[~alone].tolist(), ends[~alone].tolist(), strict=True):
        number = number_of.setdefault(naming[start:end].tobytes(), len(named))
        if number == len(named):
            named.append(naming[start:end])
        set_of[topics[start]] = number
    places = _places(group.subscription_of[order], len(subscriptions), named)
    return SubscriberSets(set_of, [order[where] for where in places], places)


def by_topic(subscriptions: Sequence[Ints], topic_count: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return pairs of topic and number of a subscription that includes it, sorted by both.

    Also returns where the pairs of each topic begin and end.
    """
    topics = np.concatenate([np.empty(0, np.int64), *subscriptions])
    numbers = np.repeat(np.arange(len(subscriptions)), [len(one) for one in subscriptions])
    order = stable_order(topics, topic_count)
    topics = topics[order]
    starts = np.flatnonzero(np.diff(topics, prepend=-1))
    return topics, numbers[order], starts, np.append(starts[1:], len(topics))[: len(starts)]


def _places(subscription_of: Ints, subscriptions: int, named: Sequence[Ints]) -> list[Ints]:
    """Return for each list of subscriptions the positions of their members, ascending."""
    by_subscription = np.argsort(subscription_of, kind="stable")
    bounds = np.searchsorted(subscription_of[by_subscription], np.arange(subscriptions + 1)).tolist()
    places = []
    for one in named:
        parts = [by_subscription[bounds[number] : bounds[number + 1]] for number in one.tolist()]
        if len(parts) == 1:
            places.append(parts[0])
        elif sum(map(len, parts)) * 8 < len(subscription_of):
            places.append(np.sort(np.concatenate(parts)))
        else:  # for large parts, marking all members is cheaper than sorting
            chosen = np.zeros(len(subscription_of), np.bool_)
            chosen[np.concatenate(parts)] = True
            places.append(np.flatnonzero(chosen))
    return places


def topics_in_hash_order(group: GroupSpec) -> Ints:
    """Return the subscribed topics with partitions in the order of Java's client since Kafka 3.5.

    The client collects the names of all subscriptions, known or not, in a HashSet, iterates it, and
    puts the names with metadata into a HashMap.
    """
    names = _names(group)
    hashes = java_order.string_hashes(names)
    walked = java_order.hash_map_order(hashes, keys=names)
    topics, known = _with_partitions(group, names, walked)
    walked = walked[known]
    return topics[java_order.hash_map_order(hashes[walked], keys=[names[place] for place in walked.tolist()])]


def topics_in_computed_order(group: GroupSpec) -> Ints:
    """Return the subscribed topics with partitions in the order of Java's client before Kafka 3.5.

    The client groups members by topic in a HashMap with `computeIfAbsent`, and iterates that map.
    """
    names = _names(group)
    asking = [listing for one in group.listing_of[group.hash_order].tolist() if (listing := group.listings[one])]
    last_is_new = bool(asking) and not any(asking[-1][-1] in listing for listing in {*asking[:-1], asking[-1][:-1]})
    walked = java_order.computed_map_order(java_order.string_hashes(names), last_is_new=last_is_new, keys=names)
    return _with_partitions(group, names, walked)[0]


def _names(group: GroupSpec) -> list[str]:
    """Return all subscribed names in order of first appearance, with members in hash order."""
    # A subscription with the same set of names as an earlier one adds no name.
    _, firsts = np.unique(group.subscription_of[group.hash_order], return_index=True)
    listings = group.listing_of[group.hash_order[np.sort(firsts)]].tolist()
    return list(dict.fromkeys(name for listing in listings for name in group.listings[listing]))


def _with_partitions(group: GroupSpec, names: Sequence[str], walked: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the topics with partitions among the names in the order `walked`.

    The second array marks their names in `walked`.
    """
    index = group.topology.index
    topics = np.array([index.get(names[place], -1) for place in walked.tolist()], np.int64)
    known = topics >= 0
    known[known] = group.topology.sizes[topics[known]] > 0
    return topics[known], known


def topics_by_name(group: GroupSpec, topics: Ints) -> Ints:
    """Return the topics sorted by name in Java's string order."""
    return topics[java_order.string_order([group.topology.topics[topic].name for topic in topics.tolist()])]


def assigned_by_topic(group: GroupSpec, topics: Ints, owners: Sequence[Ints]) -> Assignment:
    """Return the assignment of the partitions of `topics[i]`, ascending, to members `owners[i]`.

    Each member's partitions follow the order of topics.
    """
    topology = group.topology
    if not len(topics):
        return Assignment(topology, group.member_ids, np.zeros(len(group) + 1, np.int64), np.empty(0, np.int64))
    partitions = topology.partitions_of(topics)
    return Assignment.from_owners(topology, group.member_ids, partitions, np.concatenate(owners))


def range_owners(members: Sequence[Ints], set_of: Ints, counts: Ints) -> list[Ints]:
    """Return the owners of each topic's partitions, divided into ranges.

    `counts[i]` partitions are divided among the members of set `set_of[i]`. Topics with the same
    subscribers and number of partitions share one array.
    """
    made: dict[tuple[int, int], Ints] = {}
    owners = []
    for key in zip(set_of.tolist(), counts.tolist(), strict=True):
        found = made.get(key)
        if found is None:
            found = made[key] = ranges(members[key[0]], key[1])
        owners.append(found)
    return owners


def ranges(members: Ints, count: int) -> Ints:
    """Return the member of each of `count` partitions: one range each, the first longer by 1."""
    share, extra = divmod(count, len(members))
    if share == 0:
        return members[:extra]
    lengths = np.full(len(members), share)
    lengths[:extra] += 1
    return np.repeat(members, lengths)
