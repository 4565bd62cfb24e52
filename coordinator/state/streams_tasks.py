"""Tasks of streams groups (KIP-1071): the partitions of each subtopology, by role."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import ClassVar

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.streams_group import (
    StreamsGroupTargetAssignmentMemberValue,
    TargetTaskIds,
    TaskIds,
)

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id → partitions."""

ActiveTasks = Mapping[str, Mapping[int, int]]
"""Subtopology id → partition → epoch at which it was assigned."""


@dataclass(frozen=True, slots=True)
class TargetTasks:
    """Tasks of a member by role, as in its target assignment or as it reports them.

    Mappings have the order in which Kafka puts the subtopologies into a HashMap.
    """

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    NONE: ClassVar["TargetTasks"]

    @classmethod
    def of(cls, value: "StreamsGroupTargetAssignmentMemberValue | TargetTasks | None") -> "TargetTasks":
        """Return the tasks of a record; `None` means none."""
        if value is None:
            return cls.NONE
        if isinstance(value, TargetTasks):
            return value
        return cls(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def contains_any(self, other: "AssignedTasks") -> bool:
        """Return whether a task has the same role in both."""
        return (
            any(self.active.get(one, frozenset()) & partitions.keys() for one, partitions in other.active.items())
            or any(self.standby.get(one, frozenset()) & partitions for one, partitions in other.standby.items())
            or any(self.warmup.get(one, frozenset()) & partitions for one, partitions in other.warmup.items())
        )


TargetTasks.NONE = TargetTasks()

StoredTasks = TargetTasks | StreamsGroupTargetAssignmentMemberValue
"""Target tasks, read from their record or not."""


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """Assigned tasks, or tasks pending revocation. Mappings have the order of `TargetTasks`."""

    active: ActiveTasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    NONE: ClassVar["AssignedTasks"]

    @classmethod
    def of(
        cls, active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds], *, epoch: int
    ) -> "AssignedTasks":
        """Return the tasks of a record. Active ones without epochs were assigned at `epoch`."""
        return cls(
            {
                task.subtopology_id: dict(
                    zip(
                        task.partitions,
                        epochs
                        if (epochs := task.assignment_epochs) is not None and len(epochs) == len(task.partitions)
                        else (epoch,) * len(task.partitions),
                        strict=True,
                    )
                )
                for task in active
            },
            _tasks(standby),
            _tasks(warmup),
        )

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def same_tasks(self, target: TargetTasks) -> bool:
        """Return whether these are the target tasks."""
        return (
            self.warmup == target.warmup
            and self.standby == target.standby
            and self.active.keys() == target.active.keys()
            and all(partitions.keys() == target.active[one] for one, partitions in self.active.items())
        )


AssignedTasks.NONE = AssignedTasks()


def _tasks(listed: Iterable[TaskIds | TargetTaskIds]) -> dict[str, frozenset[int]]:
    return {task.subtopology_id: frozenset(task.partitions) for task in listed}
