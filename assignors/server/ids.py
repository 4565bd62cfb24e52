"""Topics by id, in the iteration orders of server-side assignors."""

from collections.abc import Sequence

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import UInts, copied_set, copied_set_capacity
from quorate.assignors.model import AssignorError
from quorate.assignors.topology import Ints, Topology

_MANY = 256


def need_ids(topology: Topology, topics: Ints) -> None:
    """Raise `AssignorError` if one of the topics has no id."""
    if len(topology.without_id) and len(missing := np.intersect1d(topics, topology.without_id)):
        name = topology.topics[int(missing[0])].name
        raise AssignorError(
            f"topic {name} has no id, which server-side assignors need (`Topic.id`, or `ids` of `Topology.of`)"
        )


def id_hashes(topology: Topology) -> UInts:
    """Return the hash of each topic's id, as spread by HashMap."""
    return java_order.spread(java_order.uuid_hashes(*topology.id_halves))


def subscribed_in_order(group: GroupSpec, listing: int, jdk: int) -> Ints:
    """Return the topics of a list of names in the broker's iteration order of the subscription.

    The broker keeps the names in a HashSet, and skips those that do not exist.
    """
    made = group.from_subscriptions
    key = ("broker's order", listing, jdk)
    if key not in made:
        names = group.listings[listing]
        index = group.topology.index
        known = dict.fromkeys(filter(index.__contains__, names))
        capacity = java_order.copied_set_capacity(len(names), jdk)
        # If many names do not exist, the others can be ordered without them.
        walk = java_order.placed(known, capacity) if 2 * len(known) < len(names) > _MANY else None
        if walk is None:
            walk = java_order.copied_set(names, jdk)
        walked = [index[name] for name in walk if name in known]
        need_ids(group.topology, topics := np.array(walked, np.int64))
        made[key] = topics
    found: Ints = made[key]
    return found


def set_subscription_order(group: GroupSpec, listing: int, names: Sequence[str], jdk: int) -> None:
    """Set the broker's iteration order for a list of names to that of `names`.

    Needed where the broker keeps them in another set: a union of names and regex matches.
    """
    index = group.topology.index
    topics = np.array([index[name] for name in names if name in index], np.int64)
    need_ids(group.topology, topics)
    group.from_subscriptions["broker's order", listing, jdk] = topics


def subscribed_set(group: GroupSpec, listing: int, jdk: int) -> Ints:
    """Return the same topics in the order of a HashSet of their ids."""
    topics = subscribed_in_order(group, listing, jdk)
    topology = group.topology
    most, least = topology.id_halves
    # The size is that of all names, whether they exist or not.
    capacity = java_order.copied_set_capacity(len(set(group.listings[listing])), jdk)
    keys = [topology.topics[topic].id for topic in topics.tolist()]
    return topics[java_order.hash_map_order(java_order.uuid_hashes(most[topics], least[topics]), capacity, keys=keys)]


def few_in_broker_order(group: GroupSpec, listing: int, jdk: int) -> tuple[list[int], int]:
    """Return the same as `subscribed_in_order` as a list, which is faster for few topics.

    Also return how many different names the subscription has, whether they exist or not.
    """
    made, key = group.from_subscriptions, ("few in broker's order", listing, jdk)
    found: tuple[list[int], int] | None = made.get(key)
    if found is None:
        names, topology = group.listings[listing], group.topology
        known: Ints | None = made.get(("broker's order", listing, jdk))
        if known is not None:
            topics: list[int] = known.tolist()
        else:
            index = topology.index
            topics = [index[name] for name in copied_set(names, jdk) if name in index]
            if len(topology.without_id):
                need_ids(topology, np.array(topics, np.int64))
        found = made[key] = topics, len(set(names))
    return found


def subscribed_few(group: GroupSpec, listing: int, jdk: int) -> Sequence[int]:
    """Return the same as `subscribed_set` as a list; faster for few topics."""
    topics, names = few_in_broker_order(group, listing, jdk)
    return group.topology.lists.ordered(topics, copied_set_capacity(names, jdk))
