"""The differences between two states of a group, as facts.

Changes in between that were undone do not show.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from quorate.codecs.lazy_dataclass import dataclass
from quorate.coordinator.history import facts
from quorate.coordinator.history.facts import Cause, EpochBumped, EpochReason, Fact
from quorate.coordinator.history.labels import Partition
from quorate.coordinator.history.views import GroupView, MemberView, view
from quorate.coordinator.state import CoordinatorState, GroupKind
from quorate.coordinator.state.consumer_member import LEAVE_STATIC


def diff(before: CoordinatorState, after: CoordinatorState) -> dict[str, tuple[Fact, ...]]:
    """Return group id → facts, for the groups that differ.

    Both states are of the same partition, `before` the earlier one.
    """
    found: dict[str, tuple[Fact, ...]] = {}
    for group_id in {**before.groups, **after.groups, **before.offsets.committed, **after.offsets.committed}:
        old, new = before.groups.get(group_id), after.groups.get(group_id)
        found_facts = [
            *diff_views(None if old is None else view(old), None if new is None else view(new)),
            *_offsets(before, after, group_id),
        ]
        if found_facts:
            found[group_id] = tuple(found_facts)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one write to the log contained.

    A group epoch; a record of type 4; a record of type 15 in it or in a write since the last epoch.
    """

    epoch: bool
    topics: bool
    share_state: bool


def diff_views(
    before: GroupView | None,
    after: GroupView | None,
    written: Written | None = None,
    touched: Collection[str] | None = None,
) -> list[Fact]:
    """Return the facts of a group, ordered for reading.

    `written`: given if the views are before and after one write. `touched`: the ids of all members
    that may differ, for groups of the new protocols.
    """
    topics_written = written is not None and written.topics
    if after is None:
        return [] if before is None else [facts.GroupDeleted(kind=before.kind)]
    found: list[Fact] = []
    converted = False
    if before is None or (before.is_for_offsets and not after.is_for_offsets):
        found.append(facts.GroupCreated(kind=after.kind, for_offsets=after.is_for_offsets))
        before = None
    elif before.kind is not after.kind:
        found.append(facts.GroupConverted(before=before.kind, after=after.kind))
        converted = True
    old_members: Mapping[str, MemberView] = {} if before is None else before.members
    # Groups of thousands usually change one member at a time; for several, the group's order is
    # kept.
    checked = touched if touched is not None and len(touched) < 2 and after.kind is not GroupKind.CLASSIC else None
    if checked is None or before is None or converted:
        changed = {one: member for one, member in after.members.items() if old_members.get(one) is not member}
        gone = {one: member for one, member in old_members.items() if one not in after.members}
    else:
        present = {one: after.members[one] for one in checked if one in after.members}
        changed = {one: member for one, member in present.items() if old_members.get(one) is not member}
        gone = {one: old_members[one] for one in checked if one in old_members and one not in present}
    members = list(_members(old_members, changed, gone))
    regexes = list(_regexes({} if before is None else before.regexes, after.regexes))
    found += [fact for _, fact in members]
    found += regexes
    if after.metadata_hash is not None:
        had_topics = before is not None and before.has_topic_record
        if had_topics != after.has_topic_record or topics_written:
            found.append(facts.TopicRecordChanged(there=after.has_topic_record))
        old_hash = 0 if before is None or before.metadata_hash is None else before.metadata_hash
        if old_hash != after.metadata_hash:
            found.append(facts.HashChanged(before=old_hash, after=after.metadata_hash))
    if after.kind is GroupKind.CLASSIC:
        if not after.is_for_offsets and (before is None or before.epoch != after.epoch or converted):
            found.append(
                facts.GenerationBegan(
                    before=0 if before is None else before.epoch,
                    after=after.epoch,
                    protocol=after.assignor,
                    leader=after.leader,
                    members=len(after.members),
                )
            )
    elif (before.epoch != after.epoch or converted) if before is not None else (written is None or written.epoch):
        found.append(
            EpochBumped(
                before=0 if before is None or converted else before.epoch,
                after=after.epoch,
                reasons=tuple(_reasons(before, after, members, regexes, converted, written)),
            )
        )
    if not converted:  # else topic names only became topic ids
        found += _target(before, after, changed, gone)
    if after.kind is not GroupKind.CLASSIC:
        found += _reconciliation(before, after, changed, converted=converted)
    return found


def _members(
    old: Mapping[str, MemberView], changed: Mapping[str, MemberView], gone: Mapping[str, MemberView]
) -> Iterator[tuple[Cause, Fact]]:
    """Yield joined, left and changed members with their cause.

    They are sorted by member id, so that a compacted log gives the same order.
    """
    gone = dict(sorted(gone.items()))
    instances = {member.instance_id: member_id for member_id, member in gone.items() if member.instance_id is not None}
    for member_id, member in sorted(changed.items()):
        before = old.get(member_id)
        # Also a member that has another instance id may take one over.
        took_over = before is None or before.instance_id != member.instance_id
        if took_over and member.instance_id is not None and member.instance_id in instances:
            replaced = instances[member.instance_id]
            del gone[replaced]
            yield (
                Cause.REPLACED,
                facts.MemberReplaced(instance_id=member.instance_id, before=replaced, after=member_id),
            )
            yield from _changes(old[replaced], member)
        elif before is None:
            yield (
                Cause.JOINED,
                facts.MemberJoined(
                    member_id=member_id,
                    instance_id=member.instance_id,
                    rack=member.rack,
                    client_id=member.client_id,
                ),
            )
        else:
            if member.epoch == LEAVE_STATIC != before.epoch:
                yield Cause.MEMBER, facts.MemberAway(member_id=member_id, instance_id=member.instance_id)
            yield from _changes(before, member)
    for member_id, member in gone.items():
        yield Cause.LEFT, facts.MemberLeft(member_id=member_id, instance_id=member.instance_id)


def _changes(before: MemberView, after: MemberView) -> Iterator[tuple[Cause, Fact]]:
    for cause, what, old, new in (
        (Cause.SUBSCRIPTION, "subscription", _subscription(before), _subscription(after)),
        (Cause.ASSIGNOR, "assignor", before.assignor, after.assignor),
        (
            Cause.ASSIGNOR,
            "client-side assignors",
            ", ".join(before.client_assignors),
            ", ".join(after.client_assignors),
        ),
        (Cause.MEMBER, "rack", before.rack, after.rack),
        (Cause.MEMBER, "protocol", before.protocol, after.protocol),
        (Cause.MEMBER, "instance", before.instance_id, after.instance_id),
        (Cause.MEMBER, "process", before.process_id, after.process_id),
        (
            Cause.MEMBER,
            "client",
            f"{before.client_id} {before.client_host}",
            f"{after.client_id} {after.client_host}",
        ),
    ):
        if old != new:
            yield (
                cause,
                facts.MemberChanged(member_id=after.member_id, what=what, before=old or "", after=new or ""),
            )


def _subscription(member: MemberView) -> str:
    return ", ".join([*member.topics, *([f"/{member.regex}/"] if member.regex else [])])


def _regexes(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> Iterator[facts.RegexResolved]:
    for regex, topics in sorted(new.items()):
        if regex not in old or set(old[regex]) != set(topics):
            yield facts.RegexResolved(regex=regex, before=old.get(regex, ()), after=topics)
    for regex in sorted(old):
        if regex not in new:
            yield facts.RegexResolved(regex=regex, before=old[regex], after=None)


def _reasons(
    before: GroupView | None,
    after: GroupView,
    members: Iterable[tuple[Cause, Fact]],
    regexes: Iterable[facts.RegexResolved],
    converted: bool,
    written: Written | None,
) -> Iterator[EpochReason]:
    """Yield why the group epoch was incremented.

    The hash and the topics count only if no changed subscription explains them.
    """
    if converted and before is not None and before.members:
        yield EpochReason(cause=Cause.CONVERTED)
        return
    members = list(members)
    strong = [
        EpochReason(cause=cause, fact=fact)
        for cause, fact in members
        if cause in (Cause.JOINED, Cause.LEFT, Cause.REPLACED, Cause.SUBSCRIPTION)
    ]
    if any(reason.cause is not Cause.REPLACED for reason in strong):
        strong = [reason for reason in strong if reason.cause is not Cause.REPLACED]
    strong += [
        EpochReason(cause=Cause.REGEX, fact=fact)
        for fact in regexes
        if {*fact.before} != {*(fact.after or ())}
        and not (strong and fact.after is None)  # removed with its last member
    ]
    yield from strong
    for cause, is_other in _of_the_group(before, after):
        if is_other:
            strong.append(EpochReason(cause=cause))
            yield strong[-1]
    explained = bool(strong)
    if not explained and written is not None and before is not None and after.epoch > before.epoch + 1:
        yield EpochReason(cause=Cause.COMPACTED)
        return
    if before is not None and before.metadata_hash != after.metadata_hash and before.metadata_hash is not None:
        cause = Cause.HASH
        if not before.metadata_hash:
            cause = Cause.HASH_FIRST
        elif not after.metadata_hash:
            cause = Cause.HASH_DROPPED
        same_topics = before.topics == after.topics and not any(
            reason.cause in (Cause.TOPOLOGY_READY, Cause.TOPOLOGY_NOT_READY) for reason in strong
        )
        if (same_topics and before.topics != frozenset()) or (cause is Cause.HASH_FIRST and before.has_topic_record):
            yield EpochReason(cause=cause)
            explained = True
    elif before is not None and written is not None and written.topics and before.topics == after.topics:
        yield EpochReason(cause=Cause.TOPICS)
        explained = True
    if not explained and before is not None and written is not None and written.share_state:
        yield EpochReason(cause=Cause.SHARE_STATE)
    elif not explained:
        weak = [EpochReason(cause=cause, fact=fact) for cause, fact in members]
        yield from weak or [EpochReason(cause=Cause.UNKNOWN)]


def _of_the_group(before: GroupView | None, after: GroupView) -> Iterator[tuple[Cause, bool]]:
    if before is not None:
        yield Cause.CONFIG, before.configs != after.configs
        yield Cause.TOPOLOGY, before.topology_epoch != after.topology_epoch
        ready = after.validated_topology_epoch == after.topology_epoch is not None
        yield Cause.TOPOLOGY_READY, ready and before.validated_topology_epoch != after.validated_topology_epoch
        lost = before.validated_topology_epoch == before.topology_epoch is not None
        same = before.topology_epoch == after.topology_epoch
        yield Cause.TOPOLOGY_NOT_READY, lost and same and not ready


def _had(group: GroupView, member_id: str) -> frozenset[Partition]:
    member = group.members.get(member_id)
    return frozenset() if member is None else member.target | member.standby_target


def _owners(group: GroupView | None) -> dict[Partition, tuple[str, ...]]:
    owners: dict[Partition, tuple[str, ...]] = {}
    for member_id, member in ({} if group is None else group.members).items():
        for partition in member.target | member.standby_target:
            owners[partition] = (*owners.get(partition, ()), member_id)
    return owners


def _target(
    before: GroupView | None, after: GroupView, changed: Mapping[str, MemberView], gone: Mapping[str, MemberView]
) -> Iterator[Fact]:
    moves: tuple[facts.Move, ...] = ()
    if gone or any(
        before is None or _had(before, one) != member.target | member.standby_target for one, member in changed.items()
    ):
        old, new = _owners(before), _owners(after)
        moves = tuple(
            facts.Move(partition=partition, before=old.get(partition, ()), after=new.get(partition, ()))
            for partition in sorted({**old, **new}, key=lambda one: (str(one[0]), one[1]))
            if sorted(old.get(partition, ())) != sorted(new.get(partition, ()))
        )
    is_new = after.kind is not GroupKind.CLASSIC and (
        before is not None and before.kind is after.kind and before.assignment_epoch != after.assignment_epoch
    )
    if moves or (is_new and after.members):
        by_member = after.computed_by is not None
        yield facts.TargetChanged(
            epoch=after.assignment_epoch,
            moves=moves,
            assignor=after.assignor if by_member else None,
            computed_by=after.computed_by,
            error=after.assignor_error,
            classic=after.kind is GroupKind.CLASSIC,
        )


def _reconciliation(
    before: GroupView | None, after: GroupView, changed: Mapping[str, MemberView], *, converted: bool
) -> Iterator[Fact]:
    for member_id, member in changed.items():
        old = None if before is None else before.members.get(member_id)
        if member.epoch < 0 or (converted and old is not None):
            continue
        if old is not None and _progress(old) == _progress(member):
            continue
        if old is None and not member.epoch:
            continue  # before its first assignment
        yield facts.MemberProgressed(
            member_id=member_id,
            epoch=member.epoch,
            state=member.state,
            reconciled=member.state == "stable" and member.epoch == after.assignment_epoch,
            pending_revocation=_sorted(member.pending_revocation),
            gained=_sorted(_held(member) - (frozenset() if old is None else _held(old) | old.pending_revocation)),
        )


def _held(member: MemberView) -> frozenset[Partition]:
    return member.assigned | member.standby | member.warmup


def _progress(member: MemberView) -> tuple[object, ...]:
    return member.epoch, member.state, _held(member), member.pending_revocation


def _sorted(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    return tuple(sorted(partitions, key=lambda partition: (str(partition[0]), partition[1])))


def _offsets(before: CoordinatorState, after: CoordinatorState, group_id: str) -> Iterator[Fact]:
    old = {(topic, number): offset for topic, number, offset in before.offsets.of_group(group_id)}
    new = {(topic, number): offset for topic, number, offset in after.offsets.of_group(group_id)}
    committed = _sorted(at for at, offset in new.items() if old.get(at) != offset)
    gone = _sorted(old.keys() - new.keys())
    if committed:
        yield facts.OffsetsCommitted(commits=len(committed), partitions=committed, pending=False)
    if gone:
        yield facts.OffsetsDeleted(partitions=gone)
