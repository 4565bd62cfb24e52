"""The leader's assignment in a rebalance, with a fallback if the assignor fails.

Independent of any client library.
"""

import logging
from collections.abc import Callable, Mapping
from heapq import heapreplace
from itertools import islice

import numpy as np

from quorate.assignors.adapters.protocol import unknown_topics
from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError, Member
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.printable import brief, some_of

log = logging.getLogger(__name__)

_MAX_NAMED_TOPICS = 3
"""Maximum number of unknown topics that are logged by name."""
_MAX_REASON_CHARS = 1_000


def assign(
    assignor: Assignor,
    members: Mapping[str, Member],
    topology: Topology,
    *,
    group: str,
    cooperative: bool = False,
    assign_group: Callable[[GroupSpec], Assignment] | None = None,
) -> Assignment:
    """Return the assignment of `assignor` if it is valid, otherwise that of `keep_and_spread`.

    Using the fallback is logged as an error. Never raises.

    `cooperative`: assign a partition only after its previous owner has revoked it (KIP-429), with
    any `assignor`. `assign_group`: the function to call; by default the assignor's method.
    """
    unknown = unknown_topics(members, topology.index)
    for topic, subscribers in islice(unknown.items(), _MAX_NAMED_TOPICS):
        log.warning(
            "group %s: topic %s is not in the leader's metadata, so its partitions are not assigned: "
            "%s subscribed to it. Create it, check its name, or grant DESCRIBE on it",
            group,
            brief(topic),
            some_of(subscribers),
        )
    if len(unknown) > _MAX_NAMED_TOPICS:
        log.warning(
            "group %s: %s other subscribed topics are not in the leader's metadata either",
            group,
            f"{len(unknown) - _MAX_NAMED_TOPICS:,}",
        )
    spec = GroupSpec(members, topology)

    def finished(assigned: Assignment) -> Assignment:
        return hold_back(assigned, spec) if cooperative else assigned

    try:
        assigned = (assign_group or assignor.assign_group)(spec)
        problem = _problem(assigned, spec)
        if problem is None:
            return finished(assigned)
        log.error(
            "group %s: the assignment of %s (%s) is not valid: %s. "
            "Members keep their partitions, others are spread evenly; use another assignor and report this one",
            group,
            assignor.name,
            type(assignor).__qualname__,
            brief(problem, _MAX_REASON_CHARS),
        )
    except AssignorError as error:
        log.error(
            "group %s: assignor %s (%s) failed: %s. Members keep their partitions, others are spread evenly",
            group,
            assignor.name,
            type(assignor).__qualname__,
            brief(str(error), _MAX_REASON_CHARS),
        )
    except Exception:
        log.exception(
            "group %s: assignor %s (%s) failed on %d members and %r. "
            "Members keep their partitions, others are spread evenly; use another assignor and report this one",
            group,
            assignor.name,
            type(assignor).__qualname__,
            len(members),
            topology,
        )
    return finished(keep_and_spread(spec))


def keep_and_spread(group: GroupSpec) -> Assignment:
    """Return a valid assignment without moving partitions, for both rebalance protocols.

    A member keeps the partitions that only it claims. Each other partition is assigned to the
    subscriber with the fewest partitions.
    """
    owner_of = _owners(group)
    topic_of = group.topology.topic_of.tolist()
    lists: list[list[int]] = [[] for _ in group.member_ids]
    free = []
    for partition, owner in enumerate(owner_of.tolist()):
        if owner == FREE:
            free.append(partition)
        elif owner != CONTESTED and group.subscribes[group.subscription_of[owner], topic_of[partition]]:
            lists[owner].append(partition)
    # One heap of (number of partitions, member) per topic. Outdated numbers are updated at the top.
    waiting: dict[int, list[tuple[int, int]]] = {}
    for partition in free:
        topic = topic_of[partition]
        if topic not in waiting:
            waiting[topic] = [
                (0, member) for member in np.flatnonzero(group.subscribes[group.subscription_of, topic]).tolist()
            ]
        heap = waiting[topic]
        while heap and heap[0][0] != len(lists[heap[0][1]]):
            heapreplace(heap, (len(lists[heap[0][1]]), heap[0][1]))
        if heap:
            lists[heap[0][1]].append(partition)
    return Assignment.from_lists(group.topology, group.member_ids, lists)


def hold_back(assigned: Assignment, group: GroupSpec) -> Assignment:
    """Remove partitions that another member owns; the next rebalance assigns them (KIP-429)."""
    owner_of = _owners(group)[assigned.partitions]
    members = np.repeat(np.arange(len(group)), assigned.counts)
    allowed = (owner_of == FREE) | (owner_of == members)
    if allowed.all():
        return assigned
    return Assignment.from_owners(group.topology, group.member_ids, assigned.partitions[allowed], members[allowed])


FREE, CONTESTED = -1, -2


def _owners(group: GroupSpec) -> Ints:
    """Return the owner of each partition: the member that claims it with the highest generation.

    `FREE` without a claim, `CONTESTED` if several members claim it with that generation.
    """
    owner: Ints = np.full(group.topology.first[-1], FREE, np.int64)
    known = group.owned >= 0
    claimed, members = group.owned[known], group.owning[known]
    newest: Ints = np.full(len(owner), -2, np.int64)
    np.maximum.at(newest, claimed, group.generations[members])
    current = group.generations[members] == newest[claimed]
    claimed, members = claimed[current], members[current]
    owner[claimed] = members
    contested = owner[claimed] != members  # of several members, numpy wrote the last one
    owner[claimed[contested]] = CONTESTED
    return owner


def _problem(assigned: object, group: GroupSpec) -> str | None:
    """Return why the assignment is not valid; `None` if it is valid.

    A partition must not be assigned twice, or to a member that does not subscribe to its topic.
    """
    if not isinstance(assigned, Assignment):
        return f"it is a {type(assigned).__name__}; assign_group returns an Assignment, such as Assignment.from_lists"
    if tuple(assigned.member_ids) != tuple(group.member_ids) or assigned.topology is not group.topology:
        return "it is for other members or another topology"
    partitions = assigned.partitions
    if len(partitions) and (partitions.min() < 0 or partitions.max() >= group.topology.first[-1]):
        return "it has a partition that does not exist"
    twice = np.flatnonzero(np.bincount(partitions) > 1)
    if len(twice):
        topic, partition = group.topology.topic_partitions(twice[:1])[0]
        return f"{topic}-{partition} is assigned to more than one member"
    members = np.repeat(np.arange(len(group)), assigned.counts)
    wrong = np.flatnonzero(~group.subscribes[group.subscription_of[members], group.topology.topic_of[partitions]])
    if len(wrong):
        topic, partition = group.topology.topic_partitions(partitions[wrong[:1]])[0]
        return (
            f"{topic}-{partition} is assigned to {group.member_ids[members[wrong[0]]]}, which does not subscribe to it"
        )
    return None
