"""The best possible balance: divides a group into regions with their partition counts.

Topics with the same subscribers are one node, and so are members with the same subscription.
"""

from dataclasses import dataclass

import numpy as np

from quorate.assignors.rack_aware_uniform.flow import Bools, Network
from quorate.assignors.topology import Ints


@dataclass(frozen=True, slots=True)
class Regions:
    """A division of a group such that the best balance never assigns partitions across regions.

    `of_topic`, `of_subscription`: the region of each kind of topic, and of each subscription. Each
    member of region `r` gets `least[r]` partitions or, unless `exact[r]`, one more.
    """

    of_topic: Ints
    of_subscription: Ints
    least: Ints
    exact: Bools


def regions(partitions: Ints, members: Ints, topics: Ints, subscriptions: Ints) -> Regions:
    """Divide a group into regions.

    `partitions`: of each kind of topic; `members`: of each subscription. `subscriptions[i]`
    includes `topics[i]`, a kind of topic.

    The most balanced assignments are those whose partition counts, sorted from largest to smallest,
    are lexicographically minimal; their sum of squares is minimal too. The division is a
    decomposition algorithm (Fujishige 1980). It tries to give each member the mean, rounded down
    and then up. If that fails, the minimum cut shows which members cannot give partitions to the
    others, and both parts are divided separately. In the first part all members have at least the
    mean, in the second part at most. So a move from the second to the first part would make the
    balance worse, and no move in the other direction is possible. All parts are divided at the same
    time, in one network.
    """
    of_topic, of_subscription = np.zeros(len(partitions), np.int64), np.zeros(len(members), np.int64)
    is_open, up = np.ones(1, np.bool_), np.zeros(1, np.int64)
    while True:
        parts = len(is_open)
        total = _sums(of_topic, partitions, parts)
        number = _sums(of_subscription, members, parts)
        least = total // np.maximum(number, 1)
        is_open &= np.bincount(of_subscription, minlength=parts) > 1
        if not is_open.any():
            return Regions(of_topic, of_subscription, least, total == least * number)
        limit = least + up
        mine = is_open[of_topic[topics]] & (of_topic[topics] == of_subscription[subscriptions])
        given = np.where(is_open[of_topic], partitions, 0)
        taken = np.where(is_open[of_subscription], members * limit[of_subscription], 0)
        flows, cut = _assigned(given, taken, topics[mine], subscriptions[mine])
        flow = _sums(of_topic, flows, parts)
        divided = is_open & (flow < np.minimum(total, limit * number))
        is_open &= divided | (flow < total)
        # The second part of a division gets the next free number.
        second = np.where(divided, parts - 1 + np.cumsum(divided), 0)
        added = int(np.count_nonzero(divided))
        up = np.append(np.where(divided, 0, 1), np.zeros(added, np.int64))
        is_open = np.append(is_open, np.ones(added, np.bool_))
        reached_topic, reached_subscription = cut[: len(partitions)], cut[len(partitions) :]
        of_topic = np.where(divided[of_topic] & reached_topic, second[of_topic], of_topic)
        of_subscription = np.where(
            divided[of_subscription] & reached_subscription, second[of_subscription], of_subscription
        )


def _sums(of: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, of, values)
    return sums


def _assigned(given: Ints, taken: Ints, topics: Ints, subscriptions: Ints) -> tuple[Ints, Bools]:
    """Return how many partitions of each kind of topic can be assigned, and the cut.

    `given`: partitions of each kind of topic; `taken`: the maximum for each subscription. The cut
    marks topics, then subscriptions, that cannot give partitions to the others.
    """
    topic_nodes = np.arange(len(given))
    subscription_nodes = len(given) + np.arange(len(taken))
    source = len(given) + len(taken)
    sink = source + 1
    network = Network(
        sink + 1,
        np.concatenate([np.full(len(given), source), topics, subscription_nodes]),
        np.concatenate([topic_nodes, len(given) + subscriptions, np.full(len(taken), sink)]),
        np.concatenate([given, given[topics], taken]),
    )
    flows, reached = network.largest(source, sink)
    return flows[: len(given)], reached[:source]
