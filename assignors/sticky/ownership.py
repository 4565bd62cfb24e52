"""Partition ownership in the sticky assignors: claims, conflicts, and owners of older generations.

A claim is a member's statement that it owns a partition. Partitions are numbered as in the
topology. A claim to a partition that its topic no longer has (the topic was recreated with fewer)
gets a higher number: it counts in conflicts but is never assigned.

One of Kafka's rules (AbstractStickyAssignor, KIP-792) is surprising: if two members claim a
partition, the generation of the first in Java's hash order is that of its *subscription*, and the
other's is the one that the assignor reads (`Claims.generation`). They differ for `sticky`, which
sends its generation in the user data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.sticky.user_data_batch import MIN_BATCH, decode_user_data
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.sticky_user_data import decode_cooperative_sticky_user_data, decode_sticky_user_data

Bools = npt.NDArray[np.bool_]

NO_MEMBER = -1
"""In place of a member number."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions that members claim.

    `member[i]` claims partition `number[i]`; claims are grouped by member, in its order.

    - `number`: -1 for a topic that is not in the topology; for a partition that the topic does not
      have, a number from the topology's number of partitions on.
    - `missing_topics`: the topics of the latter.
    - `generation`: the generation of each member, -1 if unknown.
    - `subscription_generation`: the generation in each member's subscription.
    """

    member: Ints
    number: Ints
    generation: Ints
    subscription_generation: Ints
    missing_topics: Ints


@dataclass(frozen=True)
class Ownership:
    """The claims that remain: `member[i]` owns `number[i]`, in the order of the claims.

    `contested`: partitions that several members claimed in the same generation.
    `missing_member[i]` owns a partition that topic `missing_topic[i]` does not have.
    """

    member: Ints
    number: Ints
    contested: Ints
    missing_member: Ints
    missing_topic: Ints


def sticky_claims(group: GroupSpec) -> Claims:
    """Return the claims of `sticky`: from the user data, or from `owned` for members without it.

    Kafka's StickyAssignor ignores the owned partitions of a subscription, because an eager member
    has revoked them all before it joins. So `owned` without user data was set by the caller.
    """
    subscription_generation = np.maximum(group.generations, -1)
    lengths = group.owned_counts
    generation = np.where(lengths > 0, subscription_generation, -1)
    if not any(group.user_data):
        return _from_arrays(group, generation, subscription_generation)
    numbering = _PartitionNumbers(group.topology)
    number: list[int] = []
    sizes = np.zeros(len(group), np.int64)
    decoded = decode_user_data(group.user_data, group.topology) if len(group) > MIN_BATCH else None
    for member in range(len(group)) if decoded is None else np.flatnonzero(~decoded.complete).tolist():
        before = len(number)
        data = group.user_data[member]
        if data:
            message = decode_sticky_user_data(data)
            generation[member] = message.generation
            for entry in message.previous_assignment:
                number += numbering.numbers(entry.topic, entry.partitions)
        elif lengths[member]:
            for topic, partition in group.members[group.member_ids[member]].owned:
                number += numbering.numbers(topic, (partition,))
        sizes[member] = len(number) - before
    owners = np.repeat(np.arange(len(group)), sizes)
    numbers = np.array(number, np.int64)
    if decoded is not None:
        generation[decoded.complete] = decoded.generation[decoded.complete]
        if number:
            owners, numbers = np.concatenate([decoded.member, owners]), np.concatenate([decoded.number, numbers])
            order = np.argsort(owners, kind="stable")
            owners, numbers = owners[order], numbers[order]
        else:
            owners, numbers = decoded.member, decoded.number
    return Claims(owners, numbers, generation, subscription_generation, numbering.missing_topics)


def cooperative_claims(group: GroupSpec) -> Claims:
    """Return the claims of `cooperative-sticky`: the owned partitions of the subscriptions.

    The generation is that of the subscription, or else that in the user data.
    """
    subscription_generation = np.maximum(group.generations, -1)
    generation = subscription_generation.copy()
    if any(data is not None for data in group.user_data):
        for member in np.flatnonzero(generation < 0).tolist():
            data = decode_cooperative_sticky_user_data(group.user_data[member])
            if data is not None:
                generation[member] = data.generation
    return _from_arrays(group, generation, subscription_generation)


class _PartitionNumbers:
    """Numbers of partitions, including those that their topic does not have."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._first: list[int] = topology.first.tolist()
        self._seen: dict[tuple[str, int], int] = {}

    def numbers(self, topic: str, partitions: Sequence[int]) -> list[int]:
        index = self._topology.index.get(topic)
        if index is None:
            return [-1] * len(partitions)
        first, last = self._first[index], self._first[index + 1] - 1
        if self._topology.topics[index].numbers is None:
            numbers = [first + partition for partition in partitions]
            if not numbers or (min(partitions) >= 0 and max(numbers) <= last):
                return numbers
        return [self._number(topic, partition) for partition in partitions]

    def _number(self, topic: str, partition: int) -> int:
        number = self._topology.number(topic, partition)
        return number if number >= 0 else self._first[-1] + self._seen.setdefault((topic, partition), len(self._seen))

    @property
    def missing_topics(self) -> Ints:
        return np.array([self._topology.index[topic] for topic, _ in self._seen], np.int64)


def _from_arrays(group: GroupSpec, generation: Ints, subscription_generation: Ints) -> Claims:
    member = group.owning
    number = group.owned
    numbering = _PartitionNumbers(group.topology)
    unknown = np.flatnonzero(number < 0)
    if len(unknown):
        number = number.copy()
        for place in unknown.tolist():
            owner = int(member[place])
            topic, partition = group.members[group.member_ids[owner]].owned[place - int(group.owned_offsets[owner])]
            (number[place],) = numbering.numbers(topic, (partition,))
    return Claims(member, number, generation, subscription_generation, numbering.missing_topics)


def resolve(group: GroupSpec, claims: Claims, assignable: Bools) -> Ownership:
    """Assign each partition of the `assignable` topics to at most one of the members that claim it.

    In Java's hash order of members, each claim is compared with the one before it. With the same
    generation both members lose the partition; a higher generation takes it; a lower one does not.
    """
    topology = group.topology
    total = int(topology.first[-1])
    number, member = claims.number, claims.member
    alive = number >= 0
    if not assignable.all():
        alive &= assignable[np.concatenate([topology.topic_of, claims.missing_topics, [0]])[number]]
    contested: list[int] = []
    if not alive.all():
        member, number = member[alive], number[alive]
    if len(number):
        often = np.bincount(number) > 1
        if often.any():
            keep, contested = _resolve_conflicts(group, claims, member, number, often)
            member, number = member[keep], number[keep]
    real = number < total
    if real.all():
        return Ownership(member, number, np.array(contested, np.int64), member[:0], number[:0])
    return Ownership(
        member[real],
        number[real],
        np.array([one for one in contested if one < total], np.int64),
        member[~real],
        claims.missing_topics[number[~real] - total],
    )


def _resolve_conflicts(
    group: GroupSpec, claims: Claims, member: Ints, number: Ints, often: Bools
) -> tuple[Bools, list[int]]:
    """Return which claims remain, and the partitions claimed several times in one generation."""
    places = np.flatnonzero(often[number])
    places = places[np.argsort(group.hash_place[member[places]], kind="stable")]
    keep = np.ones(len(number), np.bool_)
    keep[places] = False
    own = claims.generation[member[places]].tolist()
    others = claims.subscription_generation[member[places]].tolist()
    owner = member[places].tolist()
    before: dict[int, int] = {}  # partition → index in `places` of the previous claim
    winner: dict[int, int] = {}
    contested: dict[int, None] = {}
    for index, partition in enumerate(number[places].tolist()):
        other = before.get(partition)
        if other is None or own[index] > others[other]:
            before[partition] = index
            # If a member claims a partition twice, Kafka removes it from the list to which it has
            # just been added.
            if other is None or owner[index] != owner[other] or partition in winner:
                winner[partition] = index
        elif own[index] == others[other]:
            contested[partition] = None
            winner.pop(partition, None)
            before[partition] = index
    keep[places[np.fromiter(winner.values(), np.int64, len(winner))]] = True
    return keep, list(contested)


def stale_owners(group: GroupSpec, claims: Claims, newest: int) -> Ints | None:
    """Return for each partition the member with the newest claim below generation `newest`.

    `NO_MEMBER` where no member has one; `None` if that is true of all partitions. Among members of
    the same generation it is the first in Java's hash order.
    """
    total = int(group.topology.first[-1])
    stale = (claims.generation < newest)[claims.member] & (claims.number >= 0) & (claims.number < total)
    if not stale.any():
        return None
    member, number = claims.member[stale], claims.number[stale]
    # The last entry written remains: so lower generations come first, and within one the later in
    # hash order.
    order = np.lexsort((-group.hash_place[member], claims.generation[member]))
    owners = np.full(total, NO_MEMBER, np.int64)
    owners[number[order]] = member[order]
    return owners
