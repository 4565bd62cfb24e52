"""The reason why each remote partition of an assignment is remote.

Each partition is judged alone, against the assignment as it is: could it move to a member in one of
its racks without raising any member's count above today's? Only single moves and single swaps are
tried, not longer chains, so `LOCAL_MEMBERS_FULL` does not prove that nothing better exists.
"""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment
from quorate.assignors.topology import Ints

Bools = npt.NDArray[np.bool_]

_NO_MEMBER = np.iinfo(np.int64).max
_CELLS = 1 << 24
"""Maximum number of matrix cells computed at once."""


class RemoteReason(StrEnum):
    """Why a partition is remote: the first of these, in this order, that applies."""

    MEMBER_WITHOUT_RACK = "member_without_rack"
    RACKS_UNKNOWN = "racks_unknown"
    NO_SUBSCRIBER_IN_ITS_RACKS = "no_subscriber_in_its_racks"
    LOCAL_MEMBER_HAD_ROOM = "local_member_had_room"  # plain: the value is in the JSON output
    NO_REPLICA_IN_MEMBERS_RACK = "no_replica_in_members_rack"
    SWAP_POSSIBLE = "swap_possible"
    LOCAL_MEMBERS_FULL = "local_members_full"


WHY: dict[RemoteReason, str] = {
    RemoteReason.MEMBER_WITHOUT_RACK: "the member has no rack",
    RemoteReason.RACKS_UNKNOWN: "the racks of its replicas are not known",
    RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS: "no member in the racks of its replicas subscribes to the topic",
    RemoteReason.LOCAL_MEMBER_HAD_ROOM: "a member in its racks has fewer partitions; "
    "the assignor is sticky, assigns topic by topic, or ignores racks",
    RemoteReason.NO_REPLICA_IN_MEMBERS_RACK: "the member's rack has no replica of any topic it subscribes to",
    RemoteReason.SWAP_POSSIBLE: "a swap with a member in its racks would make it local; "
    "the assignor is sticky, assigns topic by topic, or ignores racks",
    RemoteReason.LOCAL_MEMBERS_FULL: "the members in its racks are full (balance takes precedence over locality)",
}
"""The text of each reason."""

_REASONS = list(RemoteReason)
_NUMBER = {reason: number for number, reason in enumerate(_REASONS)}


def is_local(group: GroupSpec, members: Ints, partitions: Ints) -> Bools:
    """Return for pairs of member and partition number whether the member's rack has a replica.

    Replicas count in whatever state (KIP-881).
    """
    if not group.racks:
        return np.zeros(len(partitions), np.bool_)
    racks = group.rack_of[members]
    local: Bools = group.local[racks, group.topology.replica_racks_of[partitions]] & (racks >= 0)
    return local


def why_remote(group: GroupSpec, assignment: Assignment, members: Ints, remote: Bools) -> list[RemoteReason]:
    """Return the reason for each entry of `assignment.partitions` that `remote` marks.

    `members`: the owner of each entry, marked or not.
    """
    topology = group.topology
    entries = np.flatnonzero(remote)
    owners, partitions = members[entries], assignment.partitions[entries]
    topics, sets = topology.topic_of[partitions], topology.replica_racks_of[partitions]
    found = np.full(len(entries), -1, np.int64)

    def settle(reason: RemoteReason, where: Bools) -> None:
        found[(found < 0) & where] = _NUMBER[reason]

    settle(RemoteReason.MEMBER_WITHOUT_RACK, group.rack_of[owners] < 0)
    settle(RemoteReason.RACKS_UNKNOWN, np.array([not racks for racks in topology.rack_sets], np.bool_)[sets])
    if (found < 0).any():
        classes = _Classes(group, assignment.counts)
        least = classes.least_loaded(topics, sets)
        settle(RemoteReason.NO_SUBSCRIBER_IN_ITS_RACKS, least == _NO_MEMBER)
        settle(RemoteReason.LOCAL_MEMBER_HAD_ROOM, least < assignment.counts[owners])
        settle(RemoteReason.NO_REPLICA_IN_MEMBERS_RACK, ~classes.has_local_topics()[classes.of[owners]])
        undecided = np.flatnonzero(found < 0)
        swappable = classes.swaps(
            classes.of[owners[undecided]],
            topics[undecided],
            sets[undecided],
            _offers(topology.topic_of, topology.replica_racks_of, assignment.partitions, classes.of[members], remote),
        )
        found[undecided] = np.where(
            swappable, _NUMBER[RemoteReason.SWAP_POSSIBLE], _NUMBER[RemoteReason.LOCAL_MEMBERS_FULL]
        )
    return [_REASONS[number] for number in found.tolist()]


def _offers(topic_of: Ints, set_of: Ints, partitions: Ints, classes: Ints, remote: Bools) -> Ints:
    """Return the distinct kinds of partitions that members could give in exchange.

    Rows: the owner's class, topic, rack set, and whether it is remote to its owner.
    """
    kinds = np.stack([classes, topic_of[partitions], set_of[partitions], remote.astype(np.int64)])
    kinds = kinds[:, classes >= 0]
    key = np.zeros(kinds.shape[1], np.int64)
    for column in kinds:
        key = key * (int(column.max(initial=0)) + 1) + column
    return kinds[:, np.unique(key, return_index=True)[1]]


class _Classes:
    """Members that have a rack, by subscription and rack.

    Members of a class differ only in their partitions.
    """

    def __init__(self, group: GroupSpec, counts: Ints) -> None:
        self.group = group
        with_rack = np.flatnonzero(group.rack_of >= 0)
        racks = len(group.racks)
        keys, of = np.unique(group.subscription_of[with_rack] * racks + group.rack_of[with_rack], return_inverse=True)
        self.of = np.full(len(group), -1, np.int64)
        """The class of each member; -1 for a member without a rack."""
        self.of[with_rack] = of
        self.subscription: Ints = keys // racks
        self.rack: Ints = keys % racks
        self.least = np.full(len(keys), _NO_MEMBER, np.int64)
        """For each class the smallest number of partitions of a member."""
        np.minimum.at(self.least, of, counts[with_rack])

    def least_loaded(self, topics: Ints, sets: Ints) -> Ints:
        """Return the smallest count of a subscriber of the topic in a rack of the set.

        The count is `_NO_MEMBER` if no such subscriber exists.
        """
        group = self.group
        by_rack = np.full((len(group.racks), len(group.topology)), _NO_MEMBER, np.int64)
        for rack, subscription, least in zip(
            self.rack.tolist(), self.subscription.tolist(), self.least.tolist(), strict=True
        ):
            subscribed = group.subscriptions[subscription].topics
            by_rack[rack, subscribed] = np.minimum(by_rack[rack, subscribed], least)
        result = np.full(len(topics), _NO_MEMBER, np.int64)
        for number, where in _by_value(sets):
            racks = np.flatnonzero(group.local[:, number])
            if len(racks):
                result[where] = by_rack[np.ix_(racks, topics[where])].min(axis=0)
        return result

    def has_local_topics(self) -> Bools:
        """Return for each class whether its rack has a replica of any subscribed topic."""
        group, topology = self.group, self.group.topology
        there = np.zeros((len(group.racks), len(topology)), np.bool_)
        for number, where in _by_value(topology.replica_racks_of):
            racks = np.flatnonzero(group.local[:, number])
            if len(racks):
                there[np.ix_(racks, np.unique(topology.topic_of[where]))] = True
        return np.array(
            [
                bool(there[rack, group.subscriptions[subscription].topics].any())
                for rack, subscription in zip(self.rack.tolist(), self.subscription.tolist(), strict=True)
            ],
            np.bool_,
        )

    def swaps(self, classes: Ints, topics: Ints, sets: Ints, offers: Ints) -> Bools:
        """Return for remote partitions whether a member in their racks has a partition to swap.

        Remote partitions are given by the owner's class, topic and rack set. The partition received
        in exchange must be of a topic that the owner subscribes to, and local to the owner or
        remote before the swap, so that more partitions are local than before.
        """
        group = self.group
        owner, offered, offered_set, remote = offers
        gains = [(remote == 1) | group.local[rack, offered_set] for rack in range(len(group.racks))]
        result = np.zeros(len(classes), np.bool_)
        last, subscribed = -1, np.zeros(0, np.bool_)
        for number, where in _by_value(classes):  # classes with the same subscription are adjacent
            rack, its = int(self.rack[number]), int(self.subscription[number])
            if its != last:
                last, subscribed = its, group.subscribes[its, offered]
            gives = np.zeros(len(self.subscription), np.bool_)
            gives[owner[subscribed & gains[rack]]] = True
            result[where] = self._has_local_subscriber(np.flatnonzero(gives), topics[where], sets[where])
        return result

    def _has_local_subscriber(self, partners: Ints, topics: Ints, sets: Ints) -> Bools:
        """Return for each topic and rack set whether a local subscriber is among `partners`."""
        local = self.group.local
        found = np.zeros(len(topics), np.bool_)
        step = 64  # most topics have a partner among the first classes
        while len(partners) and not found.all():
            some, partners = partners[:step], partners[step:]
            open_ = np.flatnonzero(~found)
            takes = self.group.subscribes[np.ix_(self.subscription[some], topics[open_])]
            found[open_] = (takes & local[np.ix_(self.rack[some], sets[open_])]).any(axis=0)
            step = min(4 * step, max(64, _CELLS // len(topics)))
        return found


def _by_value(values: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each distinct value with its positions."""
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-1))
    for where in np.split(order, starts[1:]) if len(order) else []:
        yield int(values[where[0]]), where
