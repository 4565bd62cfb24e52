"""Reconciliation of a streams member with its target tasks (KIP-1071).

As for consumer groups, a member first revokes tasks, and gets tasks that others have released. Two
members of one process share its local state, so a task that another member of the process runs, in
any role, is unreleased as well. A member that changes the role of its own task does not revoke it.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from types import MappingProxyType

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.state.streams import NO_STATE, StreamsMember, TaskState
from quorate.coordinator.state.streams_processes import TaskProcesses
from quorate.coordinator.state.streams_tasks import AssignedTasks, TargetTasks, Tasks
from quorate.coordinator.streams.records import current_value

TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = MappingProxyType(
    {state: frozenset({TaskState.STABLE, TaskState.UNREVOKED_TASKS, TaskState.UNRELEASED_TASKS}) for state in TaskState}
)
"""State → possible next states."""

_Sets = JavaHashMap[str, set[int]]
_Epochs = dict[str, dict[int, int]]
_Unreleased = Callable[[str, int], bool]


def hash_order(keys: Iterable[str]) -> list[str]:
    """Return subtopology ids, put in this order, in the order of a Java HashMap."""
    listed = list(keys)
    if len(listed) < 2:
        return listed
    made: JavaHashMap[str, None] = JavaHashMap()
    for key in listed:
        made.put(key, None)
    return [key for key, _ in made.items()]


def reconcile(
    member: StreamsMember,
    target_epoch: int,
    target: TargetTasks,
    processes: TaskProcesses,
    owned: TargetTasks | None,
) -> StreamsMember:
    """Move a member one step towards its target.

    1. Tasks to revoke, and the member still reports them: UNREVOKED_TASKS, with its epoch.
    2. Otherwise it reaches the target epoch, with all tasks that are released: STABLE, or
       UNRELEASED_TASKS if others still run some of its target tasks.

    `owned`: the tasks that the member reports; `None` if it reports none of them. Returns the same
    object if nothing changes. Raises `ApiError` FENCED_MEMBER_EPOCH in an unknown state.
    """
    if member.current is None or member.current.state == NO_STATE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} has no state")  # Kafka: NPE
    epoch = member.epoch
    match member.state:
        case TaskState.STABLE if epoch == target_epoch:
            return member
        case TaskState.UNREVOKED_TASKS:
            if owned is None or owned.contains_any(member.pending_revocation):
                return member
            epoch += 1
        case TaskState.UNKNOWN:
            if owned is None or owned:
                raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, f"member {member.member_id} must rejoin")
            epoch = target_epoch
    step = _Step(member, target, target_epoch, processes)
    return step.result(epoch, owned)


class _Step:
    """One step of a member: the tasks that it keeps, must revoke, and may get now."""

    def __init__(self, member: StreamsMember, target: TargetTasks, target_epoch: int, processes: TaskProcesses) -> None:
        self._member = member
        self._before = before = member.assigned
        self._target = target
        self._target_epoch = target_epoch
        self._processes = processes
        self._active: _Epochs = {}
        self._active_revoked: _Epochs = {}
        self._active_new: _Epochs = {}
        waits = self._compare_active()
        self._standby, self._standby_revoked, self._standby_new, standby_waits = _compare(
            before.standby, target.standby, self._is_unreleased_standby
        )
        self._warmup, self._warmup_revoked, self._warmup_new, warmup_waits = _compare(
            before.warmup, target.warmup, self._is_unreleased_warmup
        )
        self._waits = waits or standby_waits or warmup_waits
        # Changes of the role of own tasks.
        for one in hash_order(before.active):
            for partition in before.active[one]:
                if partition in (self._standby_new.get(one) or ()):
                    _grant(self._standby_new, self._standby, one, partition)
        _convert(before.standby, self._standby_revoked, self._warmup_new, self._warmup)
        _convert(before.warmup, self._warmup_revoked, self._standby_new, self._standby)
        for tasks, revoked in ((before.standby, self._standby_revoked), (before.warmup, self._warmup_revoked)):
            for one, partitions in tasks.items():
                for partition in partitions & target.active.get(one, frozenset()):
                    _remove(revoked, one, partition)

    def result(self, epoch: int, owned: TargetTasks | None) -> StreamsMember:
        """Return the member after the step. `epoch`: its epoch if it has tasks to revoke."""
        revoked = AssignedTasks(self._active_revoked, _frozen(self._standby_revoked), _frozen(self._warmup_revoked))
        revokes = bool(revoked) and (owned is None or owned.contains_any(revoked))
        # A task that becomes active keeps its role as a replica until then.
        for tasks, kept in ((self._before.standby, self._standby), (self._before.warmup, self._warmup)):
            for one in hash_order(tasks):
                granted = () if revokes else self._active_new.get(one, ())
                for partition in tasks[one] & self._target.active.get(one, frozenset()):
                    if partition not in granted:
                        kept.compute_if_absent(one, set).add(partition)
        if revokes:
            assigned = AssignedTasks(self._active, _frozen(self._standby), _frozen(self._warmup))
            return self._updated(epoch, TaskState.UNREVOKED_TASKS, assigned, revoked)
        active, standby, warmup = self._active, self._standby, self._warmup
        if self._active_new or len(self._standby_new) or len(self._warmup_new):
            active = _merged_active(active, self._active_new)
            standby = _merged(standby, self._standby_new)
            warmup = _merged(warmup, self._warmup_new)
        state = TaskState.UNRELEASED_TASKS if self._waits else TaskState.STABLE
        assigned = AssignedTasks(active, _frozen(standby), _frozen(warmup))
        return self._updated(self._target_epoch, state, assigned, AssignedTasks.NONE)

    def _updated(self, epoch: int, state: TaskState, assigned: AssignedTasks, pending: AssignedTasks) -> StreamsMember:
        member = self._member
        assert member.current is not None  # see `reconcile`
        before = member.current
        unchanged = (epoch, member.epoch, state) == (before.member_epoch, before.previous_member_epoch, before.state)
        if unchanged and assigned == member.assigned and pending == member.pending_revocation:
            return member
        value = current_value(epoch, member.epoch, state, assigned, pending)
        return replace(member, current=value, assigned=assigned, pending_revocation=pending)

    def _compare_active(self) -> bool:
        """Compare active tasks, which keep the epoch at which they were assigned."""
        waits = False
        before, target = self._before.active, self._target.active
        for one in _union(target, before):
            current, wanted = before.get(one, {}), target.get(one, frozenset())
            kept = {partition: epoch for partition, epoch in current.items() if partition in wanted}
            revoked = {partition: epoch for partition, epoch in current.items() if partition not in wanted}
            new = {
                partition: self._target_epoch
                for partition in wanted
                if partition not in kept and not self._is_unreleased_active(one, partition)
            }
            waits |= len(kept) + len(new) < len(wanted)
            if kept:
                self._active[one] = kept
            if revoked:
                self._active_revoked[one] = revoked
            if new:
                self._active_new[one] = new
        return waits

    def _is_unreleased_active(self, one: str, partition: int) -> bool:
        return (
            self._processes.active(one, partition) is not None
            or self._runs_elsewhere(self._processes.standby(one, partition), self._before.standby, one, partition)
            or self._runs_elsewhere(self._processes.warmup(one, partition), self._before.warmup, one, partition)
        )

    def _is_unreleased_standby(self, one: str, partition: int) -> bool:
        process_id = self._member.process_id
        active_elsewhere = self._processes.active(one, partition) == process_id and partition not in (
            self._before.active.get(one, {})
        )
        return (
            active_elsewhere
            or process_id in self._processes.standby(one, partition)
            or self._runs_elsewhere(self._processes.warmup(one, partition), self._before.warmup, one, partition)
        )

    def _is_unreleased_warmup(self, one: str, partition: int) -> bool:
        process_id = self._member.process_id
        return (
            self._processes.active(one, partition) == process_id
            or self._runs_elsewhere(self._processes.standby(one, partition), self._before.standby, one, partition)
            or process_id in self._processes.warmup(one, partition)
        )

    def _runs_elsewhere(self, processes: Set[str], own: Tasks, one: str, partition: int) -> bool:
        """Return whether another member of the same process has this replica."""
        return self._member.process_id in processes and partition not in own.get(one, ())


def _compare(before: Tasks, target: Tasks, is_unreleased: _Unreleased) -> tuple[_Sets, _Sets, _Sets, bool]:
    """Return the replicas that are kept, revoked, and new, and whether some are unreleased."""
    kept: _Sets = JavaHashMap()
    revoked: _Sets = JavaHashMap()
    new: _Sets = JavaHashMap()
    waits = False
    for one in _union(target, before):
        current, wanted = before.get(one, frozenset()), target.get(one, frozenset())
        released = {partition for partition in wanted - current if not is_unreleased(one, partition)}
        waits |= len(released) < len(wanted - current)
        for found, result in ((current & wanted, kept), (current - wanted, revoked), (released, new)):
            if found:
                result.put(one, set(found))
    return kept, revoked, new, waits


def _union(target: Iterable[str], before: Iterable[str]) -> list[str]:
    """Return all subtopologies in the order of Kafka's HashSet."""
    first = hash_order(target)
    if len(first) < 2 and not set(before) - set(first):
        return first
    made: JavaHashSet[str] = JavaHashSet.of(first)
    for one in hash_order(before):
        made.add(one)
    return list(made)


def _convert(before: Tasks, revoked: _Sets, new: _Sets, assigned: _Sets) -> None:
    """Turn own replicas of one role into another role, without a revocation."""
    for one in hash_order(before):
        for partition in before[one]:
            if partition in (new.get(one) or ()):
                _grant(new, assigned, one, partition)
                _remove(revoked, one, partition)


def _grant(new: _Sets, assigned: _Sets, one: str, partition: int) -> None:
    _remove(new, one, partition)
    assigned.compute_if_absent(one, set).add(partition)


def _remove(tasks: _Sets, one: str, partition: int) -> None:
    found = tasks.get(one)
    if found is not None and partition in found:
        found.remove(partition)
        if not found:
            tasks.remove(one)


def _merged_active(kept: _Epochs, new: _Epochs) -> _Epochs:
    """Return both, in Kafka's order: `computeIfAbsent` inserts at another place than `put`."""
    merged: JavaHashMap[str, dict[int, int]] = JavaHashMap()
    for one in hash_order(kept):
        merged.put(one, kept[one])
    for one in hash_order(new):
        merged.compute_if_absent(one, dict).update(new[one])
    return dict(merged.items())


def _merged(kept: _Sets, new: _Sets) -> _Sets:
    merged: _Sets = JavaHashMap()
    for one, partitions in kept.items():
        merged.put(one, partitions)
    for one, partitions in new.items():
        merged.compute_if_absent(one, set).update(partitions)
    return merged


def _frozen(tasks: _Sets) -> dict[str, frozenset[int]]:
    return {one: frozenset(partitions) for one, partitions in tasks.items()}
