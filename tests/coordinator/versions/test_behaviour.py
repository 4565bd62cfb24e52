"""Differences in behaviour between releases of Kafka."""

import pytest

from quorate.codecs import Uuid
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.behaviour import Behaviour, since
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.consumer.reconcile import Situation, reconcile
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.state.consumer_member import ConsumerMember, MemberState, recorded


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.0.1", False), ("4.0.2", True), ("4.1.1", False), ("4.1.2", True), ("4.2.0", True), ("5.0.0", True)],
)
def test_backported_fix_applies_to_its_release_line_only(version: str, expected: bool) -> None:
    releases = [KafkaVersion(4, 0, 2), KafkaVersion(4, 1, 2), KafkaVersion(4, 2)]
    assert since(KafkaVersion.parse(version), *releases) is expected


def test_release_lines_before_the_change_lack_it() -> None:
    assert not since(KafkaVersion(3, 9, 2), KafkaVersion(4, 0, 2), KafkaVersion(4, 1, 2), KafkaVersion(4, 2))


def test_metadata_hash_is_stored_by_the_newest_release_but_not_by_4_0() -> None:
    assert Behaviour.NEWEST.metadata_hash
    assert not Behaviour.of(KafkaVersion(4, 0, 2)).metadata_hash


def test_configured_release_determines_the_behaviour() -> None:
    assert CoordinatorConfig().behaviour == Behaviour.NEWEST
    older = CoordinatorConfig.from_properties({"kafka.version": "4.0.2"})
    assert older.behaviour == Behaviour.of(KafkaVersion(4, 0, 2))


@pytest.mark.parametrize("version", ["4.0.2", "4.1.2", "4.2.1", "4.3.0"])
def test_each_release_differs_from_the_newest(version: str) -> None:
    assert Behaviour.of(KafkaVersion.parse(version)) != Behaviour.NEWEST


@pytest.mark.parametrize(
    ("version", "state"),
    [("4.1.1", MemberState.UNRELEASED_PARTITIONS), ("4.0.2", MemberState.STABLE), ("4.1.2", MemberState.STABLE)],
)
def test_member_is_reassigned_its_pending_revocations(version: str, state: MemberState) -> None:
    topic = Uuid(bytes(15) + b"\x01")
    image = MetadataImage().with_topics([TopicImage(name="t", id=topic, replicas=((0,), (0,)))])
    member = ConsumerMember(
        member_id="m",
        epoch=2,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned_partitions=recorded({topic: {0: 2}}),
        partitions_pending_revocation=recorded({topic: {1: 2}}),
    )
    situation = Situation(
        epoch=3,
        target={topic: (0, 1)},
        owner_epoch=lambda topic_id, partition: 2,
        owned=(),
        topics=frozenset({"t"}),
        subscription_changed=False,
        image=image,
        jdk=17,
        behaviour=Behaviour.of(KafkaVersion.parse(version)),
    )
    assert reconcile(member, situation).state is state
