"""The task assignor of streams groups against Kafka's, and its rules.

On failure the first seed with a different result is minimised and printed; a run repeats with
`python bench/assignor_differential.py --assignor 'streams sticky' --seed N`.
"""

import json
import os
from collections import Counter
from random import Random

import pytest

from quorate.assignors.model import AssignorError
from quorate.assignors.streams import (
    StickyTaskAssignor,
    StreamsAssignmentConfigs,
    StreamsMemberSpec,
    StreamsSubtopology,
)
from tests.assignors.differential import Outcome
from tests.assignors.smaller_cases import minimise
from tests.assignors.streams_cases import MID, next_streams_round, smaller_streams_cases, streams_case
from tests.assignors.streams_differential import differ, histories, kafka, ours, run
from tests.conftest import CI
from tests.differential.driver import responses
from tests.extent import portion
from tests.oracle.client import Oracle

START = 0 if CI else int.from_bytes(os.urandom(4), "big")


def settle(outcome: Outcome, oracle: Oracle) -> None:
    assert not outcome.differences, (
        f"{len(outcome.differences)} of {outcome.cases} differ; the first:\n{outcome.differences[0].report(oracle)}"
    )
    assert not outcome.kafka_failures  # Kafka assigns whenever there are members


@pytest.mark.oracle
def test_generated_groups_get_kafkas_tasks(oracle: Oracle) -> None:
    settle(run(oracle, "", range(START, START + portion(2000))), oracle)


@pytest.mark.oracle
def test_histories_of_groups_get_kafkas_tasks(oracle: Oracle) -> None:
    settle(histories(oracle, "", range(START, START + portion(300))), oracle)


@pytest.mark.oracle
def test_the_driver_responds_like_the_oracle(oracle: Oracle) -> None:
    case = streams_case(Random(5))
    (mine,) = responses([json.dumps(case)])
    assert {key: value for key, value in mine.items() if key not in ("id", "op")} == kafka(oracle, case)


@pytest.mark.oracle
def test_without_members_the_error_is_kafkas(oracle: Oracle) -> None:
    case = {"op": "streamsAssign", "members": {}, "subtopologies": [{"id": "0", "partitions": 1}]}
    theirs = kafka(oracle, case)
    assert theirs["error"]["message"] == "No process available to assign active task 0_0."
    assert not differ(ours(case), theirs)


def test_generated_cases_cover_what_they_should() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        rng = Random(seed)
        case = streams_case(rng)
        for _ in range(3):
            members = case["members"].values()
            owners = Counter(
                (name, partition)
                for member in members
                for name, partitions in member.get("activeTasks", {}).items()
                for partition in partitions
            )
            result = ours(case)["assignment"]
            standby = sum(len(tasks) for member in result.values() for tasks in member["standby"].values())
            wanted = case["numStandbyReplicas"] * sum(
                one["partitions"] for one in case["subtopologies"] if one["stateful"]
            )
            processes = {member["processId"] for member in members}
            seen["shared process"] += 1 < len(processes) < len(members)
            seen["contested tasks"] += max(owners.values(), default=0) > 1
            seen["offsets"] += any(member.get("taskOffsets") for member in members)
            seen["other topologies"] += any("gone" in member.get("activeTasks", {}) for member in members)
            seen["enough standby tasks"] += 0 < standby == wanted
            seen["too few processes"] += standby < wanted
            case = next_streams_round(rng, case, result)
    assert set(seen) == {name for name, count in seen.items() if count >= 20}


def test_members_in_another_order_are_a_difference() -> None:
    case = next(case for case in (streams_case(Random(seed)) for seed in range(99)) if len(case["members"]) > 2)
    mine = ours(case)
    assert not differ(mine, mine)
    assert differ({"assignment": dict(reversed(mine["assignment"].items()))}, mine)
    assert differ({"assignment": {name: {"active": {}, "standby": {}} for name in mine["assignment"]}}, mine)


def test_where_kafka_throws_ours_must_raise_an_error_with_its_text() -> None:
    thrown = {"error": {"class": "TaskAssignorException", "message": "No process"}}
    assert not differ({"error": {"class": "AssignorError", "message": "No process"}}, thrown)
    assert differ({"error": {"class": "AssignorError", "message": "else"}}, thrown)
    assert differ({"assignment": {}}, thrown)


def test_a_failing_case_is_minimised() -> None:
    case = streams_case(Random(3), size=MID)
    small = minimise(case, lambda one: len(one["members"]) >= 2, smaller=smaller_streams_cases, attempts=9000)
    assert len(small["members"]) == 2
    assert not small["numStandbyReplicas"]
    assert not small["subtopologies"]


# ---- rules


def tasks_of(
    members: dict[str, StreamsMemberSpec], *, standby: int = 0, partitions: int = 4
) -> dict[str, tuple[list[int], list[int]]]:
    """Return each member's active and standby tasks of one stateful subtopology."""
    assigned = StickyTaskAssignor().assign(
        members,
        StreamsAssignmentConfigs(num_standby_replicas=standby),
        [StreamsSubtopology(subtopology_id="0", max_num_input_partitions=partitions, is_stateful=True)],
    )
    return {
        member: (sorted(tasks.active_tasks.get("0", ())), sorted(tasks.standby_tasks.get("0", ())))
        for member, tasks in assigned.items()
    }


def test_members_keep_their_tasks_up_to_their_share() -> None:
    before = {
        "a": StreamsMemberSpec(process_id="p", active_tasks={"0": {0, 1, 2, 3}}),
        "b": StreamsMemberSpec(process_id="q"),
    }
    assert tasks_of(before) == {"a": ([0, 1], []), "b": ([2, 3], [])}


def test_standby_tasks_are_never_in_the_process_of_the_active_task() -> None:
    found = tasks_of({f"m{number}": StreamsMemberSpec(process_id=f"p{number % 2}") for number in range(4)}, standby=2)
    for number in range(2):
        mine = [found[f"m{member}"] for member in (number, number + 2)]
        assert not {task for active, _ in mine for task in active} & {task for _, standby in mine for task in standby}
    assert sorted(task for _, standby in found.values() for task in standby) == [0, 1, 2, 3]  # one other process only


def test_an_active_task_moves_to_the_member_with_most_of_its_state() -> None:
    members = {
        "a": StreamsMemberSpec(process_id="p", task_offsets={"0": {0: 10}}),
        "b": StreamsMemberSpec(process_id="q", task_offsets={"0": {0: 90}}),
        "c": StreamsMemberSpec(process_id="r", standby_tasks={"0": {1}}),
    }
    found = tasks_of(members, partitions=2)
    assert (found["b"], found["c"]) == (([0], []), ([1], []))


def test_without_members_there_is_an_error() -> None:
    with pytest.raises(AssignorError, match="No process available to assign active task 0_0"):
        tasks_of({})


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, (0, ())),
        ({"num.standby.replicas": "2"}, (2, ())),
        ({"num.standby.replicas": "1", "rack.aware.assignment.tags": "zone,cluster,"}, (1, ("zone", "cluster"))),
        ({"num.standby.replicas": "1", "rack.aware.assignment.tags": ",,"}, (1, ())),
    ],
)
def test_configs_are_read_from_the_names_of_kafka(configs, expected) -> None:
    found = StreamsAssignmentConfigs.from_map(configs)
    assert (found.num_standby_replicas, found.rack_aware_assignment_tags) == expected


def test_configs_without_standby_replicas_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"without num\.standby\.replicas"):
        StreamsAssignmentConfigs.from_map({"rack.aware.assignment.tags": "zone"})
