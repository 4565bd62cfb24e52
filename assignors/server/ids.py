"""Topics by their ids, as server-side assignors go through them."""

from collections.abc import Sequence

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import UInts
from quorate.assignors.model import AssignorError
from quorate.assignors.topology import Ints, Topology

__all__ = ["id_hashes", "need_ids", "subscribed_in_order", "subscribed_set", "tell_order"]

_MANY = 256


def need_ids(topology: Topology, topics: Ints) -> None:
    """Raise `AssignorError` if one of the topics has no id."""
    if len(topology.without_id) and len(missing := np.intersect1d(topics, topology.without_id)):
        name = topology.topics[int(missing[0])].name
        raise AssignorError(
            f"topic {name} has no id: server-side assignors go by topic ids (`Topic.id`, or `ids` of `Topology.of`)"
        )


def id_hashes(topology: Topology) -> UInts:
    """The hash of each topic's id, as HashMap spreads it."""
    return java_order.spread(java_order.uuid_hashes(*topology.id_halves))


def subscribed_in_order(group: GroupSpec, listing: int, jdk: int) -> Ints:
    """The topics of a list of names as the broker goes through the subscription: it keeps the names in a HashSet, and leaves out what does not exist."""
    made = group.from_subscriptions
    key = ("broker's order", listing, jdk)
    if key not in made:
        names = group.listings[listing]
        index = group.topology.index
        known = dict.fromkeys(filter(index.__contains__, names))
        capacity = java_order.copied_set_capacity(len(names), jdk)
        # Where many names do not exist, the others can be put into order without them.
        walk = java_order.placed(known, capacity) if 2 * len(known) < len(names) > _MANY else None
        if walk is None:
            walk = java_order.copied_set(names, jdk)
        walked = [index[name] for name in walk if name in known]
        need_ids(group.topology, topics := np.array(walked, np.int64))
        made[key] = topics
    found: Ints = made[key]
    return found


def tell_order(group: GroupSpec, listing: int, names: Sequence[str], jdk: int) -> None:
    """The broker goes through this list of names in the order of `names`, as it keeps it in another set (a union of names and of what an expression matched)."""
    index = group.topology.index
    topics = np.array([index[name] for name in names if name in index], np.int64)
    need_ids(group.topology, topics)
    group.from_subscriptions["broker's order", listing, jdk] = topics


def subscribed_set(group: GroupSpec, listing: int, jdk: int) -> Ints:
    """The same topics in the order of a HashSet of their ids that is made of the subscription."""
    topics = subscribed_in_order(group, listing, jdk)
    topology = group.topology
    most, least = topology.id_halves
    # Sized by the names, whether they exist or not.
    capacity = java_order.copied_set_capacity(len(set(group.listings[listing])), jdk)
    keys = [topology.topics[topic].id for topic in topics.tolist()]
    return topics[java_order.hash_map_order(java_order.uuid_hashes(most[topics], least[topics]), capacity, keys=keys)]
