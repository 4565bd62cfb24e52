"""Findings about the effects of an upgrade or downgrade."""

from dataclasses import replace

import pytest

from quorate.assignors import Topic
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import CoordinatorConfig, MigrationPolicy
from quorate.coordinator.history import state_at
from quorate.coordinator.history.hashes import hashes_of
from quorate.coordinator.history.upgrade import FindingKind, expected_hash, findings, share_groups_left
from quorate.coordinator.metadata_hash import group_hash
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, StreamsGroup
from tests.coordinator.captures import CAPTURES, checkpoints, entries, folders

UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"
CONSUMER = CAPTURES / "consumer-4.3"


def image_topics(checkpoint):
    names = list(checkpoint.image.topics)
    return {topic.name: topic for topic in checkpoint.image.topology(names).topics}


def group_states(checkpoint):
    for folder in folders(checkpoint.capture):
        end = checkpoint.end_offsets.get(folder.name, checkpoint.end_offsets.get(folder.name.rpartition("-")[2]))
        if end is not None:
            yield state_at(entries(folder), offset=end - 1)


def test_stored_hash_equals_that_of_the_described_topics():
    """Every group with members stored what we compute from the brokers' topic descriptions."""
    compared = 0
    for checkpoint in checkpoints("consumer-4.3"):
        topics = image_topics(checkpoint)
        for state in group_states(checkpoint):
            for group in state.groups.values():
                if isinstance(group, ConsumerGroup) and group.members:
                    compared += 1
                    assert expected_hash(group.topic_subscribers, topics) == group.metadata_hash, checkpoint
                    assert list(findings(group, CoordinatorConfig(), topics)) == []
    assert compared > 30


def test_groups_of_4_0_are_found():
    state = state_at(entries(UPGRADE / "__consumer_offsets-1"))
    found = {finding.kind: finding.sentence for finding in findings(state.groups["bill-orders"], CoordinatorConfig())}
    assert set(found) == {FindingKind.WILL_BUMP, FindingKind.TOPIC_RECORD}
    assert "from 5 to 6" in found[FindingKind.WILL_BUMP]
    upgraded = state_at(entries(UPGRADE / "__consumer_offsets-1"), offset=60)
    assert list(findings(upgraded.groups["bill-orders"], CoordinatorConfig())) == []


def test_hash_changes_with_the_topology():
    state = state_at(entries(CONSUMER / "__consumer_offsets-3"))
    group = state.groups["cg-uniform"]
    last = list(checkpoints("consumer-4.3"))[-1]
    topics = image_topics(last)
    name = next(iter(group.topic_subscribers))
    grown = topics | {name: Topic(name=name, partitions=99, id=topics[name].id)}
    assert [finding.kind for finding in findings(group, CoordinatorConfig(), grown)] == [FindingKind.HASH_DIFFERS]
    unknown = topics | {name: Topic(name=name, partitions=1)}
    assert list(findings(group, CoordinatorConfig(), unknown)) == []


def test_reasons_against_a_conversion_are_reported():
    state = state_at(entries(UPGRADE / "__consumer_offsets-1"))
    (found,) = findings(state.groups["legacy-coop"], CoordinatorConfig())
    assert found.kind is FindingKind.NOT_CONVERTIBLE
    assert "cooperative-sticky sends user data" in found.sentence
    state = state_at(entries(UPGRADE / "__consumer_offsets-3"))
    legacy = state.groups["legacy-range"]
    assert [finding.kind for finding in findings(legacy, CoordinatorConfig())] == [FindingKind.CONVERTIBLE]
    strict = CoordinatorConfig(group_consumer_migration_policy=MigrationPolicy.DOWNGRADE, group_consumer_max_size=1)
    rejected = [finding.sentence for finding in findings(legacy, strict)]
    assert ["policy is downgrade" in rejected[0], "max.size is 1" in rejected[1]] == [True, True]


def test_undecodable_bytes_prevent_a_conversion():
    state = state_at(entries(UPGRADE / "__consumer_offsets-3"))
    legacy = state.groups["legacy-range"]
    broken = replace(legacy.metadata, members=(replace(legacy.metadata.members[0], subscription=b"\0"),))
    (found,) = findings(ClassicGroup("legacy-range", broken), CoordinatorConfig())
    assert "cannot be decoded" in found.sentence
    connect = ClassicGroup("c", replace(legacy.metadata, protocol_type="connect"))
    assert [finding.sentence for finding in findings(connect, CoordinatorConfig())] == [
        "cannot be converted while it has members: its protocol type is 'connect', not 'consumer'"
    ]


OLDER = CoordinatorConfig(kafka_version=KafkaVersion(4, 0, 2))


def test_downgrade_findings_equal_the_recorded_downgrade():
    """Findings for the groups on 4.3.1 equal what brokers of 4.0.2 did after the downgrade."""
    of_4_3 = state_at(entries(UPGRADE / "__consumer_offsets-1"), offset=80).groups["bill-orders"]
    after = state_at(entries(UPGRADE / "__consumer_offsets-1"), offset=90).groups["bill-orders"]
    (found,) = findings(of_4_3, OLDER)
    assert found.kind is FindingKind.WILL_BUMP
    assert f"from {of_4_3.epoch} to {after.epoch}" in found.sentence
    assert (of_4_3.has_partition_metadata_record, after.has_partition_metadata_record) == (False, True)
    assert list(findings(after, OLDER)) == []


def test_streams_groups_are_lost_by_a_downgrade_to_4_0():
    groups = state_at(entries(CAPTURES / "streams-4.3" / "__consumer_offsets-0")).groups
    for version, kinds in (((4, 0, 2), [FindingKind.WILL_BE_LOST]), ((4, 1, 0), []), ((4, 3, 1), [])):
        config = CoordinatorConfig(kafka_version=KafkaVersion(*version))
        assert [finding.kind for finding in findings(groups["word-count"], config)] == kinds


@pytest.mark.parametrize(("partition", "remaining", "deleted"), [(0, [], ["share-b"]), (3, ["share-a"], [])])
def test_share_groups_prevent_4_0_from_loading_a_partition_even_if_deleted(partition, remaining, deleted):
    state = state_at(entries(CAPTURES / "share-4.3" / f"__consumer_offsets-{partition}"))
    assert list(share_groups_left(state, CoordinatorConfig())) == []
    found = dict(share_groups_left(state, OLDER, partition))
    assert [one for one, finding in found.items() if "it is deleted" not in finding.sentence] == remaining
    assert [one for one, finding in found.items() if "it is deleted" in finding.sentence] == deleted
    for finding in found.values():
        assert finding.kind is FindingKind.NOT_LOADABLE
        assert f"loading partition {partition} of __consumer_offsets" in finding.sentence


def test_streams_groups_store_the_hash_of_their_sources_repartition_topics_and_changelogs():
    compared = set()
    for checkpoint in checkpoints("streams-4.3"):
        for state in group_states(checkpoint):
            for group in state.groups.values():
                if isinstance(group, StreamsGroup) and group.topology is not None:
                    hashes = hashes_of(group.topics, checkpoint.image)
                    assert group_hash(hashes) == group.metadata_hash
                    compared.add((group.group_id, len(group.topics), len(hashes)))
    assert compared >= {("word-count", 3, 3), ("copy-eos", 1, 1)}
    assert StreamsGroup("new").topics == set()
