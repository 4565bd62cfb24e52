"""Target assignments, and which assignor computes them (KIP-848; assignment interval: KIP-1263)."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from quorate.assignors.java_order import JavaHashMap, copied_map_capacity
from quorate.assignors.subscription_type import SubscriptionType
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue, TopicPartition
from quorate.coordinator.consumer.owned import Partitions, as_target
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember

INTERVAL = "group_consumer_assignment_interval_ms"
"""The config with the minimum time between two target assignments."""


@dataclass(frozen=True, slots=True)
class Target:
    """A member's target assignment and its epoch."""

    epoch: int
    partitions: Partitions


class NewTargets(NamedTuple):
    """Target assignments of a group.

    `order`: the ids of members in the order of their records; `changed`: the targets that differ
    from the previous ones. (A plug-in's include that of the requesting member.)
    """

    order: Sequence[str]
    changed: Mapping[str, Partitions]


@dataclass(slots=True, kw_only=True)  # not frozen: created per join, in half the time
class TargetRequest:
    """Request for a target assignment of a group at `epoch`, with `member` in place of `before`.

    `topics`: the topic names of this heartbeat, in request order. `moves_target`: see `Behaviour`.
    """

    group: ConsumerGroup
    epoch: int
    before: ConsumerMember
    member: ConsumerMember
    topics: tuple[str, ...]
    subscription_type: SubscriptionType
    now_ms: int
    moves_target: bool

    @property
    def replaced(self) -> str | None:
        """The id of the static member that the member replaces, if it has another id."""
        instance_id = self.member.metadata.instance_id
        holder = None if instance_id is None else self.group.static_members.get(instance_id)
        return None if holder == self.member.member_id else holder

    @property
    def previous_target(self) -> tuple[TopicPartition, ...] | None:
        """The last target of the member, or of the static member that it replaces."""
        targets, own = self.group.targets, self.member.member_id
        moved = targets.get(self.replaced or own)
        return targets.get(own) if moved is None and self.moves_target else moved


def last_target(group: ConsumerGroup, member: ConsumerMember, jdk: int) -> Target:
    """Return the stored target of the member, or of the static member that it replaces."""
    instance_id = member.metadata.instance_id
    member_id = member.member_id if instance_id is None else group.static_members.get(instance_id)
    stored = () if member_id is None else group.targets.get(member_id, ())
    return Target(group.assignment_epoch, as_target(stored, jdk))


def preferred_assignor(
    group: ConsumerGroup, before: ConsumerGroupMemberMetadataValue, after: ConsumerGroupMemberMetadataValue
) -> str | None:
    """Return the assignor that most members prefer.

    Of several, the first in the order of Kafka's map; `None` if no member has a preference.
    """
    size = len(group.assignor_votes)
    if not size and after.server_assignor is None:
        return None
    votes: JavaHashMap[str, int] = JavaHashMap(copied_map_capacity(size) if size else None)
    for name, count in group.assignor_votes.ordered():
        votes.put(name, count)
    if before.server_assignor is not None and before.server_assignor in votes:
        left = votes[before.server_assignor] - 1
        if left > 0:
            votes.put(before.server_assignor, left)
        else:
            votes.remove(before.server_assignor)
    if after.server_assignor is not None:
        votes.put(after.server_assignor, votes.compute_if_absent(after.server_assignor, int) + 1)
    return max(votes.items(), key=lambda vote: vote[1])[0] if len(votes) else None


def changes_assignor(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    before: ConsumerGroupMemberMetadataValue,
    after: ConsumerGroupMemberMetadataValue,
) -> bool:
    """Return whether most members prefer another assignor after a member's change.

    As in Kafka, the first of several equally preferred ones may differ without any change, because
    the order before is that of the group's map, and the order after that of a copy.
    """
    if len(group.assignor_votes) < 2 and before.server_assignor == after.server_assignor:
        return False
    default = shard.config.group_consumer_assignors[0]
    last = max(group.assignor_votes.ordered(), key=itemgetter(1), default=(default, 0))[0]
    return last != (preferred_assignor(group, before, after) or default)
