"""Reconciliation: moves a member one step towards its target assignment (KIP-848)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_map_capacity
from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.consumer.owned import Order, Partitions, copied_set
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.state.consumer_member import ConsumerMember, MemberState, Owned, recorded

V = TypeVar("V")

TRANSITIONS: Mapping[MemberState, frozenset[MemberState]] = {
    MemberState.STABLE: frozenset(
        {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}
    ),
    MemberState.UNREVOKED_PARTITIONS: frozenset(
        {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}
    ),
    MemberState.UNRELEASED_PARTITIONS: frozenset(
        {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS}
    ),
    # A state of a newer release: the member has revoked everything, so nothing is left to revoke.
    MemberState.UNKNOWN: frozenset({MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS}),
}
"""Member state → states after one step of reconciliation."""


@dataclass(slots=True, kw_only=True)  # not frozen: created per heartbeat, in half the time
class Situation:
    """Input of reconciliation, in addition to the member.

    `epoch`, `target`: the target assignment. `owner_epoch`: returns the epoch of a partition's
    owner, -1 if it is free. `owned`: the partitions that the member reports; `None` if omitted.
    `topics`: the names that it subscribes to, also by regex. `subscription_changed`: in this
    heartbeat. `behaviour`: of a release of Kafka.
    """

    epoch: int
    target: Partitions
    owner_epoch: Callable[[Uuid, int], int]
    owned: Sequence[TopicPartitions] | None
    topics: frozenset[str]
    subscription_changed: bool
    image: MetadataImage
    jdk: int
    behaviour: Behaviour = Behaviour.NEWEST

    @property
    def order(self) -> Order:
        """The release's iteration order of partitions."""
        return Order(self.jdk, self.behaviour.assignment_epochs)

    def subscribes_to(self, topic_id: Uuid) -> bool:
        """Return whether the topic exists and the member subscribes to it.

        Always before 4.2, where only the target assignment counts.
        """
        if not self.behaviour.follows_subscription:
            return True
        topic = self.image.topics_by_id.get(topic_id)
        return topic is not None and topic.name in self.topics

    def still_owned(self, partitions: Mapping[Uuid, Mapping[int, int]]) -> bool:
        """Return whether the member may own one of these partitions; True if it reports none."""
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic.topic_id, {}) for topic in self.owned for partition in topic.partitions
        )


def reconcile(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    """Return the member after one step; the same object if nothing changes.

    Callers write a record only for a changed member.

    1. Partitions to revoke that the member may still own: UNREVOKED_PARTITIONS, epoch unchanged
       (before 4.2 one higher if it has just revoked others).
    2. Free partitions of the target: assign them at the target epoch.
    3. Only partitions that other members own: UNRELEASED_PARTITIONS, at the target epoch.
    4. Nothing left to do: STABLE, at the target epoch.

    Partitions of topics that the member no longer subscribes to are revoked, whatever the target
    contains (KAFKA-19431). Raises `ApiError` FENCED_MEMBER_EPOCH for a member in an unknown state
    that does not report an empty assignment.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == situation.epoch:
                return _trimmed(member, situation) if situation.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if situation.still_owned(member.pending_revocation):
                return _trimmed(member, situation) if situation.subscription_changed else member
        case MemberState.UNKNOWN:
            if situation.owned is None or situation.owned:
                raise ApiError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"member {member.member_id} is in an unknown state; it must rejoin",
                )
    return _step(member, situation)


def _step(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    order, target, jdk = situation.order, situation.target, situation.jdk
    assigned = order.loaded(member.assigned)
    pending = member.pending_revocation if situation.behaviour.takes_back else {}
    topics = _either(target, assigned, jdk)
    kept: JavaHashMap[Uuid, Mapping[int, int]] | _OneTopic[Mapping[int, int]]
    revoked: JavaHashMap[Uuid, Mapping[int, int]] | _OneTopic[Mapping[int, int]]
    added: JavaHashMap[Uuid, Sequence[int]] | _OneTopic[Sequence[int]]
    if len(topics) > 1:
        kept, revoked, added = JavaHashMap(), JavaHashMap(), JavaHashMap()
    else:
        kept, revoked, added = _OneTopic(), _OneTopic(), _OneTopic()
    unreleased = False
    for topic_id in topics:
        wanted = copied_set(target.get(topic_id, ()), jdk) if situation.subscribes_to(topic_id) else ()
        here = assigned.get(topic_id, {})
        copied = order.copied(here)
        staying = set(here).intersection(wanted)
        if staying:
            kept.put(topic_id, {partition: here[partition] for partition in copied if partition in staying})
        if len(staying) < len(here):
            revoked.put(topic_id, {partition: here[partition] for partition in copied if partition not in staying})
        # Only one member can own a partition, so the member's own pending revocations are free for
        # it.
        mine = pending.get(topic_id, {})
        missing = [partition for partition in wanted if partition not in staying]
        free = [
            partition for partition in missing if partition in mine or situation.owner_epoch(topic_id, partition) == -1
        ]
        unreleased = unreleased or len(free) < len(missing)
        if free:
            added.put(topic_id, free)
    to_revoke = dict(revoked.items())
    if to_revoke and situation.still_owned(to_revoke):
        epoch = member.epoch
        if member.state is MemberState.UNREVOKED_PARTITIONS and not situation.behaviour.keeps_epoch:
            epoch += 1
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, dict(kept.items()), to_revoke)
    for topic_id, new in added.items():
        staying_here = kept.compute_if_absent(topic_id, dict)
        before = assigned[topic_id] if staying_here else {}
        numbers = order.kept_and_added(before, staying_here, new)
        kept.put(topic_id, {partition: staying_here.get(partition, situation.epoch) for partition in numbers})
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return _moved(member, state, situation.epoch, dict(kept.items()), {})


class _OneTopic(dict[Uuid, V]):
    """A HashMap of one topic at most, whose order does not matter."""

    def put(self, topic_id: Uuid, value: V) -> None:
        """Set the value of a topic."""
        self[topic_id] = value

    def compute_if_absent(self, topic_id: Uuid, make: Callable[[], V]) -> V:
        """Return the value, created if it is absent."""
        return self.setdefault(topic_id, make())


def _trimmed(member: ConsumerMember, situation: Situation) -> ConsumerMember:
    """Return the member without topics that it no longer subscribes to, at the same epoch."""
    order = situation.order
    assigned = order.loaded(member.assigned)
    if not situation.topics and not member.partitions_pending_revocation:
        if not assigned and member.previous_epoch == -1:
            return member  # new member of a group that was converted at generation 0
        left: Owned = {}
        pending = assigned
    else:
        gone = [topic_id for topic_id in assigned if not situation.subscribes_to(topic_id)]
        if not gone:
            return member
        left = {topic_id: assigned[topic_id] for topic_id in _copy_of(assigned, situation.jdk) if topic_id not in gone}
        pending = _with_topics(
            order.loaded(member.pending_revocation), {topic_id: assigned[topic_id] for topic_id in gone}, order
        )
    if pending and situation.still_owned(pending):
        trimmed = _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, left, pending)
    else:
        trimmed = replace(member, previous_epoch=member.epoch, assigned_partitions=recorded(left))
    return trimmed if situation.behaviour.counts_trims else replace(trimmed, previous_epoch=member.previous_epoch)


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, pending_revocation: Owned
) -> ConsumerMember:
    if state not in TRANSITIONS[member.state]:
        raise AssertionError(f"member {member.member_id} cannot change from {member.state.name} to {state.name}")
    # The previous epoch is set even if the epoch stays, so that a request that repeats after a lost
    # response is recognized.
    return ConsumerMember(  # half the time of `replace`
        member_id=member.member_id,
        metadata=member.metadata,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned_partitions=recorded(assigned),
        partitions_pending_revocation=recorded(pending_revocation),
    )


def _either(target: Partitions, assigned: Owned, jdk: int) -> list[Uuid]:
    """Return the topics of both, in the order of a HashSet to which `assigned` is added."""
    if len(target) + len(assigned) < 2:
        return [*target, *assigned]
    topics: JavaHashSet[Uuid] = JavaHashSet.of(target, jdk=jdk)
    for topic_id in assigned:
        topics.add(topic_id)
    return list(topics)


def _copy_of(owned: Owned, jdk: int) -> JavaHashMap[Uuid, Mapping[int, int]]:
    """Return `new HashMap(map)`."""
    made: JavaHashMap[Uuid, Mapping[int, int]] = JavaHashMap(copied_map_capacity(len(owned), jdk) if owned else None)
    for topic_id, partitions in owned.items():
        made.put(topic_id, partitions)
    return made


def _with_topics(pending: Owned, gone: Owned, order: Order) -> Owned:
    """Return a copy of `pending` into which `gone` is merged."""
    made = _copy_of(pending, order.jdk)
    for topic_id, partitions in gone.items():
        before = made.compute_if_absent(topic_id, dict)
        if not before:
            made.put(topic_id, partitions)
            continue
        both = {**before, **partitions}
        numbers = order.kept_and_added(before, before, [one for one in partitions if one not in before])
        made.put(topic_id, {partition: both[partition] for partition in numbers})
    return dict(made.items())
