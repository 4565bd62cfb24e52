"""What follows for a member when the group is up to date with what it announced: a new target assignment, if one is due, and one step towards it."""

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.codecs import CoordinatorRecord
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.reconcile import Situation, reconcile
from quorate.coordinator.consumer.sessions import watch_revocation
from quorate.coordinator.consumer.subscriptions import Refreshed, subscription_type_of
from quorate.coordinator.consumer.target import INTERVAL, Target, TargetRequest, last_target, next_target
from quorate.coordinator.shard import ConsumerGroupExtension, CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["Progress"]


@dataclass(slots=True, kw_only=True)  # not frozen: one is made for each heartbeat, and that takes half as long
class Progress:
    """One request of a member.

    `before`, `member`: the member before and after what it announced; `topics`: the names in its
    order; `owned`: what it says that it owns, `None` if it does not say; `refreshed`: what came of
    it for the group, `None` if nothing did. `computed_by`, after `made`: the plug-in that computes
    the target that is due.
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
        """The group's epoch."""
        return self.group.epoch if self.refreshed is None else self.refreshed.epoch

    def made(self, shard: CoordinatorShard, records: list[CoordinatorRecord]) -> ConsumerMember:
        """Assign anew if the group's epoch is ahead of the last target's and the time has come, and reconcile; gives the member as it is then.

        Raises `ApiError`, see `next_target` and `reconcile`.
        """
        group, refreshed, now_ms, epoch = self.group, self.refreshed, self.now_ms, self.epoch
        target: Target | None = None
        is_behind = epoch > group.assignment_epoch
        if is_behind and shard.extensions:
            mine = (one for one in shard.extensions if one.computes_target(shard, group, self.member))
            self.computed_by = next(mine, None)
        if is_behind and self.computed_by is None and shard.may_assign(group, INTERVAL, now_ms):
            asked = TargetRequest(
                group=group,
                epoch=epoch,
                before=self.before,
                member=self.member,
                topics=self.topics,
                subscription_type=subscription_type_of(group) if refreshed is None else refreshed.subscription_type,
                now_ms=now_ms,
            )
            target = next_target(shard, asked, records)
        return self.reconciled(shard, records, target)

    def reconciled(
        self, shard: CoordinatorShard, records: list[CoordinatorRecord], target: Target | None = None
    ) -> ConsumerMember:
        """One step towards the target (by default the last one); the same object if there is nothing to do."""
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
            if (
                not updated.uses_classic_protocol
            ):  # others are told by heartbeats to join again, and have to do that in time
                watch_revocation(shard, group.group_id, updated, self.now_ms)
        return updated  # also if it is equal: what it has may stand in another order by now
