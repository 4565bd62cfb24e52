"""Assignors of quorate as client-side assignors, and the option that enables them."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.assignors import LagAwareAssignor, RangeAssignor, TopicPartition, client_assignor, server_assignor
from quorate.assignors.model import AssignorError
from quorate.assignors.prepared import install_request, members_and_topology
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
)
from quorate.codecs.api.consumer_group_describe import DescribedGroup
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import ClientAssignor, ComputingMember
from quorate.codecs.tags import read_tags
from quorate.coordinator.config import ConfigError, CoordinatorConfig
from tests.coordinator.client_assignors.scene import CLICKS, Scene
from tests.coordinator.client_assignors.test_install import pair, prepared


def test_without_the_option_no_plug_in_is_installed() -> None:
    on, off, plain = (
        Scene(),
        Scene(group_consumer_client_assignors_enable=False),
        Scene(group_consumer_client_assignors_enable=False),
    )
    for scene in (off, plain):
        scene.join("A", assignors=None if scene is plain else (ClientAssignor(name="mine", metadata=b"x"),))
        scene.beat("A", client_assignors=None if scene is plain else (ClientAssignor(name="", maximum_version=-1),))
        scene.settle()
    assert off.log.stored == plain.log.stored, "the tagged field is skipped, as by Kafka"
    assert off.owns("A") == [0, 1, 2, 3, 4, 5]
    assert off.prepare("A").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert off.install("A", {"A": [0]}) is ErrorCode.UNSUPPORTED_VERSION
    assert off.error_message == "ConsumerGroupInstallAssignment requires a plug-in that is not enabled"
    on.join("A")
    on.compute("A", metadata={"A": b"x"})
    on.settle()
    off.log, off.members = on.log, on.members
    off.reload()
    assert off.beat("A").assignment is None
    off.beat("A", rack_id="c")
    assert off.group.members["A"].metadata.unknown_tags == (), "rewritten without unknown fields, as by Kafka"


def test_option_is_set_by_its_config_name() -> None:
    name = "group.consumer.client.assignors.enable"
    assert CoordinatorConfig().group_consumer_client_assignors_enable is False
    assert CoordinatorConfig.from_properties({name: "true"}).group_consumer_client_assignors_enable is True
    assert CoordinatorConfig.from_properties({name: False}).group_consumer_client_assignors_enable is False
    with pytest.raises(ConfigError, match=r"invalid value .yes. for .*assignors\.enable"):
        CoordinatorConfig.from_properties({name: "yes"})


@pytest.mark.parametrize(
    "assignor",
    [
        *(client_assignor(name) for name in ("range", "roundrobin", "sticky")),
        server_assignor("uniform"),
        LagAwareAssignor(lags={TopicPartition("orders", number): 10 * number for number in range(6)}),
    ],
    ids=lambda assignor: assignor.name,
)
def test_any_assignor_of_quorate_can_be_run_by_a_member(assignor: Any) -> None:
    scene = pair()
    assert scene.compute("A", assignor) is ErrorCode.NONE
    scene.settle()
    assert sorted(scene.owns("A") + scene.owns("B")) == [0, 1, 2, 3, 4, 5]
    assert scene.owns("B", CLICKS) == [0, 1, 2, 3]
    scene.leave("B")
    scene.beat("A")
    assert scene.compute("A", assignor) is ErrorCode.NONE
    scene.settle()
    assert scene.owns("A") == [0, 1, 2, 3, 4, 5]


def test_cooperative_assignor_is_rejected() -> None:
    response = prepared(pair())
    with pytest.raises(AssignorError, match="use sticky"):
        install_request(response, client_assignor("cooperative-sticky"), group_id="g", member_id="A", member_epoch=1)


def test_an_assignor_sees_targets_as_owned_and_metadata_as_user_data() -> None:
    scene = pair()
    scene.install("A", {"A": [0, 1], "B": [2]})
    scene.beat("A", client_assignors=(ClientAssignor(name="mine", reason=1, metadata=b"mine"),))
    response = prepared(scene)
    gone = replace(response, topics=response.topics[1:])
    members, topology = members_and_topology(gone)
    assert members["A"].owned == (("orders", 0), ("orders", 1))
    assert (members["A"].user_data, members["B"].user_data) == (b"mine", None)
    assert members["B"].topics == ("orders",)
    assert [topic.name for topic in topology.topics] == ["orders"]


def test_metadata_has_the_newest_version_that_all_members_support() -> None:
    response = prepared(pair())
    request = install_request(
        response, RangeAssignor(), group_id="g", member_id="A", member_epoch=1, metadata={"B": b"x"}
    )
    assert {member.member_id: (member.metadata_version, member.metadata) for member in request.members} == {
        "A": (0, b""),
        "B": (1, b"x"),
    }
    older = install_request(
        response, RangeAssignor(), group_id="g", member_id="A", member_epoch=1, metadata={"B": b"x"}, metadata_version=0
    )
    assert {member.metadata_version for member in older.members} == {0}


def computing(group: DescribedGroup) -> str | None:
    return read_tags(ComputingMember, group.unknown_tags).computing_member_id


def test_describe_has_the_assignor_and_the_computing_member() -> None:
    scene = pair()
    (group,) = scene.send(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert (group.assignor_name, computing(group), group.group_state) == ("mine", "A", "Assigning")
    scene.compute("A")
    scene.settle()
    (group,) = scene.send(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert (group.assignor_name, computing(group), group.group_state) == ("mine", None, "Stable")
    scene.join("C", assignors=())
    (group,) = scene.send(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert group.assignor_name == "uniform"
