"""How even the numbers of partitions can be: which members can be relieved by which others, and how many partitions each of them has to have.

Topics with the same subscribers, and members with the same subscription, are one node each, so that
the networks are small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorate.assignors.rack_aware_uniform.flow import Network

__all__ = ["Region", "regions"]


@dataclass(frozen=True, slots=True)
class Region:
    """Topics (`topics`, by kind) whose partitions all go to certain members (`subscriptions`) in every most even assignment.

    Each of these members gets `least` partitions or, unless `exact`, one more.
    """

    topics: tuple[int, ...]
    subscriptions: tuple[int, ...]
    least: int
    exact: bool


def regions(partitions: Sequence[int], members: Sequence[int], subscribed: Mapping[int, Sequence[int]]) -> list[Region]:
    """Divide a group into regions.

    `partitions`: of each kind of topic; `members`: of each subscription; `subscribed`: kind of
    topic → subscriptions.

    Most even means that the numbers of partitions of all members, sorted from the most to the
    fewest, are the smallest possible in the order of words; their sum of squares is then the least,
    too. The division is that of a decomposition algorithm (Fujishige 1980): try to give everybody
    the mean, rounded down and then up; where that fails, the smallest cut tells which members
    cannot be relieved by the others, and these two parts are divided on their own. In the first
    part nobody has less, in the second nobody has more than what was tried; so a partition that
    went from the second to the first would make things less even, and none can go the other way.
    """
    found = []
    parts = [(list(range(len(partitions))), list(range(len(members))))]
    while parts:
        topics, subscriptions = parts.pop()
        there = sum(partitions[topic] for topic in topics)
        number = sum(members[one] for one in subscriptions)
        if not number:
            continue
        least = there // number
        if len(subscriptions) == 1:
            found.append(Region(tuple(topics), tuple(subscriptions), least, there == least * number))
            continue
        for limit in (least, least + 1):
            flow, cut = _try(partitions, members, subscribed, topics, subscriptions, limit)
            if flow < min(there, limit * number):
                parts.append(_side(topics, subscriptions, cut, here=True))
                parts.append(_side(topics, subscriptions, cut, here=False))
                break
            if flow == there:
                found.append(Region(tuple(topics), tuple(subscriptions), least, there == least * number))
                break
    return sorted(found, key=lambda region: region.subscriptions)


def _try(
    partitions: Sequence[int],
    members: Sequence[int],
    subscribed: Mapping[int, Sequence[int]],
    topics: Sequence[int],
    subscriptions: Sequence[int],
    limit: int,
) -> tuple[int, list[bool]]:
    """How many partitions find a place if nobody gets more than `limit`; and of topics, then subscriptions, which are beyond relief."""
    source, sink = len(topics) + len(subscriptions), len(topics) + len(subscriptions) + 1
    network = Network(sink + 1)
    place = {one: len(topics) + number for number, one in enumerate(subscriptions)}
    given = []
    for number, topic in enumerate(topics):
        given.append(network.add(source, number, partitions[topic]))
        for one in subscribed[topic]:
            if one in place:
                network.add(number, place[one], partitions[topic])
    for one in subscriptions:
        network.add(place[one], sink, limit * members[one])
    flows, reached = network.largest(source, sink)
    return sum(flows[arc // 2] for arc in given), reached


def _side(
    topics: Sequence[int], subscriptions: Sequence[int], cut: Sequence[bool], *, here: bool
) -> tuple[list[int], list[int]]:
    return (
        [topic for number, topic in enumerate(topics) if cut[number] == here],
        [one for number, one in enumerate(subscriptions, len(topics)) if cut[number] == here],
    )
