"""Streams groups for the task assignor; tests/oracle's StreamsBench.java generates the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quorate.assignors.streams import (
    StickyTaskAssignor,
    StreamsAssignmentConfigs,
    StreamsMemberSpec,
    StreamsSubtopology,
)


@dataclass(frozen=True)
class TaskCell:
    """A group. All subtopologies are stateful, with `partitions` tasks each.

    `incremental`: all members but a new one have the tasks of an assignment.
    """

    members: int
    per_process: int
    subtopologies: int
    partitions: int
    standbys: int = 0
    incremental: bool = False

    @property
    def argument(self) -> str:
        """The argument of StreamsBench.java for this group."""
        sizes = (self.members, self.per_process, self.subtopologies, self.partitions, self.standbys)
        return f"{'/'.join(map(str, sizes))}/{'incremental' if self.incremental else 'full'}"

    def __str__(self) -> str:
        threads = "" if self.per_process == 1 else f" in processes of {self.per_process}"
        return (
            f"{self.members:,} members{threads}, {self.subtopologies * self.partitions:,} tasks, "
            f"{self.standbys} standby replicas{', incremental' if self.incremental else ''}"
        )

    @property
    def configs(self) -> StreamsAssignmentConfigs:
        """The configs of the group."""
        return StreamsAssignmentConfigs(num_standby_replicas=self.standbys)

    @property
    def topology(self) -> tuple[StreamsSubtopology, ...]:
        """The subtopologies."""
        return tuple(
            StreamsSubtopology(subtopology_id=str(one), max_num_input_partitions=self.partitions, is_stateful=True)
            for one in range(self.subtopologies)
        )

    def specs(self) -> Mapping[str, StreamsMemberSpec]:
        """Return the members."""
        count = self.members - self.incremental
        members = {
            f"member{number}": StreamsMemberSpec(process_id=f"process{number // self.per_process}")
            for number in range(count)
        }
        if not self.incremental:
            return members
        first = StickyTaskAssignor().assign(members, self.configs, self.topology)
        kept = {
            name: StreamsMemberSpec(
                process_id=one.process_id,
                active_tasks=first[name].active_tasks,
                standby_tasks=first[name].standby_tasks,
            )
            for name, one in members.items()
        }
        return kept | {"newMember": StreamsMemberSpec(process_id="newProcess")}


LARGEST = (1000, 1, 10, 1000)
POINTS = ((100, 1, 10, 100), (100, 4, 5, 200), (1000, 4, 10, 100), LARGEST)
"""Members, members per process, subtopologies, and partitions of each."""


def task_cells(*, quick: bool, smoke: bool) -> Iterator[TaskCell]:
    """Yield the groups of a run."""
    points = ((16, 2, 3, 10),) if smoke else (LARGEST,) if quick else POINTS
    for point in points:
        for standbys in (0, 1):
            for incremental in (False, True):
                yield TaskCell(*point, standbys, incremental)
