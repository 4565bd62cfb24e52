"""Who owns what, as the sticky assignors take it: claims of members, conflicts between them, and owners of older generations.

A claim is a member's word that it has a partition. Partitions are numbered as in the topology; a
claim on a partition that its topic no longer has (the topic was made anew, with fewer) gets a
number beyond: it counts in conflicts, and can never be assigned.

Of Kafka's rules (AbstractStickyAssignor, KIP-792) this one surprises: where two members claim a
partition, the generation of the one that comes first in Java's hash order is that of its
*subscription*, while the other's is the one that the assignor reads (`Claims.generation`). They
differ for `sticky`, which keeps its generation in the user data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorate.assignors.group import GroupSpec
from quorate.assignors.sticky.told import FEW, read_together
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.sticky_user_data import decode_cooperative_sticky_user_data, decode_sticky_user_data

__all__ = ["NOBODY", "Bools", "Claims", "Ownership", "cooperative_claims", "resolve", "stale_owners", "sticky_claims"]

Bools = npt.NDArray[np.bool_]

NOBODY = -1
"""In place of a member."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What members say they have.

    `member[i]` claims partition `number[i]`, member after member, in each one's order.

    `number` is -1 for a topic that is not in the topology, and from the topology's number of
    partitions on for one that the topic does not have; the topics of the latter are in
    `ghost_topics`. `generation`: by member, -1 if it told none; `subscription_generation`: the one
    in its subscription.
    """

    member: Ints
    number: Ints
    generation: Ints
    subscription_generation: Ints
    ghost_topics: Ints


@dataclass(frozen=True)
class Ownership:
    """What is left of the claims: `member[i]` owns `number[i]`, ordered as the claims.

    `contested`: partitions that members claimed at one generation.

    `ghost_member[i]` owns a partition that topic `ghost_topic[i]` does not have.
    """

    member: Ints
    number: Ints
    contested: Ints
    ghost_member: Ints
    ghost_topic: Ints


def sticky_claims(group: GroupSpec) -> Claims:
    """The claims of `sticky`: those in the user data; what `owned` says for a member that sent none.

    Kafka's StickyAssignor never looks at the owned partitions of a subscription. Nor need it: an
    eager member owns nothing any more when it joins. Where `owned` is given without user data it
    was therefore put there by whoever called.
    """
    subscription_generation = np.maximum(group.generations, -1)
    lengths = group.owned_counts
    generation = np.where(lengths > 0, subscription_generation, -1)
    if not any(group.user_data):
        return _from_arrays(group, generation, subscription_generation)
    ghosts = _Ghosts(group.topology)
    number: list[int] = []
    sizes = np.zeros(len(group), np.int64)
    told = read_together(group.user_data, group.topology) if len(group) > FEW else None
    for member in range(len(group)) if told is None else np.flatnonzero(~told.read).tolist():
        before = len(number)
        data = group.user_data[member]
        if data:
            message = decode_sticky_user_data(data)
            generation[member] = message.generation
            for entry in message.previous_assignment:
                number += ghosts.numbers(entry.topic, entry.partitions)
        elif lengths[member]:
            for topic, partition in group.members[group.member_ids[member]].owned:
                number += ghosts.numbers(topic, (partition,))
        sizes[member] = len(number) - before
    owners = np.repeat(np.arange(len(group)), sizes)
    numbers = np.array(number, np.int64)
    if told is not None:
        generation[told.read] = told.generation[told.read]
        owners, numbers = np.concatenate([told.member, owners]), np.concatenate([told.number, numbers])
        if len(number):
            order = np.argsort(owners, kind="stable")
            owners, numbers = owners[order], numbers[order]
    return Claims(owners, numbers, generation, subscription_generation, ghosts.topics)


def cooperative_claims(group: GroupSpec) -> Claims:
    """The claims of `cooperative-sticky`: the owned partitions of the subscriptions; the generation beside them, or else in the user data."""
    subscription_generation = np.maximum(group.generations, -1)
    generation = subscription_generation.copy()
    if any(data is not None for data in group.user_data):
        for member in np.flatnonzero(generation < 0).tolist():
            told = decode_cooperative_sticky_user_data(group.user_data[member])
            if told is not None:
                generation[member] = told.generation
    return _from_arrays(group, generation, subscription_generation)


class _Ghosts:
    """Numbers for partitions, also for those that their topic does not have."""

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
    def topics(self) -> Ints:
        return np.array([self._topology.index[topic] for topic, _ in self._seen], np.int64)


def _from_arrays(group: GroupSpec, generation: Ints, subscription_generation: Ints) -> Claims:
    member = group.owning
    number = group.owned
    ghosts = _Ghosts(group.topology)
    unknown = np.flatnonzero(number < 0)
    if len(unknown):
        number = number.copy()
        for place in unknown.tolist():
            owner = int(member[place])
            topic, partition = group.members[group.member_ids[owner]].owned[place - int(group.owned_offsets[owner])]
            (number[place],) = ghosts.numbers(topic, (partition,))
    return Claims(member, number, generation, subscription_generation, ghosts.topics)


def resolve(group: GroupSpec, claims: Claims, assignable: Bools) -> Ownership:
    """Give each partition of the `assignable` topics to at most one of those who claim it.

    In Java's hash order of members, each claim meets the one before it: at the same generation both
    lose the partition, at a higher one it moves, at a lower one it stays.
    """
    topology = group.topology
    total = int(topology.first[-1])
    number, member = claims.number, claims.member
    alive = number >= 0
    if not assignable.all():
        alive &= assignable[np.concatenate([topology.topic_of, claims.ghost_topics, [0]])[number]]
    contested: list[int] = []
    if not alive.all():
        member, number = member[alive], number[alive]
    if len(number):
        often = np.bincount(number) > 1
        if often.any():
            keep, contested = _settle(group, claims, member, number, often)
            member, number = member[keep], number[keep]
    real = number < total
    if real.all():
        return Ownership(member, number, np.array(contested, np.int64), member[:0], number[:0])
    return Ownership(
        member[real],
        number[real],
        np.array([one for one in contested if one < total], np.int64),
        member[~real],
        claims.ghost_topics[number[~real] - total],
    )


def _settle(group: GroupSpec, claims: Claims, member: Ints, number: Ints, often: Bools) -> tuple[Bools, list[int]]:
    """Which claims are left, and the partitions that several claimed at one generation."""
    places = np.flatnonzero(often[number])
    places = places[np.argsort(group.hash_place[member[places]], kind="stable")]
    keep = np.ones(len(number), np.bool_)
    keep[places] = False
    own = claims.generation[member[places]].tolist()
    others = claims.subscription_generation[member[places]].tolist()
    owner = member[places].tolist()
    before: dict[int, int] = {}  # partition → index in `places` of the claim that the next one meets
    winner: dict[int, int] = {}
    contested: dict[int, None] = {}
    for index, partition in enumerate(number[places].tolist()):
        other = before.get(partition)
        if other is None or own[index] > others[other]:
            before[partition] = index
            # Where a member claims a partition twice, Kafka removes from the list to which it has
            # just added.
            if other is None or owner[index] != owner[other] or partition in winner:
                winner[partition] = index
        elif own[index] == others[other]:
            contested[partition] = None
            winner.pop(partition, None)
            before[partition] = index
    keep[places[np.fromiter(winner.values(), np.int64, len(winner))]] = True
    return keep, list(contested)


def stale_owners(group: GroupSpec, claims: Claims, newest: int) -> Ints | None:
    """For each partition the member that claims it at the highest generation below `newest`, `NOBODY` where none does; `None` if that is everywhere.

    Of several at one generation it is the first in Java's hash order.
    """
    total = int(group.topology.first[-1])
    stale = (claims.generation < newest)[claims.member] & (claims.number >= 0) & (claims.number < total)
    if not stale.any():
        return None
    member, number = claims.member[stale], claims.number[stale]
    # The last one written stays: lower generations first, and of equal ones the later in hash order
    # first.
    order = np.lexsort((-group.hash_place[member], claims.generation[member]))
    owners = np.full(total, NOBODY, np.int64)
    owners[number[order]] = member[order]
    return owners
