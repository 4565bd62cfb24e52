"""Selection of the computing member: one at a time, with a deadline, and never fenced."""

import re
from pathlib import Path

import pytest

from quorate.codecs.api import DeleteGroupsRequest
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import AssignedMetadata, AssignmentDetails, ClientAssignor
from quorate.codecs.tags import read_tags
from quorate.coordinator.client_assignors.computation import NO_COMPUTATION, TRANSITIONS, Computation, Phase
from quorate.coordinator.client_assignors.computing_member import TIMER
from quorate.coordinator.client_assignors.selection import announced_by
from tests.coordinator.client_assignors.scene import MINE, Scene, computes

TIMER_KEY = TIMER.format("g")


def stable(*member_ids: str, **config: object) -> Scene:
    """Return a group whose members have reached the target."""
    scene = Scene(**config)
    for member_id in member_ids:
        scene.join(member_id)
    assert scene.compute(scene.computation.member_id) is ErrorCode.NONE
    scene.settle()
    assert scene.group.state == "Stable"
    return scene


def static_and_dynamic() -> Scene:
    """Return a group with static member A, which computed the target, and dynamic member B."""
    scene = Scene()
    scene.join("A", instance_id="a")
    scene.join("B")
    scene.compute("A")
    scene.settle()
    return scene


def bump(scene: Scene, member_id: str, reason: int) -> None:
    """Change the reason of the member's assignor, which increments the group epoch."""
    scene.beat(member_id, client_assignors=(ClientAssignor(name="mine", maximum_version=2, reason=reason),))


def test_only_the_first_member_with_a_heartbeat_is_selected() -> None:
    scene = stable("A", "B", "C")
    scene.leave("C")
    assert computes(scene.beat("B"))
    assert not computes(scene.beat("A"))
    assert scene.prepare("A").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.install("A", {}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.error_message == "member A does not compute the target assignment, but B"
    assert scene.compute("B") is ErrorCode.NONE


def test_request_is_repeated_until_the_member_fetches_the_group() -> None:
    """The response with the flag may have been lost."""
    scene = stable("A", "B")
    bump(scene, "B", 1)
    assert scene.computation.phase is Phase.REQUESTED
    assert computes(scene.beat("B"))
    scene.prepare("B")
    assert scene.computation.phase is Phase.COMPUTING
    assert not computes(scene.beat("B"))
    assert not computes(scene.beat("A"))


def test_rejoining_member_is_requested_again_with_the_same_deadline() -> None:
    """The member may have been restarted, and lost the request."""
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.prepare("B")
    scene.advance(20_000)
    before, scene.members["B"].epoch = scene.group.epoch, 0
    scene.members["B"].assignors = None
    assert computes(scene.beat("B"))
    assert scene.group.epoch == before
    assert scene.computation.deadline_ms == scene.runtime.now_ms + 40_000


def test_late_member_is_not_fenced_and_another_one_is_selected() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.advance(59_999)
    assert not computes(scene.beat("A"))
    scene.advance(1)
    assert not computes(scene.beat("B"))
    assert computes(scene.beat("A"))
    assert {"A", "B"} == set(scene.group.members)
    assert scene.compute("B") is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.compute("A") is ErrorCode.NONE
    scene.settle()
    assert scene.group.state == "Stable"


def test_deadline_counts_from_the_request_whatever_the_member_does() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.advance(30_000)
    assert computes(scene.beat("B"))
    scene.prepare("B")
    scene.advance(30_000)
    assert scene.install("B", {"A": [0, 1, 2], "B": [3, 4, 5]}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.error_message == "member B does not compute the target assignment, but no member"


def test_selection_starts_again_when_all_members_were_late() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.advance(60_000)
    assert computes(scene.beat("A"))
    scene.advance(60_000)
    assert computes(scene.beat("B"))
    assert scene.computation.late == frozenset()


def test_late_member_is_selected_if_all_others_left_temporarily() -> None:
    scene = static_and_dynamic()
    bump(scene, "B", 1)
    scene.leave("A", epoch=-2)
    scene.advance(60_000)
    assert scene.computation.late == {"B"}
    assert computes(scene.beat("B"))


def test_timer_of_a_deleted_group_does_not_affect_a_new_group() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.leave("A")
    scene.leave("B")
    assert scene.send(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == ErrorCode.NONE
    scene.join("C", assignors=())
    scene.advance(60_000)
    assert scene.computation is NO_COMPUTATION


def test_late_single_member_is_selected_again() -> None:
    scene = stable("A")
    bump(scene, "A", 1)
    scene.advance(60_000)
    assert computes(scene.beat("A"))
    assert scene.compute("A") is ErrorCode.NONE


def test_assignment_for_an_older_epoch_is_rejected_and_requested_again() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    old = scene.prepare("B").group_epoch
    scene.join("C")
    assert scene.install("B", {"A": [0, 1, 2], "B": [3, 4, 5]}, group_epoch=old) is ErrorCode.STALE_MEMBER_EPOCH
    assert scene.error_message == f"the assignment is for epoch {old}, but group g is at {old + 1}; prepare another one"
    assert [scene.target(one) for one in "AB"] == [[0, 1, 2], [3, 4, 5]], "targets stay"
    assert computes(scene.beat("C")) is False, "one at a time"
    assert computes(scene.beat("B"))
    assert scene.compute("B") is ErrorCode.NONE
    assert scene.group.assignment_epoch == old + 1


def test_new_epoch_extends_the_deadline_only_after_the_group_was_fetched() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.advance(50_000)
    bump(scene, "A", 1)
    assert computes(scene.beat("B"))
    assert scene.computation.deadline_ms == scene.runtime.now_ms + 10_000
    scene.prepare("B")
    bump(scene, "A", 2)
    assert computes(scene.beat("B"))
    assert scene.computation.deadline_ms == scene.runtime.now_ms + 60_000


def test_assignment_for_a_future_epoch_is_rejected() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.prepare("B")
    assert scene.install("B", {}, group_epoch=99) is ErrorCode.INVALID_REQUEST
    assert scene.error_message == f"group g is at epoch {scene.group.epoch}, before 99"


@pytest.mark.parametrize("way", ["leaves", "is fenced"])
def test_another_member_is_selected_when_the_computing_member_leaves(way: str) -> None:
    scene = stable("A", "B", "C", group_consumer_session_timeout_ms=45_000)
    bump(scene, "B", 1)
    scene.prepare("B")
    if way == "leaves":
        scene.leave("B")
    else:
        for _ in range(3):
            scene.advance(15_000)
            for other in "AC":
                if "B" in scene.group.members:
                    assert not computes(scene.beat(other))
        assert "B" not in scene.group.members
    assert computes(scene.beat("C"))
    assert scene.prepare("C").group_epoch == scene.group.epoch
    assert scene.compute("C") is ErrorCode.NONE


def test_static_member_that_left_temporarily_is_not_selected() -> None:
    scene = static_and_dynamic()
    bump(scene, "A", 1)
    assert scene.computation.member_id == "A"
    scene.leave("A", epoch=-2)
    assert computes(scene.beat("B"))
    prepared = scene.prepare("B")
    assert [member.instance_id for member in prepared.members if member.member_id == "A"] == ["a"], (
        "but gets partitions"
    )
    assert scene.compute("B") is ErrorCode.NONE


def test_rejoining_static_member_keeps_its_metadata() -> None:
    scene = Scene()
    scene.join("A", instance_id="a")
    assert scene.compute("A", metadata={"A": b"told"}) is ErrorCode.NONE
    scene.settle()
    scene.leave("A", epoch=-2)
    epoch = scene.group.epoch
    response = scene.join("A2", instance_id="a")
    assert scene.group.epoch == epoch
    assert response.assignment is not None
    details = read_tags(AssignmentDetails, response.assignment.unknown_tags).metadata
    assert details == AssignedMetadata(assignor="mine", metadata_version=2, metadata=b"told")
    assert scene.group.members["A2"].metadata.unknown_tags != ()


def test_assignment_with_a_replaced_member_id_is_rejected_and_requested_again() -> None:
    scene = static_and_dynamic()
    bump(scene, "B", 1)
    prepared = scene.prepare("B")
    scene.leave("A", epoch=-2)
    scene.join("A2", instance_id="a")
    assert scene.group.epoch == prepared.group_epoch
    assert scene.install("B", {"A": [0, 1, 2], "B": [3, 4, 5]}) is ErrorCode.INVALID_ASSIGNMENT
    assert computes(scene.beat("B"))
    assert scene.compute("B") is ErrorCode.NONE


def test_member_prepares_with_its_current_epoch() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    assert scene.prepare("B", member_epoch=1).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert scene.install("B", {}, member_epoch=1) is ErrorCode.STALE_MEMBER_EPOCH
    assert scene.compute("B") is ErrorCode.NONE


def test_no_member_is_selected_before_the_assignment_interval_ends() -> None:
    """KIP-1263: group.consumer.assignment.interval.ms also applies to assignors of members."""
    scene = Scene(group_consumer_assignment_interval_ms=1_000)
    scene.join("A")
    scene.compute("A")
    assert not computes(scene.join("B"))
    scene.advance(999)
    assert not computes(scene.beat("A"))
    scene.advance(1)
    assert computes(scene.beat("B"))


def test_failed_write_of_a_heartbeat_selects_no_member() -> None:
    scene = stable("A", "B")
    scene.log.fail_next = ErrorCode.NOT_ENOUGH_REPLICAS
    bump(scene, "B", 1)
    assert scene.computation is NO_COMPUTATION
    assert TIMER_KEY not in scene.runtime.shard.timers


def test_assignment_can_be_installed_again_after_a_failed_write() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.log.fail_next = ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.compute("B") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.compute("B") is ErrorCode.NONE


def test_after_a_load_the_next_member_with_a_heartbeat_is_selected() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.prepare("B")
    before = {one: scene.target(one) for one in "AB"}
    scene.reload()
    assert scene.install("B", {"A": [0], "B": [1, 2, 3, 4, 5]}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert {one: scene.target(one) for one in "AB"} == before
    assert computes(scene.beat("A"))
    assert scene.compute("A") is ErrorCode.NONE


def test_an_assignment_ends_the_computation_and_its_timer() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    assert TIMER_KEY in scene.runtime.shard.timers
    scene.compute("B")
    assert TIMER_KEY not in scene.runtime.shard.timers
    assert scene.computation is NO_COMPUTATION


def test_member_without_the_assignor_switches_to_the_server_side_assignor() -> None:
    scene = stable("A", "B")
    bump(scene, "B", 1)
    scene.prepare("B")
    response = scene.join("C", assignors=())
    assert not computes(response)
    assert scene.group.assignment_epoch == scene.group.epoch, "the server computed the target"
    assert TIMER_KEY not in scene.runtime.shard.timers
    assert scene.install("B", {}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert scene.error_message == "member B does not compute the target assignment, but a server-side assignor"
    scene.settle()
    assert [len(scene.owns(one)) for one in "ABC"] == [2, 2, 2]
    scene.leave("C")
    assert computes(scene.beat("A")), "all remaining members can run it"


def test_classic_member_switches_to_the_server_side_assignor() -> None:
    """It cannot announce assignors (online migration)."""
    scene = stable("A", "B")
    assert scene.join_classic("classic").error_code == ErrorCode.NONE
    assert scene.group.assignment_epoch == scene.group.epoch
    assert scene.computed_by is None
    assert len(scene.group.targets["classic"]) == 1


def test_static_classic_member_switches_to_the_server_side_assignor() -> None:
    """The assignors of the other member are removed, which alone increments the group epoch."""
    scene = Scene()
    scene.join("A", instance_id="a")
    scene.join("B")
    scene.compute("A", metadata={"B": b"told"})
    scene.settle()
    scene.leave("A", epoch=-2)
    epoch = scene.group.epoch
    member_id = scene.join_classic("", instance_id="a").member_id
    assert announced_by(scene.group.members[member_id].metadata) == ()
    assert scene.group.epoch == scene.group.assignment_epoch == epoch + 1
    assert (scene.computed_by, scene.target_metadata) == (None, {})


def test_phases_follow_the_transition_table() -> None:
    reported = NO_COMPUTATION.requested("m", epoch=2, deadline_ms=5, late=frozenset())
    computing = reported.computing(2)
    moves = {
        (Phase.IDLE, Phase.REQUESTED): reported,
        (Phase.IDLE, Phase.IDLE): NO_COMPUTATION.abandoned(),
        (Phase.REQUESTED, Phase.REQUESTED): reported.rejected(),
        (Phase.REQUESTED, Phase.COMPUTING): computing,
        (Phase.REQUESTED, Phase.IDLE): reported.timed_out(),
        (Phase.COMPUTING, Phase.COMPUTING): computing.computing(3),
        (Phase.COMPUTING, Phase.REQUESTED): computing.rejected(),
        (Phase.COMPUTING, Phase.IDLE): computing.timed_out(),
    }
    assert set(moves) == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}
    assert all(made.phase is after for (_, after), made in moves.items())
    assert reported.timed_out() == Computation(epoch=2, deadline_ms=5, late=frozenset({"m"}))
    with pytest.raises(AssertionError, match="cannot change from Idle to Computing"):
        NO_COMPUTATION.computing(2)


def test_invalid_assignors_of_members_are_rejected() -> None:
    scene = stable("A")
    for assignors, error_message in (
        ((ClientAssignor(name=" "),), "the name of a client-side assignor must not be empty"),
        ((*MINE, *MINE), "duplicate assignor mine"),
        (
            (ClientAssignor(name="x", minimum_version=2, maximum_version=1),),
            "assignor x has invalid versions 2 to 1",
        ),
        (
            (ClientAssignor(name="x", maximum_version=1, metadata_version=2),),
            "assignor x has metadata version 2, outside of its versions 0 to 1",
        ),
    ):
        response = scene.beat("A", client_assignors=assignors)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert announced_by(scene.group.members["A"].metadata)[0].name == "mine"
        assert response.error_message == error_message


def test_documentation_has_the_table_of_phases() -> None:
    page = (Path(__file__).parents[3] / "docs/explanation/client-side-assignors.md").read_text(encoding="utf-8")
    assert "<!-- states: client_assignors.computation -->" in page
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \| .+ \|$", page, re.MULTILINE)
    reported = {phase: {one.strip() for one in after.split(",")} for phase, after in rows if phase in set(Phase)}
    assert reported == {phase.value: {after.value for after in afters} for phase, afters in TRANSITIONS.items()}
