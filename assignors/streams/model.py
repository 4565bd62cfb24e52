"""Input and output of task assignors, as the group coordinator of Kafka passes them (KIP-1071)."""

from collections.abc import Mapping, Set
from dataclasses import field
from typing import Self

from quorate.codecs.lazy_dataclass import dataclass

Tasks = Mapping[str, Set[int]]
"""Subtopology id → partitions. A task is a partition of a subtopology."""

TaskOffsets = Mapping[str, Mapping[int, int]]
"""Subtopology id → partition → sum of the task's offsets in its changelogs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberSpec:
    """A member with its current tasks, not those of its target assignment.

    `process_id`: the instance of the application; its members share tasks' state directories.
    `task_offsets`: those that it reported, also of tasks that it is not assigned.
    """

    process_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    active_tasks: Tasks = field(default_factory=dict)
    standby_tasks: Tasks = field(default_factory=dict)
    warmup_tasks: Tasks = field(default_factory=dict)
    task_offsets: TaskOffsets = field(default_factory=dict)
    task_end_offsets: TaskOffsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAssignmentConfigs:
    """The group's configs for the assignor. `sticky` of Kafka 4.4 ignores the tags."""

    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()

    @classmethod
    def from_map(cls, configs: Mapping[str, str]) -> Self:
        """Read the configs that a group's metadata record stores by name.

        Raises `ValueError` without `num.standby.replicas`, unless there are no configs at all.
        """
        if not configs:
            return cls()
        standby = configs.get("num.standby.replicas")
        if standby is None:
            raise ValueError("assignment configs without num.standby.replicas")
        tags = configs.get("rack.aware.assignment.tags", "")
        return cls(
            num_standby_replicas=int(standby),
            rack_aware_assignment_tags=tuple(tags.rstrip(",").split(",")) if tags.strip(",") else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSubtopology:
    """A subtopology with its number of tasks. Only stateful ones have standby tasks."""

    subtopology_id: str
    max_num_input_partitions: int
    is_stateful: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTasks:
    """A member's new target assignment. Kafka 4.4 assigns no warm-up tasks."""

    active_tasks: Tasks
    standby_tasks: Tasks
