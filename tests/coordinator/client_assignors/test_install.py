"""ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.assignors.prepared import error_request
from quorate.codecs import Uuid
from quorate.codecs.api import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import (
    AssignedMetadata,
    AssignmentDetails,
    ClientAssignor,
    ComputedBy,
    TargetDetails,
    TargetMetadata,
    TargetOrigin,
)
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from quorate.codecs.tags import read_tags, written_tags
from quorate.coordinator.client_assignors.selection import announced_by
from quorate.coordinator.log import StoredRecord
from tests.coordinator.client_assignors.scene import CLICKS, ORDERS, Scene, computes, installed, topic


def pair() -> Scene:
    """Return a group with A, the computing member, and B, which also subscribes to clicks."""
    scene = Scene()
    scene.join(
        "A", assignors=(ClientAssignor(name="mine", maximum_version=1, reason=7, metadata_version=1, metadata=b"of A"),)
    )
    scene.join("B", topics=("orders", "clicks"), assignors=(ClientAssignor(name="mine", maximum_version=2),))
    return scene


def prepared(scene: Scene) -> ConsumerGroupPrepareAssignmentResponse:
    response = scene.prepare("A")
    assert response.error_code == ErrorCode.NONE
    return response


def metadata_of(response: ConsumerGroupHeartbeatResponse) -> AssignedMetadata | None:
    assert response.assignment is not None
    return read_tags(AssignmentDetails, response.assignment.unknown_tags).metadata


# Input of the assignor


def test_prepare_response_has_the_whole_input_of_the_assignor() -> None:
    scene = pair()
    scene.install("A", {"A": [0, 1], "B": [2, 3, 4, 5]})
    scene.settle()
    scene.beat("A", rack_id="b", client_assignors=(ClientAssignor(name="mine", maximum_version=1, reason=8),))
    response = prepared(scene)
    assert (response.group_epoch, response.assignor_name) == (scene.group.epoch, "mine")
    assert (response.minimum_version, response.maximum_version) == (0, 1)
    a, b = sorted(response.members, key=lambda member: member.member_id)
    assert (a.member_id, a.member_epoch, a.rack_id, a.assignor.reason) == ("A", 3, "b", 8)
    assert [(topic_partition.topic_id, topic_partition.partitions) for topic_partition in a.topic_partitions] == [
        (ORDERS, (0, 1))
    ]
    assert (a.subscribed_topic_ids, set(b.subscribed_topic_ids)) == ((ORDERS,), {ORDERS, CLICKS})
    assert [(one.topic_id, one.topic_name, len(one.partitions)) for one in response.topics] == [
        (CLICKS, "clicks", 4),
        (ORDERS, "orders", 6),
    ]
    assert [(partition.partition, partition.racks) for partition in response.topics[1].partitions][:4] == [
        (0, ("a",)),
        (1, ("b",)),
        (2, ("c",)),
        (3, ("a",)),
    ]


def test_metadata_of_the_selected_assignor_reaches_it() -> None:
    response = prepared(pair())
    sent = {member.member_id: member.assignor for member in response.members}
    assert (sent["A"].reason, sent["A"].metadata_version, sent["A"].metadata) == (7, 1, b"of A")
    assert (sent["B"].reason, sent["B"].metadata_version, sent["B"].metadata) == (0, 0, b"")


def test_topics_that_do_not_exist_are_not_among_the_subscribed_ones() -> None:
    scene = Scene()
    scene.join("A", topics=("orders", "to come"))
    assert prepared(scene).members[0].subscribed_topic_ids == (ORDERS,)


def test_topics_that_a_regex_matches_are_subscribed_topics() -> None:
    scene = Scene()
    scene.join("A", topics=())
    scene.beat("A", subscribed_topic_regex="cl.*")
    scene.beat("A")
    assert prepared(scene).members[0].subscribed_topic_ids == (CLICKS,)
    assert scene.compute("A") is ErrorCode.NONE
    scene.settle()
    assert scene.owns("A", CLICKS) == [0, 1, 2, 3]


# Validation of assignments

UNKNOWN = Uuid(bytes(15) + b"\x09")
REJECTED: list[tuple[str, tuple[InstalledMember, ...], str]] = [
    ("unknown member", (installed("A", [0]), installed("B", [1]), installed("C", [2])), "C is not a member of group g"),
    ("missing member", (installed("A", [0, 1]),), "B is a member of group g, but not in the assignment"),
    ("member twice", (installed("A", [0]), installed("A", [1]), installed("B", [2])), "duplicate member A"),
    ("partition twice", (installed("A", [0, 1]), installed("B", [1, 2])), "orders-1 is assigned twice, to A and B"),
    ("partition twice to one", (installed("A", [0, 0]), installed("B", [1])), "orders-0 is assigned twice, to A and A"),
    (
        "no such partition",
        (installed("A", [6]), installed("B", [])),
        "A is assigned orders-6; orders has partitions 0 to 5",
    ),
    (
        "negative partition",
        (installed("A", [-1]), installed("B", [])),
        "A is assigned orders--1; orders has partitions 0 to 5",
    ),
    (
        "no such topic",
        (installed("A", [0], UNKNOWN), installed("B", [])),
        f"A is assigned partitions of topic {UNKNOWN}, which does not exist",
    ),
    (
        "topic not subscribed to",
        (installed("A", [0], CLICKS), installed("B", [])),
        "A is assigned clicks-0, but does not subscribe to clicks",
    ),
    (
        "version of metadata",
        (installed("A", [0], metadata_version=2, metadata=b"x"), installed("B", [])),
        "A is assigned metadata of version 2, but supports 0 to 1",
    ),
    (
        "version of empty metadata",
        (installed("A", [0], metadata_version=2), installed("B", [])),
        "A is assigned metadata of version 2, but supports 0 to 1",
    ),
]


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in REJECTED], ids=[case[0] for case in REJECTED])
def test_invalid_assignment_is_rejected_with_a_message(members: tuple[InstalledMember, ...], message: str) -> None:
    scene = pair()
    prepared(scene)
    before = len(scene.log.stored)
    assert scene.install("A", {}, members=members) is ErrorCode.INVALID_ASSIGNMENT
    assert scene.error_message == message
    assert len(scene.log.stored) == before
    assert computes(scene.beat("A")), "the member is selected again"


def test_requests_are_validated_before_the_group_lookup() -> None:
    scene = pair()
    for fields, code in (
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "C"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 77}, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        usual: dict[str, Any] = {"group_id": "g", "member_id": "A", "member_epoch": scene.members["A"].epoch}
        request = ConsumerGroupPrepareAssignmentRequest(**{**usual, **fields})
        assert scene.send(request).error_code == code
        given = ConsumerGroupInstallAssignmentRequest(**{**usual, "group_epoch": scene.group.epoch, **fields})
        assert scene.send_install(given) is code


def test_assignment_may_leave_out_partitions_and_members_without_partitions() -> None:
    scene = pair()
    assert scene.install("A", {"A": [5], "B": []}) is ErrorCode.NONE
    scene.settle()
    assert (scene.owns("A"), scene.owns("B")) == ([5], [])
    assert scene.group.state == "Stable"


def test_metadata_version_without_bytes_is_written_unless_it_is_0() -> None:
    newer = (ClientAssignor(name="mine", minimum_version=1, maximum_version=3, metadata_version=1),)
    scene = Scene()
    scene.join("A", assignors=newer)
    scene.join("B", assignors=newer)
    members = (installed("A", [0]), installed("B", [1], metadata_version=3))
    assert scene.install("A", {}, members=members) is ErrorCode.NONE
    assert scene.target_metadata == {"B": TargetMetadata(version=3, data=b"")}


def test_partitions_of_a_topic_may_be_split_over_several_entries() -> None:
    scene = pair()
    both = replace(
        installed("B", [1, 2]),
        topic_partitions=installed("B", [1]).topic_partitions + installed("B", [2]).topic_partitions,
    )
    assert scene.install("A", {}, members=(installed("A", [0]), both)) is ErrorCode.NONE
    assert scene.target("B") == [1, 2]


def test_assignment_with_a_deleted_topic_is_rejected() -> None:
    scene = pair()
    scene.install("A", {"A": [0], "B": [1]})
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", reason=1),))
    response = prepared(scene)
    scene.runtime.take_image(scene.image.with_topics([topic("clicks", CLICKS, 4)]))
    assert scene.install("A", {"A": [0, 1, 2], "B": [3, 4, 5]}) is ErrorCode.INVALID_ASSIGNMENT
    assert computes(scene.beat("A"))
    assert scene.group.epoch == response.group_epoch + 1
    assert scene.compute("A") is ErrorCode.NONE


# Effects of an installed assignment


def written(scene: Scene, since: int) -> list[Any]:
    return [one.record for one in scene.log.stored[since:] if isinstance(one, StoredRecord)]


def test_only_changed_targets_and_the_computing_member_are_written() -> None:
    scene = pair()
    scene.install("A", {"A": [0, 1, 2], "B": [3, 4, 5]})
    scene.settle()
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", maximum_version=1, reason=1),))
    since = len(scene.log.stored)
    assert (
        scene.install("A", {}, members=(installed("A", [2, 1, 0]), installed("B", [3, 4, 5], metadata=b"hi")))
        is ErrorCode.NONE
    )
    target, epoch = written(scene, since)
    assert (target.key.member_id, target.value) == (
        "B",
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=scene.group.targets["B"],
            unknown_tags=written_tags(TargetDetails(metadata=TargetMetadata(version=0, data=b"hi"))),
        ),
    )
    assert epoch.value == ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=scene.group.epoch,
        assignment_timestamp=scene.runtime.now_ms,
        unknown_tags=written_tags(TargetOrigin(computed_by=ComputedBy(assignor="mine", member_id="A", error=0))),
    )


def test_members_receive_the_assignors_metadata_at_the_target_epoch() -> None:
    scene = pair()
    prepared(scene)
    members = (installed("A", [0, 1, 2], metadata_version=1, metadata=b"for A"), installed("B", [3, 4, 5]))
    assert scene.install("A", {}, members=members) is ErrorCode.NONE
    assert metadata_of(scene.beat("A")) == AssignedMetadata(assignor="mine", metadata_version=1, metadata=b"for A")
    assert scene.beat("A").assignment is None, "once"
    assert metadata_of(scene.beat("B")) == AssignedMetadata(assignor="mine")


def test_metadata_reaches_a_member_whose_partitions_stay_the_same() -> None:
    scene = pair()
    scene.install("A", {"A": [0, 1, 2], "B": [3, 4, 5]})
    scene.settle()
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", maximum_version=1, reason=1),))
    members = (installed("A", [0, 1, 2]), installed("B", [3, 4, 5], metadata=b"for B"))
    scene.install("A", {}, members=members)
    assert metadata_of(scene.beat("B")) == AssignedMetadata(assignor="mine", metadata=b"for B")
    assert scene.owns("B") == [3, 4, 5]


def test_member_receives_metadata_after_revoking_partitions() -> None:
    """The metadata belongs to the target assignment, which the member has not reached before."""
    scene = pair()
    scene.install("A", {"A": [0, 1, 2], "B": [3, 4, 5]})
    scene.settle()
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", maximum_version=1, reason=1),))
    scene.install("A", {}, members=(installed("A", [0, 1], metadata=b"later"), installed("B", [2, 3, 4, 5])))
    assert metadata_of(scene.beat("A")) is None
    assert scene.owns("A") == [0, 1]
    assert metadata_of(scene.beat("A")) == AssignedMetadata(assignor="mine", metadata=b"later")


def test_full_heartbeat_receives_assignment_and_metadata() -> None:
    """A member sends a full heartbeat if it does not know the result of the last one."""
    scene = pair()
    scene.install("A", {}, members=(installed("A", [0, 1, 2], metadata=b"for A"), installed("B", [3])))
    scene.settle()
    response = scene.beat("A", rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",))
    assert metadata_of(response) == AssignedMetadata(assignor="mine", metadata=b"for A")


def test_assignor_error_reaches_all_members_and_targets_stay() -> None:
    scene = pair()
    scene.install("A", {}, members=(installed("A", [0, 1, 2], metadata=b"kept"), installed("B", [3, 4, 5])))
    scene.settle()
    scene.join("C")
    assert computes(scene.beat("C"))
    response = scene.prepare("C")
    since = len(scene.log.stored)
    me = {"group_id": "g", "member_id": "C", "member_epoch": scene.members["C"].epoch}
    assert scene.send_install(error_request(response, 3, **me)) is ErrorCode.NONE
    assert [one.name for one in written(scene, since)] == ["ConsumerGroupTargetAssignmentMetadata"]
    assert metadata_of(scene.beat("A")) == AssignedMetadata(assignor="mine", error=3, metadata=b"kept")
    assert metadata_of(scene.beat("C")) == AssignedMetadata(assignor="mine", error=3)
    scene.settle()
    assert [scene.owns(one) for one in "ABC"] == [[0, 1, 2], [3, 4, 5], []]
    assert scene.group.state == "Stable", "the error completes this epoch only"
    scene.reload()
    assert scene.computed_by == ComputedBy(assignor="mine", member_id="C", error=3)
    scene.leave("B")
    assert computes(scene.beat("A"))


def test_error_with_an_assignment_is_rejected() -> None:
    scene = pair()
    assert scene.install("A", {"A": [0], "B": [1]}, error=1) is ErrorCode.INVALID_REQUEST
    assert scene.error_message == "error 1 and an assignment exclude each other"
    with pytest.raises(ValueError, match="error must not be 0"):
        error_request(prepared(scene), 0, group_id="g", member_id="A", member_epoch=1)


def test_server_side_assignor_removes_the_metadata_of_a_client_side_one() -> None:
    scene = pair()
    scene.install(
        "A", {}, members=(installed("A", [0, 1, 2], metadata=b"old"), installed("B", [3, 4, 5], metadata=b"old"))
    )
    scene.settle()
    scene.join("C", assignors=())
    assert scene.computed_by is None
    assert scene.target_metadata == {}
    assert metadata_of(scene.beat("A")) is None


@pytest.mark.parametrize("server", ["uniform", "range"])
def test_server_side_assignor_removes_metadata_of_unchanged_targets(server: str) -> None:
    scene = Scene(group_consumer_assignors=(server,))
    scene.join("A")
    scene.compute("A", metadata={"A": b"old"})
    scene.settle()
    scene.beat("A", client_assignors=())
    assert scene.target_metadata == {}
    assert scene.computed_by is None
    assert scene.target("A") == [0, 1, 2, 3, 4, 5]
    assert scene.owns("A") == [0, 1, 2, 3, 4, 5]


def test_assignors_and_metadata_survive_a_load() -> None:
    scene = pair()
    scene.compute("A", metadata={"A": b"for A"})
    scene.settle()
    before = scene.group
    scene.reload()
    for name in ("target_epoch_tags", "target_tags"):
        assert getattr(scene.group, name) == getattr(before, name)
    assert dict(scene.group.members) == dict(before.members)
    assert announced_by(scene.group.members["A"].metadata)[0].metadata == b"of A"


@pytest.mark.parametrize("changed", ["reason", "metadata", "versions", "order", "another", "none"])
def test_changed_assignor_metadata_increments_the_group_epoch(changed: str) -> None:
    one, two = ClientAssignor(name="one", maximum_version=1), ClientAssignor(name="two")
    offers = {
        "reason": (replace(one, reason=1), two),
        "metadata": (replace(one, metadata=b"x"), two),
        "versions": (replace(one, maximum_version=2), two),
        "order": (two, one),
        "another": (one, two, ClientAssignor(name="three")),
        "none": (),
    }
    scene = Scene()
    scene.join("A", assignors=(one, two))
    scene.compute("A")
    scene.settle()
    epoch = scene.group.epoch
    scene.beat("A", client_assignors=(one, two))
    assert scene.group.epoch == epoch, "nothing changed"
    scene.beat("A", client_assignors=offers[changed])
    assert scene.group.epoch == epoch + 1
