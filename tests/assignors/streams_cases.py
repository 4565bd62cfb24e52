"""Random streams groups for the task assignor, from a seed.

A case is plain JSON, a line of the oracle's `streamsAssign` (tests/oracle/README.md). Members of
one process have its id. Tasks owned before may be of several members, of other topologies, or out
of range. `next_streams_round` continues from an assignment, in which members and processes come
and go, and report offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from tests.assignors.cases import COLLIDING, MID, SMALL, Case, Size, member_ids
from tests.assignors.smaller_cases import fewer_of, one_less, replaced, without

__all__ = ["MID", "SMALL", "next_streams_round", "smaller_streams_cases", "streams_case"]

TASK_FIELDS = ("activeTasks", "standbyTasks", "warmupTasks")


def streams_case(rng: Random, *, size: Size = SMALL) -> Case:
    """Create one case; in two thirds, members own tasks of any kind."""
    subtopologies = _subtopologies(rng, size)
    ids = member_ids(rng, rng.randint(1, size.members))
    processes = _process_ids(rng, rng.choice((len(ids), rng.randint(1, len(ids)))))
    case: Case = {
        "op": "streamsAssign",
        "numStandbyReplicas": rng.choice((0, 0, 1, 1, 2, 3)),
        "subtopologies": subtopologies,
        "members": {member_id: {"processId": rng.choice(processes)} for member_id in ids},
    }
    if rng.random() < 0.5:  # one member per process
        for number, member in enumerate(case["members"].values()):
            member["processId"] = f"process-{number}-{rng.randrange(99)}"
    style = rng.randrange(3)
    if style == 1:  # each task once
        _own_once(rng, case)
    elif style == 2:  # anything that members may claim
        for member in case["members"].values():
            for field in TASK_FIELDS:
                if rng.random() < 0.6:
                    member[field] = _some_tasks(rng, subtopologies, rng.choice((0.1, 0.4, 0.8)))
            _report(rng, member, subtopologies)
    return case


def next_streams_round(rng: Random, case: Case, assignment: Mapping[str, Any]) -> Case:
    """Return the case after its assignment was adopted, and something changed."""
    case = deepcopy(case)
    members: dict[str, Case] = case["members"]
    for member_id, tasks in assignment.items():
        member = members[member_id]
        for field in (*TASK_FIELDS, "taskOffsets"):
            member.pop(field, None)
        member |= {"activeTasks": tasks["active"], "standbyTasks": tasks["standby"]}
        _report(rng, member, case["subtopologies"])
    for _ in range(rng.choice((1, 1, 2, 5))):
        match rng.randrange(6):
            case 0 if len(members) > 1:
                del members[rng.choice(list(members))]
            case 1 if len(members) > 1:  # a process ends
                process = rng.choice(list(members.values()))["processId"]
                left = {name: member for name, member in members.items() if member["processId"] != process}
                members = case["members"] = left or members
            case 2:  # a thread more
                process = rng.choice(list(members.values()))["processId"]
                members[f"new-{rng.randrange(1 << 30)}"] = {"processId": process}
            case 3:
                joined = {"processId": f"p-{rng.randrange(1 << 30)}"}
                _report(rng, joined, case["subtopologies"])
                members[f"new-{rng.randrange(1 << 30)}"] = joined
            case 4:
                case["numStandbyReplicas"] = rng.choice((0, 1, 2))
            case _:
                rng.choice(case["subtopologies"])["partitions"] += rng.choice((1, 3))
    return case


def _subtopologies(rng: Random, size: Size) -> list[Case]:
    count = rng.randint(1, size.topics)
    ids = [str(number) for number in range(count)]
    if rng.random() < 0.2:
        ids = [*COLLIDING, *(f"s-{rng.randrange(1000)}-{number}" for number in range(count))][:count]
    return [{"id": name, "partitions": rng.randint(1, size.partitions), "stateful": rng.random() < 0.7} for name in ids]


def _process_ids(rng: Random, count: int) -> list[str]:
    match rng.randrange(3):
        case 0:
            return [f"p{number}" for number in range(count)]
        case 1:
            return [*COLLIDING, *(f"p{number}" for number in range(count))][:count]
        case _:
            return [f"{rng.getrandbits(128):032x}" for _ in range(count)]


def _own_once(rng: Random, case: Case) -> None:
    """Let one member own each active task, and some own standby tasks, most of them evenly."""
    members = list(case["members"].values())
    skewed = rng.random() < 0.3
    for one in case["subtopologies"]:
        for partition in range(one["partitions"]):
            if rng.random() < 0.1:
                continue
            number = 0 if skewed and rng.random() < 0.7 else (partition if rng.random() < 0.7 else rng.randrange(99))
            _add(members[number % len(members)], "activeTasks", one["id"], partition)
            if one["stateful"] and rng.random() < 0.6:
                _add(members[(number + 1) % len(members)], "standbyTasks", one["id"], partition)
    for member in members:
        _report(rng, member, case["subtopologies"])


def _add(member: Case, field: str, subtopology: str, partition: int) -> None:
    member.setdefault(field, {}).setdefault(subtopology, []).append(partition)


def _some_tasks(rng: Random, subtopologies: Sequence[Case], chance: float) -> Case:
    chosen = {
        one["id"]: [number for number in range(one["partitions"] + 1) if rng.random() < chance]
        for one in [*subtopologies, {"id": "gone", "partitions": 2}]
        if rng.random() < 0.8
    }
    return {name: partitions for name, partitions in chosen.items() if partitions}


def _report(rng: Random, member: Case, subtopologies: Sequence[Case]) -> None:
    """Let a member report offsets of tasks, its own and others."""
    if rng.random() < 0.5:
        return
    member["taskOffsets"] = {
        one["id"]: {
            str(partition): rng.choice((0, 5, 5, rng.randrange(100), (1 << 63) - 1))
            for partition in range(one["partitions"])
            if rng.random() < 0.4
        }
        for one in subtopologies
        if rng.random() < 0.7
    }


def smaller_streams_cases(case: Case) -> Iterator[Case]:
    """Yield cases with one part removed, large parts first."""
    members: dict[str, Case] = case["members"]
    yield from fewer_of(case, "members")
    for subtopologies in one_less(case["subtopologies"]):
        yield case | {"subtopologies": subtopologies}
    if case["numStandbyReplicas"]:
        yield case | {"numStandbyReplicas": case["numStandbyReplicas"] - 1}
    for name, member in members.items():
        for field in (*TASK_FIELDS, "taskOffsets"):
            if field in member:
                yield case | {"members": members | {name: without(member, field)}}
        for field in TASK_FIELDS:
            for subtopology, partitions in member.get(field, {}).items():
                for left in one_less(partitions):
                    fewer = member[field] | {subtopology: left}
                    yield case | {"members": members | {name: member | {field: fewer}}}
    for number, one in enumerate(case["subtopologies"]):
        if one["partitions"] > 1:
            fewer = one | {"partitions": one["partitions"] - 1}
            yield case | {"subtopologies": replaced(case["subtopologies"], number, fewer)}
