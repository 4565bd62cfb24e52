"""Share groups (KIP-932) as stored in records of `__consumer_offsets`."""

from dataclasses import field, replace
from typing import ClassVar

from quorate.assignors.java_order import TimelineMap, copied_set
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.codecs.messages.share_group import ShareGroupCurrentMemberAssignmentValue, ShareGroupMemberMetadataValue
from quorate.coordinator.state.consumer_member import MemberState
from quorate.coordinator.state.groups import GroupKind
from quorate.coordinator.state.modern import LEFT, ModernGroup
from quorate.coordinator.state.topic_counts import counted_down, recounted

_NEW = ShareGroupMemberMetadataValue(rack_id=None, client_id="", client_host="", subscribed_topic_names=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member with its metadata, epoch and current assignment, which it shares with others."""

    member_id: str
    metadata: ShareGroupMemberMetadataValue = _NEW
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: tuple[TopicPartition, ...] = field(default=())

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has its target assignment of that epoch."""
        return self.epoch == epoch

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        """Return the member with the current assignment of a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=value.assigned_partitions,
        )

    def without_assignment(self) -> "ShareMember":
        """Return the member after a tombstone of its current assignment."""
        return replace(self, epoch=LEFT, previous_epoch=LEFT, assigned=())


class ShareGroup(ModernGroup[ShareMember, tuple[TopicPartition, ...]]):
    """A share group. `topic_subscribers`: topic → number of subscribed members.

    `initializing_since_ms` is in no record: when initializing partitions were last written or
    loaded.
    """

    __slots__ = ("_counted_last", "initializing_since_ms", "topic_subscribers")

    kind: ClassVar[GroupKind] = GroupKind.SHARE
    member_class = ShareMember

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.topic_subscribers: TimelineMap[str, int] = TimelineMap()
        self.initializing_since_ms = 0
        self._counted_last: tuple[str, ...] = ()

    @property
    def protocol_type(self) -> str:
        """Always "share"."""
        return "share"

    @property
    def state(self) -> str:
        """Empty or Stable, as members never wait for each other."""
        return "Stable" if self.members else "Empty"

    def need_member(self, member_id: str) -> ShareMember:
        """Return the member, adding a new one.

        Adding it first changes the order of Kafka's map, compared to one put.
        """
        if member_id not in self.members:
            self.members[member_id] = ShareMember(member_id=member_id)
        return self.members[member_id]

    def put_member(self, member: ShareMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._recount(
            () if old is None else old.metadata.subscribed_topic_names, member.metadata.subscribed_topic_names
        )

    def remove_member(self, member_id: str) -> None:
        """Remove an existing member."""
        old = self.members.pop(member_id)
        self._recount(old.metadata.subscribed_topic_names, ())

    def _recount(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Count a member's topics as Kafka does: old ones down, then new ones up, even if equal.

        The order of Kafka's map depends on it.
        """
        counts = self.topic_subscribers
        may_grow = (len(counts) + 1) * 3 > counts.slots * 4
        if old is new and not may_grow:
            if self._counted_last is not new:  # else these names are the newest already, in this order
                alone = [name for name in copied_set(new) if counts[name] == 1]
                for name in alone:
                    del counts[name]
                counts.put_all(dict.fromkeys(alone, 1))
                self._counted_last = new
            return
        after = copied_set(new)
        appeared = [name for name in after if name not in counts]
        # The order of removals matters only if the map grows meanwhile.
        down = counted_down(
            counts, copied_set(old) if may_grow else tuple(dict.fromkeys(old)), 0, lambda count: count - 1
        )
        down.apply(counts)
        counts.put_all(recounted(counts, after, 0, lambda count: count + 1))
        self.topics_changed(appeared, [name for name in down.gone if name not in counts])
        self._counted_last = new
