"""Kafka's `sticky` task assignor (StickyTaskAssignor, KIP-1071).

Active tasks go to their previous owners, then to members with their state, then to the least loaded
processes. Standby tasks follow the same steps, never in a process that has the task. A member
keeps a task only within its quota: the tasks not yet divided by the members not yet full.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from quorate.assignors.java_order import (
    computed_map_order,
    hash_map_order,
    spread,
    string_hashes,
    string_key,
    table_size,
)
from quorate.assignors.model import AssignorError
from quorate.assignors.streams.model import (
    MemberTasks,
    StreamsAssignmentConfigs,
    StreamsMemberSpec,
    StreamsSubtopology,
    Tasks,
)
from quorate.assignors.streams.priority_queue import JavaPriorityQueue

Task = int
"""A task as a number: its partition times the number of subtopologies, plus that of its own.

Their order is that of partitions, then of subtopologies.
"""


class StickyTaskAssignor:
    """Assigns the tasks of a streams group as Kafka's coordinator does."""

    name = "sticky"

    def assign(
        self,
        members: Mapping[str, StreamsMemberSpec],
        configs: StreamsAssignmentConfigs,
        subtopologies: Sequence[StreamsSubtopology],
    ) -> dict[str, MemberTasks]:
        """Return the target assignment of each member, in the order of the broker's records.

        `members`: in the iteration order of the coordinator's map. Raises `AssignorError` where
        Kafka's assignor fails.
        """
        given = list(members)
        order = hash_map_order(string_hashes(given), keys=given).tolist()
        group = _Group({given[position]: members[given[position]] for position in order}, configs, subtopologies)
        group.assign_active()
        if configs.num_standby_replicas > 0:
            group.assign_standby()
        return group.result()


class _Process:
    """The members of one application instance, by number, in insertion order."""

    __slots__ = ("by_load", "load", "members", "task_count", "tasks")

    def __init__(self) -> None:
        self.members: list[int] = []
        self.tasks: set[Task] = set()
        self.task_count = 0
        self.load = 0.0
        self.by_load: JavaPriorityQueue | None = None


class _Group:
    """An assignment in progress. Members are numbered in the order of the assignor's map."""

    def __init__(
        self,
        members: Mapping[str, StreamsMemberSpec],
        configs: StreamsAssignmentConfigs,
        subtopologies: Sequence[StreamsSubtopology],
    ) -> None:
        self.member_ids = list(members)
        self.standbys = configs.num_standby_replicas
        self.subtopologies = sorted(subtopologies, key=lambda one: string_key(one.subtopology_id))
        active = sum(one.max_num_input_partitions for one in self.subtopologies)
        stateful = sum(one.max_num_input_partitions for one in self.subtopologies if one.is_stateful)
        self.active_quota = _Quota(active, len(members))
        self.total_quota = _Quota(active + stateful * self.standbys, len(members))
        self._names = [one.subtopology_id for one in self.subtopologies]
        # Otherwise no two of them are in one bucket of any map, and the order is that of hashes.
        self.crowded = len(set((spread(string_hashes(self._names)) & np.uint32(15)).tolist())) < len(self._names)
        self.counts = [0] * len(members)
        self.active: list[list[Task]] = [[] for _ in members]
        self.standby: list[list[Task]] = [[] for _ in members]

        of_process: dict[str, _Process] = {}
        self.process_of = [of_process.setdefault(member.process_id, _Process()) for member in members.values()]
        for number, process in enumerate(self.process_of):
            process.members.append(number)
        names = list(of_process)
        last_is_new = bool(names) and len(self.process_of[-1].members) == 1
        order = computed_map_order(
            string_hashes(names), last_is_new=last_is_new, capacity=table_size(len(members)), keys=names
        )
        self.processes = [of_process[names[place]] for place in order.tolist()]
        self._find_previous(members.values())

    # ---- what members have and had

    def _find_previous(self, members: Iterable[StreamsMemberSpec]) -> None:
        """Find the previous owner of each active task, and the candidates for each standby task.

        Candidates are those that own it as a standby task, then others that reported an offset,
        each from the highest offset down.
        """
        self.owner: dict[Task, int] = {}
        candidates: dict[Task, list[tuple[bool, int, int]]] = {}
        base = len(self.subtopologies)
        numbers = {one.subtopology_id: number for number, one in enumerate(self.subtopologies)}
        for member, state in enumerate(members):
            for name, partitions in state.active_tasks.items():
                if (subtopology := numbers.get(name)) is not None:
                    self.owner.update((partition * base + subtopology, member) for partition in partitions)
            for name, partitions in state.standby_tasks.items():
                if (subtopology := numbers.get(name)) is not None:
                    offsets = state.task_offsets.get(name, {})
                    for partition in partitions:
                        rank = (False, -offsets.get(partition, 0), member)
                        candidates.setdefault(partition * base + subtopology, []).append(rank)
            for name, offsets in state.task_offsets.items():
                if (subtopology := numbers.get(name)) is not None:
                    assigned = state.standby_tasks.get(name, ())
                    for partition, offset in offsets.items():
                        if partition not in assigned:
                            rank = (True, -offset, member)
                            candidates.setdefault(partition * base + subtopology, []).append(rank)
        self.candidates = {task: [member for *_, member in sorted(ranks)] for task, ranks in candidates.items()}

    def _least_loaded(self, candidates: Iterable[int], task: Task | None = None) -> int | None:
        """Return the first candidate; a later one only if its process and itself have fewer tasks.

        `task`: leave out processes that have it.
        """
        found, load, count = None, 0.0, 0
        for member in candidates:
            process = self.process_of[member]
            if task is not None and task in process.tasks:
                continue
            if found is None or (process.load < load and self.counts[member] < count):
                found, load, count = member, process.load, self.counts[member]
        return found

    # ---- the phases

    def assign_active(self) -> None:
        """Assign active tasks. Raises `AssignorError` without members."""
        left: list[Task] = []
        for task in self._tasks(self.subtopologies):
            owner = self.owner.get(task)
            if owner is not None and self.counts[owner] < self.active_quota.per_member:
                self._add_active(owner, task)
            else:
                left.append(task)
        left, tasks = [], left
        for task in tasks:
            candidate = self._least_loaded(self.candidates.get(task, ()))
            if candidate is not None and self.counts[candidate] < self.active_quota.per_member:
                self._add_active(candidate, task)
            else:
                left.append(task)
        base = len(self.subtopologies)
        left.sort(key=lambda task: (task % base, task // base))
        if left and not self.processes:
            raise AssignorError(f"No process available to assign active task {self._name(left[0])}.")
        queue = self._by_load()
        for task in left:
            number = queue.poll()
            process = self.processes[number]
            count = self._add_to_least_loaded(process, task, self.active)
            self.active_quota.count(count)
            self.total_quota.count(count)
            queue.add(process.load, number)

    def assign_standby(self) -> None:
        """Assign standby tasks, as many as there are processes without the task."""
        left: list[tuple[Task, int]] = []
        for task in reversed(self._tasks(one for one in self.subtopologies if one.is_stateful)):
            for replica in range(self.standbys):
                candidate = self.owner.get(task)
                if candidate is None or task in self.process_of[candidate].tasks or self._is_full(candidate):
                    candidate = self._least_loaded(self.candidates.get(task, ()), task)
                    if candidate is None or self._is_full(candidate):
                        left.append((task, self.standbys - replica))
                        break
                self.total_quota.count(self._add(candidate, task, self.standby))
        base = len(self.subtopologies)
        left.sort(key=lambda one: (one[0] % base, one[0] // base), reverse=True)
        queue = self._by_load()
        for task, replicas in left:
            for _ in range(replicas):
                if not self._add_standby_to_least_loaded(queue, task):
                    break

    def _add_standby_to_least_loaded(self, queue: JavaPriorityQueue, task: Task) -> bool:
        """Add a task to the least loaded process without it. Return whether there is one."""
        passed: list[int] = []
        added = False
        while queue and not added:
            number = queue.poll()
            process = self.processes[number]
            passed.append(number)
            if task not in process.tasks:
                self.total_quota.count(self._add_to_least_loaded(process, task, self.standby))
                added = True
        for number in reversed(passed):
            queue.add(self.processes[number].load, number)
        return added

    # ---- steps

    def _tasks(self, subtopologies: Iterable[StreamsSubtopology]) -> list[Task]:
        """Return the tasks of some subtopologies in order."""
        numbers = {one.subtopology_id: number for number, one in enumerate(self.subtopologies)}
        base = len(self.subtopologies)
        return sorted(
            partition * base + numbers[one.subtopology_id]
            for one in subtopologies
            for partition in range(one.max_num_input_partitions)
        )

    def _name(self, task: Task) -> str:
        partition, subtopology = divmod(task, len(self.subtopologies))
        return f"{self.subtopologies[subtopology].subtopology_id}_{partition}"

    def _by_load(self) -> JavaPriorityQueue:
        return JavaPriorityQueue((process.load, number) for number, process in enumerate(self.processes))

    def _is_full(self, member: int) -> bool:
        return self.counts[member] >= self.total_quota.per_member

    def _add_active(self, member: int, task: Task) -> None:
        count = self._add(member, task, self.active)
        self.active_quota.count(count)
        self.total_quota.count(count)

    def _add(self, member: int, task: Task, tasks: list[list[Task]]) -> int:
        """Add a task to a member, and return its number of tasks."""
        self.process_of[member].by_load = None
        return self._put(self.process_of[member], member, task, tasks)

    def _put(self, process: _Process, member: int, task: Task, tasks: list[list[Task]]) -> int:
        process.tasks.add(task)
        process.task_count += 1
        process.load = process.task_count / len(process.members)
        tasks[member].append(task)
        self.counts[member] += 1
        return self.counts[member]

    def _add_to_least_loaded(self, process: _Process, task: Task, tasks: list[list[Task]]) -> int:
        """Add a task to the process's member with the fewest, and return its number of tasks."""
        if len(process.members) == 1:
            return self._put(process, process.members[0], task, tasks)
        queue = process.by_load
        if queue is None:
            ids = [self.member_ids[number] for number in process.members]
            order = hash_map_order(string_hashes(ids), keys=ids).tolist()
            members = [process.members[place] for place in order]
            queue = process.by_load = JavaPriorityQueue((self.counts[number], number) for number in members)
        member = queue.poll()
        count = self._put(process, member, task, tasks)
        queue.add(count, member)
        return count

    def result(self) -> dict[str, MemberTasks]:
        """Return the assignment by member id."""
        return {
            member_id: MemberTasks(
                active_tasks=self._by_subtopology(self.active[number]),
                standby_tasks=self._by_subtopology(self.standby[number]),
            )
            for number, member_id in enumerate(self.member_ids)
        }

    def _by_subtopology(self, tasks: list[Task]) -> Tasks:
        """Group tasks by subtopology, in the order in which Java's set of tasks has these."""
        base = len(self.subtopologies)
        if self.crowded:
            names = [self._names[task % base] for task in tasks]
            keys = [(string_key(name), task // base) for name, task in zip(names, tasks, strict=True)]
            partitions = np.fromiter((partition for _, partition in keys), np.int64, len(keys))
            hashes = (31 * string_hashes(names).astype(np.int64) + partitions).astype(np.uint32)
            tasks = [tasks[place] for place in hash_map_order(hashes, keys=keys).tolist()]
        found: dict[int, list[int]] = {}
        for task in tasks if self.crowded else sorted(tasks, key=lambda task: task % base):
            found.setdefault(task % base, []).append(task // base)
        return {self._names[number]: frozenset(partitions) for number, partitions in found.items()}


class _Quota:
    """The number of tasks up to which a member keeps or gets back its own.

    `per_member`: tasks left, divided by the members left, rounded up.

    A member that reaches it leaves, together with its tasks.
    """

    __slots__ = ("_members", "_tasks", "per_member")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = self._divided()

    def count(self, tasks: int) -> None:
        """Take note that a member has a task more, now `tasks`."""
        if tasks == self.per_member:
            self._tasks -= tasks
            self._members -= 1
            self.per_member = self._divided()

    def _divided(self) -> int:
        """Divide as Java does: the quotient is rounded towards zero, before a rest is added."""
        if not self._members:
            return 0
        quotient = abs(self._tasks) // abs(self._members)
        if (self._tasks < 0) != (self._members < 0):
            quotient = -quotient
        return quotient + (self._tasks - quotient * self._members > 0)
