"""Second half of a heartbeat or JoinGroup: a new target assignment if due, and reconciliation."""

from collections.abc import Sequence

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.leaving import SESSIONS
from quorate.coordinator.consumer.next_target import next_target
from quorate.coordinator.consumer.reconcile import Situation, reconcile
from quorate.coordinator.consumer.subscriptions import Refreshed, subscription_type_of
from quorate.coordinator.consumer.target import INTERVAL, Target, TargetRequest, last_target
from quorate.coordinator.shard import ConsumerGroupExtension, CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember


@dataclass(slots=True, kw_only=True)  # not frozen: created per heartbeat, in half the time
class Progress:
    """State of one request of a member.

    `before`, `member`: the member before and after this request's metadata. `topics`: its topic
    names, in request order. `owned`: the partitions that it reports, `None` if omitted.
    `refreshed`: the new group epoch and subscription type, `None` if unchanged. `computed_by`: the
    plug-in that computes the target assignment that is due, set by `assign_and_reconcile`.
    """

    group: ConsumerGroup
    before: ConsumerMember
    member: ConsumerMember
    topics: tuple[str, ...]
    owned: Sequence[TopicPartitions] | None
    subscription_changed: bool
    refreshed: Refreshed | None
    now_ms: int
    computed_by: ConsumerGroupExtension | None = None

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.group.epoch if self.refreshed is None else self.refreshed.epoch

    def assign_and_reconcile(self, shard: CoordinatorShard, records: list[CoordinatorRecord]) -> ConsumerMember:
        """Compute a new target assignment if due, and reconcile the member. Returns the member.

        A target is due if the group epoch is ahead of the target epoch, and the assignment interval
        has passed. Raises `ApiError`, see `next_target` and `reconcile`.
        """
        group, refreshed, now_ms, epoch = self.group, self.refreshed, self.now_ms, self.epoch
        target: Target | None = None
        is_outdated = epoch > group.assignment_epoch
        if is_outdated and shard.extensions:
            mine = (extension for extension in shard.extensions if extension.computes_target(shard, group, self.member))
            self.computed_by = next(mine, None)
        if is_outdated and self.computed_by is None and shard.may_assign(group, INTERVAL, now_ms):
            request = TargetRequest(
                group=group,
                epoch=epoch,
                before=self.before,
                member=self.member,
                topics=self.topics,
                subscription_type=subscription_type_of(group) if refreshed is None else refreshed.subscription_type,
                now_ms=now_ms,
                moves_target=shard.behaviour.moves_target,
            )
            target = next_target(shard, request, records)
        return self.reconcile(shard, records, target)

    def reconcile(
        self, shard: CoordinatorShard, records: list[CoordinatorRecord], target: Target | None = None
    ) -> ConsumerMember:
        """Move the member one step towards the target, by default the last one.

        Returns the same object if nothing changes.
        """
        group, member = self.group, self.member
        target_epoch = group.assignment_epoch if target is None else target.epoch
        changed = self.subscription_changed and shard.behaviour.follows_subscription
        if not changed and member.is_reconciled_to(target_epoch):
            return member
        target = target or last_target(group, member, shard.config.jdk)
        updated = reconcile(
            member,
            Situation(
                epoch=target.epoch,
                target=target.partitions,
                owner_epoch=group.partition_epoch,
                owned=self.owned,
                topics=frozenset(group.subscribed_topics(member.metadata)),
                subscription_changed=changed,
                image=shard.image,
                jdk=shard.config.jdk,
                behaviour=shard.behaviour,
            ),
        )
        if updated != member:
            epochs = shard.behaviour.assignment_epochs
            records.append(write.current_assignment(group.group_id, updated, epochs=epochs))
            # Classic members learn from heartbeats that they must rejoin, which has its own
            # timeout.
            if not updated.uses_classic_protocol:
                SESSIONS.watch_revocation(shard, group.group_id, updated, self.now_ms)
        return updated  # even if equal, as the order of partitions may differ
