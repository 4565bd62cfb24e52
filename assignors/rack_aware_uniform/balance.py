"""The best possible balance: divides a group into regions with their partition counts.

Topics with the same subscribers are one node, and so are members with the same subscription, so
networks are small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorate.assignors.rack_aware_uniform.flow import Network

__all__ = ["Region", "regions"]


@dataclass(frozen=True, slots=True)
class Region:
    """Topics whose partitions go to the same members in every most balanced assignment.

    `topics`: kinds of topics; `subscriptions`: those of the members. Each member gets `least`
    partitions or, unless `exact`, one more.
    """

    topics: tuple[int, ...]
    subscriptions: tuple[int, ...]
    least: int
    exact: bool


def regions(partitions: Sequence[int], members: Sequence[int], subscribed: Mapping[int, Sequence[int]]) -> list[Region]:
    """Divide a group into regions.

    `partitions`: of each kind of topic; `members`: of each subscription; `subscribed`: kind of
    topic → subscriptions.

    The most balanced assignments are those whose partition counts, sorted from largest to smallest,
    are lexicographically minimal; their sum of squares is minimal too. The division is a
    decomposition algorithm (Fujishige 1980). It tries to give each member the mean, rounded down
    and then up. If that fails, the minimum cut shows which members cannot give partitions to the
    others, and both parts are divided separately. In the first part all members have at least the
    mean, in the second part at most. So a move from the second to the first part would make the
    balance worse, and no move in the other direction is possible.
    """
    found = []
    parts = [(list(range(len(partitions))), list(range(len(members))))]
    while parts:
        topics, subscriptions = parts.pop()
        total = sum(partitions[topic] for topic in topics)
        number = sum(members[subscription] for subscription in subscriptions)
        if not number:
            continue
        least = total // number
        if len(subscriptions) == 1:
            found.append(Region(tuple(topics), tuple(subscriptions), least, total == least * number))
            continue
        for limit in (least, least + 1):
            flow, cut = _try(partitions, members, subscribed, topics, subscriptions, limit)
            if flow < min(total, limit * number):
                parts.append(_side(topics, subscriptions, cut, here=True))
                parts.append(_side(topics, subscriptions, cut, here=False))
                break
            if flow == total:
                found.append(Region(tuple(topics), tuple(subscriptions), least, total == least * number))
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
    """Return how many partitions can be assigned if no member gets more than `limit`, and the cut.

    The cut marks topics, then subscriptions, that cannot give partitions to the others.
    """
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
