"""The processes that run the tasks of a streams group.

A process may have several members. Two members of one process cannot run the same task, as they
share its local state.
"""

from collections.abc import Set

from quorate.coordinator.state.streams_tasks import AssignedTasks

_Task = tuple[str, int]

_NONE: frozenset[str] = frozenset()


class TaskProcesses:
    """Task → process ids, by role; of assigned tasks and of tasks pending revocation.

    As in Kafka, an active task has one process: the latest one that got it.
    """

    __slots__ = ("_active", "_standby", "_warmup")

    def __init__(self) -> None:
        self._active: dict[_Task, str] = {}
        self._standby: dict[_Task, set[str]] = {}
        self._warmup: dict[_Task, set[str]] = {}

    def active(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process that runs the active task, or `None`."""
        return self._active.get((subtopology_id, partition))

    def standby(self, subtopology_id: str, partition: int) -> Set[str]:
        """Return the processes that run the task as standby task."""
        return self._standby.get((subtopology_id, partition), _NONE)

    def warmup(self, subtopology_id: str, partition: int) -> Set[str]:
        """Return the processes that run the task as warm-up task."""
        return self._warmup.get((subtopology_id, partition), _NONE)

    def add(self, tasks: AssignedTasks, process_id: str) -> None:
        """Add a member's tasks."""
        for one, epochs in tasks.active.items():
            for partition in epochs:
                self._active[one, partition] = process_id
        for role, index in ((tasks.standby, self._standby), (tasks.warmup, self._warmup)):
            for one, partitions in role.items():
                for partition in partitions:
                    index.setdefault((one, partition), set()).add(process_id)

    def remove(self, tasks: AssignedTasks, process_id: str) -> None:
        """Remove a member's tasks; active ones that another process got meanwhile stay."""
        for one, epochs in tasks.active.items():
            for partition in epochs:
                if self._active.get((one, partition)) == process_id:
                    del self._active[one, partition]
        for role, index in ((tasks.standby, self._standby), (tasks.warmup, self._warmup)):
            for one, partitions in role.items():
                for partition in partitions:
                    found = index.get((one, partition))
                    if found is not None:
                        found.discard(process_id)
                        if not found:
                            del index[one, partition]
