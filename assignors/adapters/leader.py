"""The leader's part of a rebalance: members and topology in, an assignment out, whatever the members say.

Knows no client.
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

__all__ = ["assign", "hold_back", "keep_and_spread"]

log = logging.getLogger(__name__)

_NAMED_TOPICS = 3
"""How many unknown topics the log names: a member may subscribe to any number of them."""
_MOST_REASON = 1_000


def assign(
    assignor: Assignor,
    members: Mapping[str, Member],
    topology: Topology,
    *,
    group: str,
    cooperative: bool = False,
    assign_group: Callable[[GroupSpec], Assignment] | None = None,
) -> Assignment:
    """What `assignor` answers, if that is an assignment; else `keep_and_spread`'s answer, and an error in the log.

    Never raises.

    `cooperative`: a partition that another member still has is not given away before that member
    has given it up (KIP-429), by whatever `assignor`. `assign_group`: how to ask it, if not by its
    method of that name.
    """
    unknown = unknown_topics(members, topology.index)
    for topic, who in islice(unknown.items(), _NAMED_TOPICS):
        log.warning(
            "group %s: topic %s is not in the leader's metadata, so nobody gets its partitions until it is: %s subscribed to it. "
            "Create it, check its name, or grant DESCRIBE on it",
            group,
            brief(topic),
            some_of(who),
        )
    if len(unknown) > _NAMED_TOPICS:
        log.warning(
            "group %s: %s other subscribed topics are not in the leader's metadata either",
            group,
            f"{len(unknown) - _NAMED_TOPICS:,}",
        )
    prepared = GroupSpec(members, topology)
    finish = hold_back if cooperative else _as_it_is
    try:
        answer = (assign_group or assignor.assign_group)(prepared)
        fault = _fault(answer, prepared)
        if fault is None:
            return finish(answer, prepared)
        log.error(
            "group %s: the assignment of %s (%s) is not valid: %s. Members keep what they have and the rest is spread evenly; "
            "use another assignor and report this one",
            group,
            assignor.name,
            type(assignor).__qualname__,
            brief(fault, _MOST_REASON),
        )
    except AssignorError as error:
        log.error(
            "group %s: assignor %s (%s) refuses: %s. Members keep what they have and the rest is spread evenly",
            group,
            assignor.name,
            type(assignor).__qualname__,
            brief(str(error), _MOST_REASON),
        )
    except Exception:
        log.exception(
            "group %s: assignor %s (%s) failed on %d members and %r. Members keep what they have and the rest is spread evenly; "
            "use another assignor and report this one",
            group,
            assignor.name,
            type(assignor).__qualname__,
            len(members),
            topology,
        )
    return finish(keep_and_spread(prepared), prepared)


def _as_it_is(answer: Assignment, _group: GroupSpec) -> Assignment:
    return answer


def keep_and_spread(group: GroupSpec) -> Assignment:
    """An assignment that needs no cleverness: who alone claims a partition keeps it, the others go to the subscriber that has the fewest.

    Nothing changes hands, so it is valid under both rebalance protocols.
    """
    holder = _holders(group)
    topic_of = group.topology.topic_of.tolist()
    lists: list[list[int]] = [[] for _ in group.member_ids]
    free = []
    for partition, has in enumerate(holder.tolist()):
        if has == FREE:
            free.append(partition)
        elif has != CONTESTED and group.subscribes[group.subscription_of[has], topic_of[partition]]:
            lists[has].append(partition)
    # One heap of (partitions, member) per topic; the first number is that of when the entry was
    # made.
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


def hold_back(answer: Assignment, group: GroupSpec) -> Assignment:
    """`answer` without the partitions that another member has: they follow in the next rebalance, when they are free (KIP-429)."""
    holder = _holders(group)[answer.partitions]
    members = np.repeat(np.arange(len(group)), answer.counts)
    may = (holder == FREE) | (holder == members)
    if may.all():
        return answer
    return Assignment.from_owners(group.topology, group.member_ids, answer.partitions[may], members[may])


FREE, CONTESTED = -1, -2


def _holders(group: GroupSpec) -> Ints:
    """For each partition the member that has it: the one whose claim is of the highest generation; `FREE` without a claim, `CONTESTED` with two of them."""
    holder: Ints = np.full(group.topology.first[-1], FREE, np.int64)
    known = group.owned >= 0
    claimed, members = group.owned[known], group.owning[known]
    newest: Ints = np.full(len(holder), -2, np.int64)
    np.maximum.at(newest, claimed, group.generations[members])
    current = group.generations[members] == newest[claimed]
    claimed, members = claimed[current], members[current]
    holder[claimed] = members
    contested = holder[claimed] != members  # of two members the last one was written
    holder[claimed[contested]] = CONTESTED
    return holder


def _fault(answer: Assignment, group: GroupSpec) -> str | None:
    """Why `answer` would break consumers: something given twice, or to a member that is not subscribed.

    `None` if it is sound.
    """
    if tuple(answer.member_ids) != tuple(group.member_ids) or answer.topology is not group.topology:
        return "it is for other members or another topology"
    given = answer.partitions
    if len(given) and (given.min() < 0 or given.max() >= group.topology.first[-1]):
        return "it has a partition that does not exist"
    twice = np.flatnonzero(np.bincount(given) > 1)
    if len(twice):
        topic, partition = group.topology.topic_partitions(twice[:1])[0]
        return f"{topic}-{partition} is given to more than one member"
    members = np.repeat(np.arange(len(group)), answer.counts)
    wrong = np.flatnonzero(~group.subscribes[group.subscription_of[members], group.topology.topic_of[given]])
    if len(wrong):
        topic, partition = group.topology.topic_partitions(given[wrong[:1]])[0]
        return f"{topic}-{partition} is given to {group.member_ids[members[wrong[0]]]}, which does not subscribe to it"
    return None
