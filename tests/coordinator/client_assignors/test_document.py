"""The example of the document kip-848-explained, with a client-side assignor."""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import ClientAssignor
from tests.coordinator.client_assignors.scene import Scene, computes


def from_zero(**given: list[int]) -> dict[str, list[int]]:
    """Convert partitions that the document numbers from 1."""
    return {member_id: [number - 1 for number in numbers] for member_id, numbers in given.items()}


def from_one(numbers: list[int]) -> list[int]:
    return [number + 1 for number in numbers]


def test_example_of_the_kip_with_a_third_member_and_a_lost_one() -> None:
    scene = Scene(group_consumer_session_timeout_ms=45_000)

    # A and B are at epoch 5: two bumps because they joined, two because the reason of their
    # assignor changed.
    assert computes(scene.join("A"))
    assert not computes(scene.join("B"))
    for member_id in ("A", "B"):
        scene.beat(member_id, client_assignors=(ClientAssignor(name="mine", maximum_version=2, reason=1),))
    assert computes(scene.beat("A"))
    assert scene.prepare("A").group_epoch == 5
    assert scene.install("A", from_zero(A=[1, 2, 3], B=[4, 5, 6])) is ErrorCode.NONE
    scene.settle()
    assert [from_one(scene.owns(one)) for one in "AB"] == [[1, 2, 3], [4, 5, 6]]
    assert [(scene.members[one].epoch, scene.group.epoch) for one in "AB"] == [(5, 5), (5, 5)]

    # C joins with epoch 5, and the group continues with the target of epoch 5.
    response = scene.join("C")
    assert (response.member_epoch, scene.owns("C"), scene.group.epoch) == (5, [], 6)
    assert computes(response)
    assert scene.beat("A").assignment is None
    assert scene.group.state == "Assigning"

    # The assignor in C computes the target of epoch 6; the coordinator moves the members to it.
    scene.prepare("C")
    assert scene.install("C", from_zero(A=[1, 2], B=[4, 5], C=[3, 6])) is ErrorCode.NONE
    assert {one: from_one(scene.target(one)) for one in "ABC"} == {"A": [1, 2], "B": [4, 5], "C": [3, 6]}
    assert {one: scene.current(one)[0] for one in "ABC"} == {"A": 5, "B": 5, "C": 5}
    assert scene.beat("C").member_epoch == 6
    assert scene.owns("C") == []

    # B must revoke 6, and A 3. B does, so C is assigned 6; A sends no more heartbeats.
    assert scene.beat("A").member_epoch == 5
    assert from_one(scene.owns("A")) == [1, 2]
    assert (scene.beat("B").member_epoch, scene.beat("B").member_epoch) == (5, 6)
    scene.beat("C")
    assert {one: (scene.current(one)[0], from_one(scene.current(one)[1])) for one in "ABC"} == {
        "A": (5, [1, 2]),  # and 3 pending revocation
        "B": (6, [4, 5]),
        "C": (6, [6]),
    }
    for _ in range(3):
        scene.advance(15_000)
        scene.beat("B")
        scene.beat("C")
    assert "A" not in scene.group.members
    assert scene.group.epoch == 7

    # The next member with a heartbeat runs the assignor, and the same steps follow.
    reported = [one for one in "BC" if computes(scene.beat(one)) or scene.computation.member_id == one]
    assert len(reported) == 1
    scene.prepare(reported[0])
    assert scene.install(reported[0], from_zero(B=[4, 5, 1], C=[6, 2, 3])) is ErrorCode.NONE
    del scene.members["A"]
    scene.settle()
    assert {one: (scene.members[one].epoch, from_one(scene.owns(one))) for one in "BC"} == {
        "B": (7, [1, 4, 5]),
        "C": (7, [2, 3, 6]),
    }
    assert scene.group.state == "Stable"
