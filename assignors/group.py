"""A group as arrays of numbers: members, topics, partitions and racks.

All assignors work on it. It is built once per input.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from quorate.assignors import java_order
from quorate.assignors.java_order.few import few_string_places
from quorate.assignors.model import Assignment, Member
from quorate.assignors.subscription_type import SubscriptionType
from quorate.assignors.topology import Ints, Topology, grouped
from quorate.codecs import Uuid

_FEW = 50
"""Of fewer members, lists are faster than arrays."""
_NONE: Ints = np.empty(0, np.int64)

__all__ = ["GroupSpec", "MemberSubscription", "Subscription", "SubscriptionType"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What a member of a group subscribes to, as server-side assignors see it (KIP-848).

    - `rack_id`: `client.rack`; `None` without one.
    - `instance_id`: `group.instance.id` of a static member.
    - `subscribed_topic_ids`: topics that exist, by name or matched by the member's regex.
    """

    rack_id: str | None
    instance_id: str | None
    subscribed_topic_ids: frozenset[Uuid]


class Subscription:
    """The topics that one or several members subscribe to.

    `topics`: the numbers of those that the topology has, in the order listed; `key`: all names.
    """

    __slots__ = ("_index", "_names", "_topics", "key")

    def __init__(self, names: tuple[str, ...], topology: Topology) -> None:
        self.key = frozenset(names)
        self._names = names
        self._index = topology.index
        self._topics: Ints | None = None

    @property
    def topics(self) -> Ints:
        """The numbers of the topics; small groups need no array."""
        if self._topics is None:
            index = self._index
            known = dict.fromkeys(filter(index.__contains__, self._names))
            self._topics = np.array([index[name] for name in known], np.int64)
        return self._topics


class GroupSpec:
    """The input of an assignor: the members of a group and the topics.

    `member_subscription`, `member_assignment`, `subscription_type` and `is_partition_assigned` are
    those of Kafka's interface `GroupSpec`. The other attributes are the same as arrays, for groups
    of thousands of members: members are numbered from 0 in the order given, topics and partitions
    have the numbers of `topology`.

    - `subscriptions`: the distinct subscriptions, compared as sets; `subscription_of[m]` is that of
      member `m`.
    - `subscription_type`: whether all members subscribe to the same topics. A coordinator sets what
      it has determined. Otherwise the type is that of a group without regexes, in which names of
      topics that do not exist count as well.
    - `listings`: the distinct lists of names in subscriptions; `listing_of[m]` is that of member
      `m`; `listing_numbers` is the same as a list.
    - `size`: how many members and partitions there are; `racks`: the distinct racks of members.
    - `from_subscriptions`: cache of values that assignors derive from subscriptions and the
      topology. `with_owned` passes it on to the new group. `from_owned` is that of values derived
      from owned partitions.
    - `owned[owned_offsets[m]:owned_offsets[m + 1]]`: the owned partitions of member `m`, in its
      order; -1 for a partition that the topology does not have.
    - `withheld`: partitions (or -1) that no member owns but that the broker counts as owned,
      because its map of owners still has members that left the group.
    """

    def __init__(self, members: Mapping[str, Member], topology: Topology) -> None:
        self.members = members
        self.member_ids: Sequence[str] = tuple(members)
        self.topology = topology
        self.size = len(members) + topology.partition_count
        self.withheld: Ints = _NONE
        # Members of one application usually share one list of names, often the same object. Only
        # distinct lists are compared as sets.
        by_identity: dict[int, int] = {}
        by_names: dict[tuple[str, ...], int] = {}
        by_key: dict[frozenset[str], int] = {}
        self.subscriptions: list[Subscription] = []
        meant: list[int] = []
        self.listing_numbers: list[int] = []
        for member in members.values():
            topics = member.topics
            listing = by_identity.get(id(topics))
            if listing is None:
                names = tuple(topics)
                listing = by_names.setdefault(names, len(meant))
                if listing == len(meant):
                    subscription = Subscription(names, topology)
                    meant.append(by_key.setdefault(subscription.key, len(self.subscriptions)))
                    if meant[-1] == len(self.subscriptions):
                        self.subscriptions.append(subscription)
                by_identity[id(topics)] = listing
            self.listing_numbers.append(listing)
        self.listings: Sequence[tuple[str, ...]] = tuple(by_names)
        self._subscription_of_listing = meant
        alike = len(self.subscriptions) <= 1
        self.subscription_type = SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
        self.racks: list[str] = list(dict.fromkeys([member.rack for member in members.values() if member.rack]))
        self.from_subscriptions: dict[Hashable, Any] = {}
        self.from_owned: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.member_ids)

    @cached_property
    def listing_of(self) -> Ints:
        """The list of names of each member."""
        return np.array(self.listing_numbers, np.int64)

    @cached_property
    def subscription_of(self) -> Ints:
        """The subscription of each member."""
        return np.array(self._subscription_of_listing, np.int64)[self.listing_of]

    def member_subscription(self, member_id: str) -> MemberSubscription:
        """Return rack, instance id and topics of a member. Raises `KeyError`."""
        member = self.members[member_id]
        subscription = int(self.subscription_of[self._number_of[member_id]])
        return MemberSubscription(
            rack_id=member.rack or None,
            instance_id=member.instance_id,
            subscribed_topic_ids=self._subscribed_ids[subscription],
        )

    def member_assignment(self, member_id: str) -> dict[Uuid, list[int]]:
        """Return the current target assignment of a member. Raises `KeyError`.

        Partitions that no longer exist are left out. The member may have unsubscribed from a topic.
        """
        number = self._number_of[member_id]
        owned = self.owned[self.owned_offsets[number] : self.owned_offsets[number + 1]]
        by_name = grouped(self.topology.topic_partitions(owned[owned >= 0]))
        ids = {name: self.topology.topics[self.topology.index[name]].id for name in by_name}
        return {topic_id: by_name[name] for name, topic_id in ids.items() if topic_id is not None}

    def is_partition_assigned(self, topic_id: Uuid, partition: int) -> bool:
        """Return whether a partition is in the current target assignment of a member."""
        index = self.topology.index_by_id.get(topic_id)
        number = -1 if index is None else self.topology.number(self.topology.topics[index].name, partition)
        return number >= 0 and bool(self._is_assigned[number])

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {member_id: number for number, member_id in enumerate(self.member_ids)}

    @cached_property
    def _subscribed_ids(self) -> list[frozenset[Uuid]]:
        ids = [topic.id for topic in self.topology.topics]
        return [
            frozenset(found for topic in one.topics.tolist() if (found := ids[topic]) is not None)
            for one in self.subscriptions
        ]

    @cached_property
    def _is_assigned(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        assigned = np.zeros(self.topology.first[-1], np.bool_)
        for numbers in (self.owned, self.withheld):
            assigned[numbers[numbers >= 0]] = True
        return assigned

    @cached_property
    def owned_offsets(self) -> Ints:
        """The start of each member's part of `owned`; one entry more than there are members."""
        offsets = np.zeros(len(self.members) + 1, np.int64)
        np.cumsum([len(member.owned) for member in self.members.values()], out=offsets[1:])
        return offsets

    @cached_property
    def owned(self) -> Ints:
        """Owned partitions, member after member; -1 for one that the topology does not have."""
        number = self.topology.number
        return np.fromiter(
            (number(topic, partition) for member in self.members.values() for topic, partition in member.owned),
            np.int64,
            int(self.owned_offsets[-1]),
        )

    @cached_property
    def owned_lists(self) -> Sequence[list[int]]:
        """Owned partitions of each member, as lists."""
        if "owned" not in self.__dict__:
            return [self.numbers_of(member.owned) if member.owned else [] for member in self.members.values()]
        owned: list[int] = self.owned.tolist()
        offsets: list[int] = self.owned_offsets.tolist()
        return [owned[start:end] for start, end in pairwise(offsets)]

    def numbers_of(self, owned: Iterable[tuple[str, int]]) -> list[int]:
        """Return the numbers of partitions; -1 for one that the topology does not have."""
        ranges = self.topology.ranges
        try:
            return [ranges[topic][partition] if partition >= 0 else -1 for topic, partition in owned]
        except (KeyError, IndexError):  # one that does not exist, or a topic with gaps
            number = self.topology.number
            return [number(topic, partition) for topic, partition in owned]

    @cached_property
    def owned_counts(self) -> Ints:
        """The number of owned partitions of each member."""
        return np.diff(self.owned_offsets)

    @cached_property
    def owning(self) -> Ints:
        """The member that owns each entry of `owned`."""
        return np.repeat(np.arange(len(self)), self.owned_counts)

    @cached_property
    def generations(self) -> Ints:
        """The generation of each member's owned partitions; -1 if unknown."""
        return np.fromiter((member.generation for member in self.members.values()), np.int64, len(self.members))

    @cached_property
    def user_data(self) -> Sequence[bytes | None]:
        """The user data of each member's subscription."""
        return [member.user_data for member in self.members.values()]

    @cached_property
    def subscribes(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """`subscribes[s, t]`: subscription `s` includes topic `t`."""
        matrix = np.zeros((len(self.subscriptions), len(self.topology)), np.bool_)
        for number, subscription in enumerate(self.subscriptions):
            matrix[number, subscription.topics] = True
        return matrix

    @cached_property
    def subscribed_topics(self) -> Ints:
        """Topics of the topology that at least one member subscribes to, ascending."""
        if not self.subscriptions:
            return np.empty(0, np.int64)
        return np.unique(np.concatenate([subscription.topics for subscription in self.subscriptions]))

    @cached_property
    def rack_of(self) -> Ints:
        """The rack of each member, as an index of `racks`; -1 for a member without a rack."""
        index = {rack: number for number, rack in enumerate(self.racks)}
        return np.fromiter((index.get(member.rack or "", -1) for member in self.members.values()), np.int64, len(self))

    @cached_property
    def local(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """`local[r, s]`: rack `r` of `racks` has a replica, given `topology.rack_sets[s]`."""
        sets = self.topology.rack_sets
        matrix = np.zeros((len(self.racks), len(sets)), np.bool_)
        for number, rack in enumerate(self.racks):
            matrix[number] = [rack in racks for racks in sets]
        return matrix

    @cached_property
    def hash_order(self) -> Ints:
        """Members in the iteration order of a Java HashMap, inserted in the order given."""
        if len(self) < _FEW:
            return np.array(self.hash_places, np.int64)
        return java_order.hash_map_order(java_order.string_hashes(self.member_ids), keys=self.member_ids)

    @cached_property
    def hash_places(self) -> list[int]:
        """The same as a list."""
        if len(self) < _FEW and "hash_order" not in self.__dict__:
            return few_string_places(self.member_ids)
        places: list[int] = self.hash_order.tolist()
        return places

    @cached_property
    def hash_place(self) -> Ints:
        """The position of each member in `hash_order`."""
        places = np.empty(len(self), np.int64)
        places[self.hash_order] = np.arange(len(self))
        return places

    @cached_property
    def id_places(self) -> list[int]:
        """Members by member id, in Java's string order."""
        return java_order.string_places(self.member_ids)

    @cached_property
    def id_order(self) -> Ints:
        """The same as an array."""
        return np.array(self.id_places, np.int64)

    @cached_property
    def sorted_places(self) -> list[int]:
        """Members in Kafka's sort order: static by instance id, then the others by member id.

        Both are in Java's string order.
        """
        members = self.members.values()
        static = [(one.instance_id, number) for number, one in enumerate(members) if one.instance_id is not None]
        if not static:
            return java_order.string_places(self.member_ids)
        dynamic = [(name, number) for number, (name, one) in enumerate(self.members.items()) if one.instance_id is None]
        if len({instance_id for instance_id, _ in static}) < len(static):
            # A broker never lets two members share an instance id. For such input Kafka's stable
            # sort leaves them in hash order.
            in_hash_order = {int(number): place for place, number in enumerate(self.hash_order)}
            static.sort(key=lambda one: (java_order.string_key(one[0]), in_hash_order[one[1]]))
            return [number for _, number in static] + _sorted(dynamic)
        return _sorted(static) + _sorted(dynamic)

    @cached_property
    def sorted_order(self) -> Ints:
        """The same as an array."""
        return np.array(self.sorted_places, np.int64)

    def copied(self) -> "GroupSpec":
        """Return a copy for code that may change it.

        Members and topics are shared, but what was owned does not change.
        """
        self.owned  # noqa: B018  # computed before that code runs
        other = GroupSpec.__new__(GroupSpec)
        for name, value in self.__dict__.items():
            if name != "owned_lists":
                other.__dict__[name] = value.copy() if isinstance(value, np.ndarray | list | dict) else value
        other.from_subscriptions, other.from_owned = {}, {}
        return other

    def with_owned(self, assignment: Assignment, *, generation: int = -1) -> "GroupSpec":
        """Return the same group with owned partitions from `assignment`, and without user data.

        Raises `ValueError` if the assignment has other members, another order of members, or
        another topology.
        """
        if assignment.topology is not self.topology or tuple(assignment.member_ids) != tuple(self.member_ids):
            raise ValueError(
                "the assignment is of another group; assign this group, or create a GroupSpec with its members"
            )
        other = GroupSpec.__new__(GroupSpec)
        # All derived values stay valid, except those that depend on owned partitions.
        replaced = {"owned", "owned_offsets", "owned_lists", "owned_counts", "owning", "generations", "user_data"}
        replaced.add("_is_assigned")
        other.__dict__.update({key: value for key, value in self.__dict__.items() if key not in replaced})
        other.__dict__["owned"] = assignment.partitions
        other.__dict__["owned_offsets"] = assignment.offsets
        other.__dict__["generations"] = np.full(len(self), generation, np.int64)
        other.__dict__["user_data"] = [None] * len(self)
        other.from_owned = {}
        return other


def _sorted(named: list[tuple[str, int]]) -> list[int]:
    """Return the numbers sorted by their names in Java's string order; ties keep their order."""
    return [named[place][1] for place in java_order.string_places([name for name, _ in named])]
