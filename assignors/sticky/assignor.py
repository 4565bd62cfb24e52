"""`sticky` and `cooperative-sticky`: members keep owned partitions as far as balance allows.

Rules: KIP-54, KIP-429, KIP-881.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError, Member
from quorate.assignors.small_groups import small_groups_in_c
from quorate.assignors.sticky.constrained import Dealt, assign_equal
from quorate.assignors.sticky.few import assign_few, owned_in_user_data
from quorate.assignors.sticky.general import assign_different
from quorate.assignors.sticky.ownership import (
    Bools,
    Claims,
    cooperative_claims,
    resolve,
    stale_owners,
    sticky_claims,
)
from quorate.assignors.sticky.racks import RackView, rack_view
from quorate.assignors.sticky.user_data import cooperative_user_data, sticky_user_data
from quorate.assignors.subscribers import topics_by_name
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.releases import KafkaVersion

OLDEST = KafkaVersion(3, 0)
"""Earlier releases assign equal subscriptions by another algorithm."""

FEW = 1000
"""For so many members and partitions together, or fewer, lists are faster."""


class _Sticky(Assignor):
    """Base class of both assignors.

    They differ in the source of owned partitions and in the treatment of partitions that move.
    """

    def __init__(self, *, version: KafkaVersion = KafkaVersion.NEWEST) -> None:
        self.version = version
        self._as_of_3_7 = version >= KafkaVersion(3, 7)  # compared once: it takes a microsecond
        own = type(self) in (StickyAssignor, CooperativeStickyAssignor)
        self._in_c = small_groups_in_c() if own and version >= OLDEST else None

    def assign(self, members: Mapping[str, Member], topology: Topology, *, max_generation: int = -1) -> Assignment:
        """Assign the partitions of the subscribed topics.

        `members`: member id → member, in the order in which the members joined.

        `max_generation`: the highest generation that this leader has seen in earlier rebalances,
        which Kafka's assignor stores. Members with a lower generation count as stale, even if no
        member has a higher one now.
        """
        if self._in_c is not None and len(members) + topology.partition_count <= FEW and topology.is_plain:
            options = self._hands_over, self._as_of_3_7
            lists = self._in_c.sticky(members, topology.index, topology.starts, *options)
            if lists is not None:
                return Assignment.from_lists(topology, tuple(members), lists)
        return self.assign_group(GroupSpec(members, topology), max_generation=max_generation)

    def assign_group(self, group: GroupSpec, *, max_generation: int = -1) -> Assignment:
        """Assign a prepared group; see `assign`."""
        if self.version < OLDEST:
            raise AssignorError(
                f"{self.name} supports Kafka {OLDEST} to {KafkaVersion.NEWEST}, not {self.version}; "
                "leave `version` out, or give a later one"
            )
        as_of_3_7 = self._as_of_3_7
        if len(group.subscriptions) == 1 and not group.racks and group.size <= FEW:
            found = assign_few(group, self._owned(group), as_of_3_7=as_of_3_7, hands_over=self._hands_over)
            if found is not None:
                return found
        claims = self._claims(group)
        if not len(group):
            empty = np.empty(0, np.int64)
            return Assignment.from_owners(group.topology, group.member_ids, empty, empty)
        assignable = _assignable(group)
        owned = resolve(group, claims, assignable)
        racks = rack_view(group, assignable) if self.version >= KafkaVersion(3, 5) else RackView(group, False, None)
        topics = topics_by_name(group, np.flatnonzero(assignable))
        dealt = None
        if _looks_equal(group):
            dealt = assign_equal(group, owned, racks, topics, as_of_3_7=as_of_3_7)
            if len(group.subscriptions) > 1 and not _subscribed(group, dealt):
                dealt = None
        if dealt is None:
            newest = max(max_generation, int(claims.generation.max()))
            member, number = assign_different(group, owned, stale_owners(group, claims, newest), racks, topics)
            dealt = Dealt(member, number, _transferring(group, claims, member, number))
        member, number = dealt.member, dealt.number
        if self._hands_over and dealt.transferring.any():
            now = ~dealt.transferring
            member, number = member[now], number[now]
        return Assignment.from_owners(group.topology, group.member_ids, number, member)

    _hands_over: ClassVar[bool] = False
    """Whether a partition that moves is assigned only after its owner has revoked it."""

    @abstractmethod
    def _claims(self, group: GroupSpec) -> Claims: ...

    def _owned(self, group: GroupSpec) -> Sequence[list[int]]:
        """Return the partitions in the claims of each member."""
        return group.owned_lists


class StickyAssignor(_Sticky):
    """Kafka's eager `StickyAssignor`: balanced, with as few moves as possible (KIP-54, KIP-881).

    The result is that of Kafka 4.3.1, in the same order, wherever that is valid. Members send their
    previous assignment as user data (`subscription_user_data`). `owned` and `generation` of a
    `Member` are used where it has no user data.

    Kafka's result is not valid in these cases, but this assignor's is:

    - A member owns a partition that its topic no longer has (the topic was recreated with fewer
      partitions): Kafka may assign it, and assign other partitions twice.
    - A member has an empty subscription and comes first in hash order: Kafka may assign it
      partitions of topics that it does not subscribe to.
    - A member of an older generation no longer subscribes to a topic: Kafka may return a partition
      of that topic to it.
    - Such a member has all partitions that it can have, and shares no topic: Kafka fails with a
      NullPointerException. Here the member does not get the partition back.
    - Metadata lacks partitions of a topic: Kafka may assign the missing ones, or fail.

    `version` must be 3.0 or later. Before Kafka 3.7, members with equal subscriptions and too many
    partitions keep those that they list first; since then, the lowest. Before 3.5, racks are
    ignored. How releases before 3.5 resolved conflicting claims is not reproduced.
    """

    name = "sticky"

    def _claims(self, group: GroupSpec) -> Claims:
        return sticky_claims(group)

    def _owned(self, group: GroupSpec) -> Sequence[list[int]]:
        return owned_in_user_data(group)

    @staticmethod
    def subscription_user_data(owned: Sequence[tuple[str, int]] | None, generation: int) -> bytes | None:
        """Return the user data of a member that was assigned `owned` in `generation`.

        The bytes are those that Kafka writes; `None` if the member never had an assignment.
        """
        return None if owned is None else sticky_user_data(owned, generation)


class CooperativeStickyAssignor(_Sticky):
    """Kafka's `CooperativeStickyAssignor`: members keep partitions in a rebalance (KIP-429).

    A partition that moves is assigned to no member at first. Its owner revokes it, which starts
    another rebalance, and that one assigns it. Owned partitions come from the subscription. So does
    the generation, or else from the user data.

    The notes of `StickyAssignor` on results that are not valid, and on `version`, apply here too.
    With version 3.5 or 3.6 and equal subscriptions, a partition that a member loses because of its
    rack is assigned at once, while the member still owns it.

    Two kinds of results are reproduced, because they are valid assignments:

    - With different subscriptions, a member of an older generation may get a partition back that
      another member still owns. The adapters withhold it
      (`quorate.assignors.adapters.leader.hold_back`).
    - With different subscriptions and racks, some groups never converge: each rebalance reassigns
      the partitions outside their owners' racks.
    """

    name = "cooperative-sticky"
    _hands_over = True

    def _claims(self, group: GroupSpec) -> Claims:
        return cooperative_claims(group)

    @staticmethod
    def subscription_user_data(owned: Sequence[tuple[str, int]] | None, generation: int) -> bytes:
        """Return the user data of a member that was last assigned in `generation`; -1 for never.

        The bytes are those that Kafka writes; `owned` is not part of them.
        """
        return cooperative_user_data(generation)


def _assignable(group: GroupSpec) -> Bools:
    """Mark the topics that have partitions and a subscriber."""
    topology = group.topology
    assignable = np.zeros(len(topology.topics), np.bool_)
    assignable[group.subscribed_topics] = True
    return assignable & (topology.sizes > 0)


def _looks_equal(group: GroupSpec) -> bool:
    """Return whether Kafka considers all subscriptions equal.

    In hash order, it compares only from the first member with a subscription that is not empty.
    """
    if len(group.subscriptions) == 1:
        return True
    if len(group.subscriptions) > 2 or all(subscription.key for subscription in group.subscriptions):
        return False
    empty = 0 if not group.subscriptions[0].key else 1
    subscribes = group.subscription_of[group.hash_order] != empty
    return bool(subscribes[int(subscribes.argmax()) :].all())


def _subscribed(group: GroupSpec, dealt: Dealt) -> bool:
    """Return whether all members subscribe to the topics they are assigned."""
    topics = group.topology.topic_of[dealt.number]
    return bool(group.subscribes[group.subscription_of[dealt.member], topics].all())


def _transferring(group: GroupSpec, claims: Claims, member: Ints, number: Ints) -> Bools:
    """Mark assigned partitions that are claimed, but not by the members that get them."""
    total = int(group.topology.first[-1])
    owner = np.full(total, -1, np.int64)
    owner[number] = member
    real = (claims.number >= 0) & (claims.number < total)
    claimed, kept = np.zeros(total, np.bool_), np.zeros(total, np.bool_)
    claimed[claims.number[real]] = True
    kept[claims.number[real][owner[claims.number[real]] == claims.member[real]]] = True
    return (claimed & ~kept)[number]
