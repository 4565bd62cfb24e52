"""Runs an assignor for the target assignment of a group (KIP-848).

This module is imported when it is first needed, because assignors and NumPy take 0.2 s to load.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import overload

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.java_order import JavaHashMap, copied_set
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.model import Member
from quorate.assignors.plug_ins import checked
from quorate.assignors.server import (
    KafkaServerAssignor,
    ServerRangeAssignor,
    TargetAssignment,
    UniformAssignor,
)
from quorate.assignors.server.ids import set_subscription_order
from quorate.assignors.target import changed_members
from quorate.assignors.topology import Ints, Topology
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.coordinator.consumer.lags import lags_of_group
from quorate.coordinator.consumer.owned import Partitions
from quorate.coordinator.consumer.target import NewTargets, TargetRequest
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer_member import ConsumerMember

ASSIGNORS: Mapping[str, type[KafkaServerAssignor]] = {"uniform": UniformAssignor, "range": ServerRangeAssignor}
"""Kafka's server-side assignors by their names in `group.consumer.assignors`."""


def run_assignor(shard: CoordinatorShard, request: TargetRequest, name: str) -> NewTargets:
    """Return the target assignments that an assignor computes.

    Raises `AssignorError`, also for a plug-in that fails in any other way.
    """
    is_plug_in = name in shard.config.server_assignors
    ignore_own = name == "range" and not is_plug_in
    prepared = _group(shard.image, request, ignore_own=ignore_own, racks=is_plug_in, jdk=shard.config.jdk)
    assigned = _assigned(shard, request, name, prepared)
    order = [prepared.member_ids[number] for number in prepared.hash_order.tolist()]
    changed: dict[str, Partitions] = {
        prepared.member_ids[number]: dict(assigned.record(number)) for number in assigned.changed.tolist()
    }
    if is_plug_in and request.member.member_id not in changed:
        number = prepared.member_ids.index(request.member.member_id)
        changed[request.member.member_id] = dict(assigned.record(number))
    return NewTargets(order, changed)


def _assigned(shard: CoordinatorShard, request: TargetRequest, name: str, prepared: GroupSpec) -> TargetAssignment:
    """Run the assignor. Raises `AssignorError`, also for a plug-in that fails in any other way."""
    config = shard.config
    plug_in = config.server_assignors.get(name)
    if plug_in is None:
        kafkas = ASSIGNORS[name](
            version=config.kafka_version, jdk=config.jdk, subscription_type=request.subscription_type
        )
        return kafkas.target(prepared)
    prepared.subscription_type = request.subscription_type
    if isinstance(plug_in, LagAwareAssignor) and plug_in.source is None:
        lags = lags_of_group(shard, request.group.group_id, prepared)
        assignment = checked(plug_in, prepared, lambda group: plug_in.assign_group(group, lags=lags))
    else:
        assignment = checked(plug_in, prepared)
    changed = changed_members(prepared, assignment.partitions, assignment.counts)
    return TargetAssignment(prepared, assignment, changed)  # also of others in the plug-in's order, as Kafka


def _group(image: MetadataImage, request: TargetRequest, *, ignore_own: bool, racks: bool, jdk: int) -> GroupSpec:
    """Return the group for the assignor, with members in the order of Kafka's map.

    `ignore_own`: leave out the requesting member's previous target, so that an assignor that
    ignores previous targets returns the new one in full. `racks`: the assignor uses racks.
    """
    group, updated, replaced = request.group, request.member, request.replaced
    members: dict[str, Member] = {}
    names: dict[str, None] = {}
    unions: dict[str, tuple[str, ...]] = {}
    targets: list[tuple[TopicPartition, ...]] = []

    def add(member: ConsumerMember, topics: tuple[str, ...], target: tuple[TopicPartition, ...]) -> None:
        resolved = group.regexes.get(member.metadata.subscribed_topic_regex or "")
        listed = topics
        if resolved is not None and resolved.topics:
            listed = resolved.topics
            if topics:
                union = unions[member.member_id] = _union(topics, resolved.topics, jdk)
                listed = (*union, union[0])  # the repeat keeps it unequal to a list of names alone
        names.update(dict.fromkeys(filter(image.topics.__contains__, listed)))  # missing topics cost nothing more
        for one in target:
            topic = image.topics_by_id.get(one.topic_id)
            names[str(one.topic_id) if topic is None else topic.name] = None
        metadata = member.metadata
        members[member.member_id] = Member(
            topics=listed, rack=metadata.rack_id, instance_id=metadata.instance_id, owned=_Owned(image, target)
        )
        targets.append(target)

    own_target = () if ignore_own else request.previous_target or ()
    ordered = list(group.members.ordered())
    for member_id, member in ordered:
        if member_id == updated.member_id:
            add(updated, request.topics, own_target)
        elif member_id != replaced:
            add(member, member.metadata.subscribed_topic_names, group.targets.get(member_id, ()))
    if updated.member_id not in group.members:
        add(updated, request.topics, own_target)
    topology = image.topology(names, racks=racks)
    prepared = GroupSpec(members, topology)
    prepared.owned = _numbers(image, topology, chain.from_iterable(targets), missing=True)
    for number, member_id in enumerate(prepared.member_ids if unions else ()):
        if member_id in unions:
            set_subscription_order(prepared, int(prepared.listing_of[number]), unions[member_id], jdk)
    if replaced is not None and (not request.moves_target or replaced in group.targets):
        # An existing member that replaces a static member continues with that member's target. Its
        # own partitions are assigned to no member, as Kafka's map of owners still has it.
        own = group.targets.get(updated.member_id, ())
        prepared.withheld = _numbers(image, topology, own, missing=False)
    if replaced is not None and not request.moves_target:
        prepared.hash_order = _order_with_replaced([one for one, _ in ordered], updated.member_id, replaced, prepared)
    return prepared


class _Owned(Sequence[tuple[str, int]]):
    """A target as topics and partitions; a deleted topic has its id as name."""

    __slots__ = ("_image", "_target")

    def __init__(self, image: MetadataImage, target: tuple[TopicPartition, ...]) -> None:
        self._image = image
        self._target = target

    def __len__(self) -> int:
        return sum([len(one.partitions) for one in self._target])

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for one in self._target:
            topic = self._image.topics_by_id.get(one.topic_id)
            name = str(one.topic_id) if topic is None else topic.name
            for partition in one.partitions:
                yield name, partition

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, int] | list[tuple[str, int]]:
        return list(self)[index]


def _numbers(image: MetadataImage, topology: Topology, target: Iterable[TopicPartition], *, missing: bool) -> Ints:
    """Return the topology's partition numbers, -1 for partitions that it does not have.

    `missing`: also of topics that do not exist.
    """
    numbers: list[int] = []
    first = topology.first.tolist()
    for one in target:
        topic = image.topics_by_id.get(one.topic_id)
        if topic is None and not missing:
            continue
        index = None if topic is None else topology.index.get(topic.name)
        start, count = (0, 0) if topic is None or index is None else (first[index], topic.partitions)
        numbers += [start + partition if partition < count else -1 for partition in one.partitions]
    return np.array(numbers, np.int64)


def _union(names: tuple[str, ...], resolved: tuple[str, ...], jdk: int) -> tuple[str, ...]:
    """Return names and matched topics in Kafka's order: the larger set first."""
    both = copied_set(names, jdk), copied_set(resolved, jdk)
    large, small = both if len(both[0]) > len(both[1]) else (both[1], both[0])
    return tuple(dict.fromkeys((*large, *small)))


def _order_with_replaced(member_ids: list[str], new: str, replaced: str, prepared: GroupSpec) -> Ints:
    """Return the order of a map of all members after a static member is replaced.

    The new one is put and the old one removed, in the order of a map of both.
    """
    made: JavaHashMap[str, None] = JavaHashMap()
    for member_id in member_ids:
        made.put(member_id, None)
    steps: JavaHashMap[str, None] = JavaHashMap()
    for member_id in (new, replaced):
        steps.put(member_id, None)
    for member_id in steps:
        if member_id == new:
            made.put(new, None)
        else:
            made.remove(replaced)
    number_of = {member_id: number for number, member_id in enumerate(prepared.member_ids)}
    return np.array([number_of[member_id] for member_id in made], np.int64)
