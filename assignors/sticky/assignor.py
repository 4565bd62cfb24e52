"""`sticky` and `cooperative-sticky`: members keep what they have as far as balance allows (KIP-54, KIP-429, KIP-881)."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError, Member
from quorate.assignors.sticky.constrained import Dealt, assign_equal
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

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]

OLDEST = KafkaVersion(3, 0)
"""Before, equal subscriptions were assigned in another way."""


class _Sticky(Assignor):
    """What both have in common: everything but how owned partitions are told, and what happens to those that change hands."""

    def __init__(self, *, version: KafkaVersion = KafkaVersion.NEWEST) -> None:
        self.version = version

    def assign(self, members: Mapping[str, Member], topology: Topology, *, max_generation: int = -1) -> Assignment:
        """Assign the partitions of the subscribed topics.

        `members`: member id → member, in the order in which they joined.

        `max_generation`: the highest generation that this leader has seen in earlier rebalances,
        which Kafka's assignor remembers; members that tell a lower one count as behind, even if
        nobody told a higher one this time.
        """
        return self.assign_group(GroupSpec(members, topology), max_generation=max_generation)

    def assign_group(self, group: GroupSpec, *, max_generation: int = -1) -> Assignment:
        """The same for a group that is prepared."""
        if self.version < OLDEST:
            raise AssignorError(
                f"{self.name} answers like Kafka {OLDEST} to {KafkaVersion.NEWEST}, not like {self.version}: leave `version` out, or give a later one"
            )
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
            dealt = assign_equal(group, owned, racks, topics, as_of_3_7=self.version >= KafkaVersion(3, 7))
            if len(group.subscriptions) > 1 and not _subscribed(group, dealt):
                dealt = None
        if dealt is None:
            newest = max(max_generation, int(claims.generation.max()))
            member, number = assign_different(group, owned, stale_owners(group, claims, newest), racks, topics)
            dealt = Dealt(member, number, _changing_hands(group, claims, member, number))
        dealt = self._now(dealt)
        return Assignment.from_owners(group.topology, group.member_ids, dealt.number, dealt.member)

    @abstractmethod
    def _claims(self, group: GroupSpec) -> Claims: ...

    def _now(self, dealt: Dealt) -> Dealt:
        """What is handed out in this rebalance."""
        return dealt


class StickyAssignor(_Sticky):
    """Balanced, and as many partitions as possible stay where they are; eager: members give up everything before each rebalance (KIP-54, KIP-881).

    The answer is that of Kafka 4.3.1's `StickyAssignor`, order included, wherever that is valid.
    Members tell what they had in their user data (`subscription_user_data`); `owned` and
    `generation` of a `Member` stand in where it has none.

    Where Kafka's answer is not valid, this one is:

    - a member owns a partition that its topic does not have (the topic was made anew, with fewer):
      Kafka may hand it out, and others twice;
    - a member subscribes to nothing, and comes before all others in hash order: Kafka may give it
      partitions of topics that it does not read;
    - a member of an older generation is not subscribed to a topic any more: Kafka may give it a
      partition of that topic back;
    - such a one has all that it can have, and shares no topic: Kafka fails with a
      NullPointerException. It cannot get a partition back here;
    - metadata lacks partitions of a topic: Kafka may hand those out, or fail.

    `version`, from 3.0 on: before Kafka 3.7, members with equal subscriptions and too many
    partitions keep those that they named first, since then the lowest; before 3.5, racks do not
    count. How releases before 3.5 settled contradicting claims is not kept.
    """

    name = "sticky"

    def _claims(self, group: GroupSpec) -> Claims:
        return sticky_claims(group)

    @staticmethod
    def subscription_user_data(owned: Sequence[tuple[str, int]] | None, generation: int) -> bytes | None:
        """The user data of a member that got `owned` in `generation`, as Kafka writes it; `None`, if it never got an assignment."""
        return None if owned is None else sticky_user_data(owned, generation)


class CooperativeStickyAssignor(_Sticky):
    """As `StickyAssignor`, for members that keep their partitions during a rebalance (KIP-429): what changes hands is given to nobody at first.

    Its owner gives it up, which starts another rebalance, and that gives it away. Owned partitions
    come from the subscription, and the generation too, or else from the user data. What
    `StickyAssignor` says about answers of Kafka that are not valid holds here, and what it says
    about `version`. With one of 3.5 or 3.6, what members with equal subscriptions lose since it is
    in another rack is given away at once, while they still have it.

    Two things that Kafka does are kept, since its answers are valid assignments:

    - with different subscriptions, a member of an older generation may get a partition back that
      another one still has. The adapters hold it back
      (`quorate.assignors.adapters.leader.hold_back`);
    - with different subscriptions and racks, there are groups that never settle: what is outside
      its owner's rack is dealt anew in each rebalance.
    """

    name = "cooperative-sticky"

    def _claims(self, group: GroupSpec) -> Claims:
        return cooperative_claims(group)

    def _now(self, dealt: Dealt) -> Dealt:
        now = ~dealt.transferring
        return Dealt(dealt.member[now], dealt.number[now], dealt.transferring[now])

    @staticmethod
    def subscription_user_data(owned: Sequence[tuple[str, int]] | None, generation: int) -> bytes:
        """The user data of a member whose last assignment was in `generation` (-1: it had none), as Kafka writes it.

        `owned` does not stand in it.
        """
        return cooperative_user_data(generation)


def _assignable(group: GroupSpec) -> Bools:
    """By topic: somebody subscribes to it, and it has partitions."""
    topology = group.topology
    assignable = np.zeros(len(topology.topics), np.bool_)
    assignable[group.subscribed_topics] = True
    return assignable & (topology.sizes > 0)


def _looks_equal(group: GroupSpec) -> bool:
    """Whether Kafka takes all subscriptions for equal: it looks at the first member, in hash order, that subscribes to anything, and those after it."""
    if len(group.subscriptions) == 1:
        return True
    if len(group.subscriptions) > 2 or all(subscription.key for subscription in group.subscriptions):
        return False
    empty = 0 if not group.subscriptions[0].key else 1
    subscribes = group.subscription_of[group.hash_order] != empty
    return bool(subscribes[int(subscribes.argmax()) :].all())


def _subscribed(group: GroupSpec, dealt: Dealt) -> bool:
    """Whether everybody reads what it got."""
    topics = group.topology.topic_of[dealt.number]
    return bool(group.subscribes[group.subscription_of[dealt.member], topics].all())


def _changing_hands(group: GroupSpec, claims: Claims, member: Ints, number: Ints) -> Bools:
    """What somebody claims to have, and goes to somebody who does not."""
    total = int(group.topology.first[-1])
    owner = np.full(total, -1, np.int64)
    owner[number] = member
    real = (claims.number >= 0) & (claims.number < total)
    claimed, kept = np.zeros(total, np.bool_), np.zeros(total, np.bool_)
    claimed[claims.number[real]] = True
    kept[claims.number[real][owner[claims.number[real]] == claims.member[real]]] = True
    return (claimed & ~kept)[number]
