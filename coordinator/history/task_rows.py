"""Rows of the subtopologies and tasks of replayed streams groups (KIP-1071)."""

from collections.abc import Iterable, Iterator
from typing import Any

from quorate.coordinator.history.labels import Partition
from quorate.coordinator.history.replay import ReplayedGroups
from quorate.coordinator.history.views import GroupView

Row = dict[str, Any]

_ROLES = {"active": "", "standby": "standby of ", "warm-up": "warm-up of "}
"""Role of a task → start of its label in views."""


def task_rows(found: ReplayedGroups) -> Iterator[Row]:
    """Yield a row per subtopology, role and member, with current and target tasks.

    A subtopology without tasks has one row, without a role.
    """
    for one in found.groups:
        for subtopology in one.view.subtopologies:
            about: Row = {
                "group": one.view.group_id,
                "subtopology": subtopology.subtopology_id,
                "topics": list(subtopology.sources),
                "repartition_sinks": list(subtopology.repartition_sinks),
                "changelogs": list(subtopology.changelogs),
            }
            rows = [about | row for row in _of_members(one.view, f"subtopology {subtopology.subtopology_id}")]
            yield from rows or [about | dict.fromkeys(_OF_MEMBERS)]


_OF_MEMBERS = (
    *("role", "tasks", "target_tasks", "process_id", "consumer_id"),
    *("client_id", "host", "member_epoch", "state"),
)


def _of_members(group: GroupView, subtopology: str) -> Iterator[Row]:
    members = sorted(group.members.values(), key=lambda member: (member.process_id, member.member_id))
    for role, start in _ROLES.items():
        for member in members:
            tasks = _numbers(member.assigned | member.standby | member.warmup, start + subtopology)
            target = _numbers(member.target | member.standby_target, start + subtopology)
            if tasks or target:
                values = (
                    *(role, tasks, target, member.process_id or None, member.member_id),
                    *(member.client_id, member.client_host, member.epoch, member.state),
                )
                yield dict(zip(_OF_MEMBERS, values, strict=True))


def _numbers(tasks: Iterable[Partition], label: str) -> list[int]:
    return sorted(number for name, number in tasks if name == label)
