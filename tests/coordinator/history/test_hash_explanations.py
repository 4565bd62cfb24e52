"""Explanations of a stored metadata hash: a single change is found, several are not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from quorate.assignors import Topic, Topology
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupPartitionMetadataValue,
    PartitionMetadata,
    TopicMetadata,
)
from quorate.coordinator.history.hashes import (
    ChangeKind,
    explain,
    hashes_of,
    image_of,
    topic_differences,
)
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash

ORDERS, CLICKS, AUDIT = (Uuid(bytes(15) + bytes([number])) for number in (1, 2, 3))
BROKERS = {1: "a", 2: "b", 3: "c", 4: None}
NOW = (
    MetadataImage()
    .with_brokers(BROKERS)
    .with_topics(
        [
            TopicImage(name="orders", id=ORDERS, replicas=((1, 2), (2, 3), (3, 1), (1, 4))),
            TopicImage(name="clicks", id=CLICKS, replicas=((2, 1), (3, 2))),
            TopicImage(name="audit", id=AUDIT, replicas=((1,),)),
        ]
    )
)
NAMES = ("orders", "clicks")


def stored(image: MetadataImage, names: tuple[str, ...] = NAMES) -> int:
    return group_hash(hashes_of(names, image))


def with_topic(name: str, replicas: Callable[[tuple[tuple[int, ...], ...]], tuple[tuple[int, ...], ...]]) -> int:
    topics = [
        replace(topic, replicas=replicas(topic.replicas)) if topic.name == name else topic
        for topic in NOW.topics.values()
    ]
    return stored(NOW.with_topics(topics))


@pytest.mark.parametrize(
    ("then", "sentence"),
    [
        (stored(NOW, ("orders",)), "topic clicks did not exist, or was not subscribed to"),
        (stored(NOW, ("orders", "clicks", "audit")), "topic audit was also subscribed to"),
        (stored(NOW.with_brokers({})), "no broker had a rack"),
        (stored(NOW.with_brokers(BROKERS | {2: None})), "broker 2 had no rack or was not registered"),
        (stored(NOW.with_brokers(BROKERS | {3: "a"})), "broker 3, which now is in c, was in rack a"),
        (stored(NOW.with_brokers(BROKERS | {4: "b"})), "broker 4, which now has none, was in rack b"),
        (stored(NOW.with_brokers(BROKERS | {1: "z"})), "broker 1, which now is in a, was in rack z"),
        (with_topic("orders", lambda all_of: all_of[:3]), "topic orders had 3 partitions; now it has 4"),
        (
            with_topic("clicks", lambda all_of: tuple(one[:1] for one in all_of)),
            "each partition of topic clicks had 1 replica; now 2",
        ),
        (
            with_topic("orders", lambda all_of: (all_of[0], (2, 1), *all_of[2:])),
            "partition 1 of topic orders had a replica in rack a instead of c",
        ),
        (
            with_topic("orders", lambda all_of: (*all_of[:2], (3,), all_of[3])),
            "partition 2 of topic orders had no replica in rack a",
        ),
        (
            with_topic("orders", lambda all_of: (*all_of[:2], (3, 1, 2), all_of[3])),
            "partition 2 of topic orders had one more replica, in rack b",
        ),
    ],
)
def test_one_change_is_found(then: int, sentence: str) -> None:
    found = explain(then, NAMES, NOW, racks=("z",))
    assert str(found.change) == sentence
    assert found.complete


def test_algorithm_of_the_kips_text_is_recognized() -> None:
    murmur3 = group_hash(hashes_of(NAMES, NOW, HashAlgorithm.MURMUR3), HashAlgorithm.MURMUR3)
    found = explain(murmur3, NAMES, NOW)
    assert found.change is not None
    assert (found.change.kind, found.tried) == (ChangeKind.FORM, 0)


def test_two_changes_are_not_explained() -> None:
    then = stored(NOW.with_brokers(BROKERS | {2: None}), ("orders",))
    found = explain(then, NAMES, NOW)
    assert (found.change, found.complete) == (None, True)
    assert found.tried > 20


def test_search_ends_after_a_number_of_partitions() -> None:
    found = explain(1, NAMES, NOW, most_partitions=30)
    assert (found.change, found.complete) == (None, False)


def test_topology_has_one_broker_per_rack() -> None:
    topics = [
        Topic(name="orders", partitions=2, racks=(("a", "b"), ("b", None)), id=ORDERS),
        Topic(name="nameless", partitions=1),
    ]
    image = image_of(Topology(topics))
    assert set(image.topics) == {"orders"}
    assert image.racks(image.topics["orders"]) == [("a", "b"), ("b",)]
    then = group_hash(hashes_of(["orders"], image_of(Topology([replace(topics[0], racks=(("a", "z"), ("z", None)))]))))
    found = explain(then, ["orders"], image, racks=["z"])
    assert str(found.change) == "each broker in rack b was in rack z"


def test_record_of_type_4_reports_all_differences() -> None:
    value = ConsumerGroupPartitionMetadataValue(
        topics=(
            TopicMetadata(topic_id=ORDERS, topic_name="orders", num_partitions=3, partition_metadata=()),
            TopicMetadata(
                topic_id=CLICKS,
                topic_name="clicks",
                num_partitions=2,
                partition_metadata=(
                    PartitionMetadata(partition=0, racks=("a", "b")),
                    PartitionMetadata(partition=1, racks=("c",)),
                ),
            ),
            TopicMetadata(topic_id=AUDIT, topic_name="gone", num_partitions=1, partition_metadata=()),
        )
    )
    assert [
        str(topic_difference)
        for topic_difference in topic_differences(value, ["orders", "clicks", "audit", "gone"], NOW)
    ] == [
        "topic audit did not exist, or was not subscribed to",
        "partition 1 of topic clicks was in rack c; now it is in racks b, c",
        "topic gone existed and was subscribed to",
        "topic orders had 3 partitions; now it has 4",
    ]
    other = replace(value, topics=(replace(value.topics[0], topic_id=AUDIT, num_partitions=4),))
    assert [topic_difference.kind for topic_difference in topic_differences(other, ["orders"], NOW)] == [
        ChangeKind.TOPIC_ID
    ]
    same = replace(value, topics=(replace(value.topics[0], num_partitions=4),))
    assert not list(topic_differences(same, ["orders"], NOW))
