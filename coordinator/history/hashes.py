"""Explanation of a stored metadata hash that differs from that of the topics (KIP-1101).

A hash cannot be inverted, so likely changes are tested: one topic, one number of partitions, one
broker, one replica. The first single change that gives the stored hash explains it. The records of
type 4 of brokers before Kafka 4.1 have the topics themselves: see `topic_differences`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from quorate.assignors import Topology
from quorate.codecs.errors import QuorateError
from quorate.codecs.messages.consumer_group import ConsumerGroupPartitionMetadataValue, TopicMetadata
from quorate.codecs.printable import counted
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.metadata_hash import HashAlgorithm, group_hash, topic_hash

MOST_PARTITIONS = 3_000_000
"""The default limit of partitions to hash in search of an explanation: some seconds."""


class ChangeKind(StrEnum):
    """The kind of a difference."""

    FORM = "form"
    TOPIC = "topic"
    TOPIC_ID = "topic-id"
    PARTITIONS = "partitions"
    RACK = "rack"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class HashChange:
    """One difference between then and now, with a sentence.

    `topic`, `partition`: where, if it is in one place.
    """

    kind: ChangeKind
    sentence: str
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class HashExplanation:
    """`change` explains the stored hash; `None` if none of the `tried` changes does.

    `complete`: whether all known changes were tested.
    """

    change: HashChange | None
    tried: int
    complete: bool


def image_of(topology: Topology) -> MetadataImage:
    """Return the metadata of a topology, with one broker per rack, with a negative id.

    Topics without an id are left out.
    """
    ids: dict[str, int] = {}
    topics = []
    for topic in topology.topics:
        if topic.id is None:
            continue
        racks = topic.racks or ((),) * topic.partitions
        replicas = tuple(
            tuple(ids.setdefault(rack, -1 - len(ids)) for rack in partition if rack is not None) for partition in racks
        )
        topics.append(TopicImage(name=topic.name, id=topic.id, replicas=replicas))
    return MetadataImage().with_topics(topics).with_brokers({broker: rack for rack, broker in ids.items()})


def hashes_of(
    names: Iterable[str], image: MetadataImage, algorithm: HashAlgorithm = HashAlgorithm.XXH3
) -> dict[str, int]:
    """Return topic → hash, for the existing topics."""
    return {
        name: topic_hash(topic.id, name, image.racks(topic), algorithm)
        for name in names
        if (topic := image.topics.get(name)) is not None
    }


def explain(
    stored: int,
    names: Iterable[str],
    image: MetadataImage,
    algorithm: HashAlgorithm = HashAlgorithm.XXH3,
    *,
    racks: Iterable[str] = (),
    most_partitions: int = MOST_PARTITIONS,
) -> HashExplanation:
    """Search for a single change that gives these topics the stored hash.

    `names`: the group's topics; missing ones are ignored. `racks`: racks that brokers may have had,
    in addition to their current ones, such as those of members. `most_partitions`: how many
    partitions to hash before the search ends.
    """
    search = _Search(stored, names, image, algorithm, most_partitions)
    search.racks = sorted({*racks, *(rack for rack in image.brokers.values() if rack is not None)})
    try:
        for change in search.changes():
            return HashExplanation(change=change, tried=search.tried, complete=True)
    except _EnoughError:
        return HashExplanation(change=None, tried=search.tried, complete=False)
    return HashExplanation(change=None, tried=search.tried, complete=True)


class _EnoughError(QuorateError):
    """The limit of partitions was reached."""


class _Search:
    def __init__(
        self, stored: int, names: Iterable[str], image: MetadataImage, algorithm: HashAlgorithm, most_partitions: int
    ) -> None:
        self.stored = stored
        self.image = image
        self.algorithm = algorithm
        self.left = most_partitions
        self.racks: list[str] = []
        self.tried = 0
        self.topics = [image.topics[name] for name in sorted(set(names)) if name in image.topics]
        self.known = {topic.name: self.hash_of(topic, image) for topic in self.topics}

    def hash_of(self, topic: TopicImage, image: MetadataImage) -> int:
        self.left -= topic.partitions
        if self.left < 0:
            raise _EnoughError
        return topic_hash(topic.id, topic.name, image.racks(topic), self.algorithm)

    def matches(self, hashes: Mapping[str, int]) -> bool:
        self.tried += 1
        return group_hash(hashes, self.algorithm) == self.stored

    def matches_with(self, topic: TopicImage) -> bool:
        """Return whether the hash matches with this topic."""
        return self.matches({**self.known, topic.name: self.hash_of(topic, self.image)})

    def matches_in(self, image: MetadataImage) -> bool:
        """Return whether the hash matches with these brokers."""
        changed = {
            topic.name: self.hash_of(topic, image)
            for topic in self.topics
            if image.racks(topic) != self.image.racks(topic)
        }
        return bool(changed) and self.matches({**self.known, **changed})

    def changes(self) -> Iterator[HashChange]:
        """Yield changes that explain the stored hash, the simplest first."""
        yield from self.other_forms()
        yield from self.other_topics()
        yield from self.other_brokers()
        yield from self.fewer_partitions()
        yield from self.fewer_replicas()
        yield from self.moved_replicas()

    def other_forms(self) -> Iterator[HashChange]:
        for form in HashAlgorithm:
            if form is not self.algorithm and group_hash(hashes_of(self.known, self.image, form), form) == self.stored:
                yield HashChange(
                    kind=ChangeKind.FORM,
                    sentence=f"it has the algorithm {form.value}, so Kafka's coordinator did not write it",
                )

    def other_topics(self) -> Iterator[HashChange]:
        for name in self.known:
            if self.matches({one: value for one, value in self.known.items() if one != name}):
                yield HashChange(
                    kind=ChangeKind.TOPIC, topic=name, sentence=f"topic {name} did not exist, or was not subscribed to"
                )
        for name, topic in self.image.topics.items():
            if name not in self.known and self.matches_with(topic):
                yield HashChange(kind=ChangeKind.TOPIC, topic=name, sentence=f"topic {name} was also subscribed to")

    def other_brokers(self) -> Iterator[HashChange]:
        brokers = self.image.brokers
        if self.matches_in(self.image.with_brokers({})):
            yield HashChange(kind=ChangeKind.RACK, sentence="no broker had a rack")
        for broker, rack in brokers.items():
            if rack is not None and self.matches_in(self.image.with_brokers({**brokers, broker: None})):
                who = f"broker {broker}" if broker >= 0 else f"each broker in rack {rack}"
                yield HashChange(kind=ChangeKind.RACK, sentence=f"{who} had no rack or was not registered")
            for other in self.racks:
                if other != rack and self.matches_in(self.image.with_brokers({**brokers, broker: other})):
                    now = "has none" if rack is None else f"is in {rack}"
                    who = f"broker {broker}, which now {now}," if broker >= 0 else f"each broker in rack {rack}"
                    yield HashChange(kind=ChangeKind.RACK, sentence=f"{who} was in rack {other}")

    def fewer_partitions(self) -> Iterator[HashChange]:
        for topic in self.topics:
            for count in range(topic.partitions - 1, 0, -1):
                if self.matches_with(replace(topic, replicas=topic.replicas[:count])):
                    yield HashChange(
                        kind=ChangeKind.PARTITIONS,
                        topic=topic.name,
                        sentence=f"topic {topic.name} had {counted(count, 'partition')}; "
                        f"now it has {topic.partitions:,}",
                    )

    def fewer_replicas(self) -> Iterator[HashChange]:
        for topic in self.topics:
            widest = max(map(len, topic.replicas), default=0)
            for keep in range(widest - 1, 0, -1):
                if self.matches_with(replace(topic, replicas=tuple(replica[:keep] for replica in topic.replicas))):
                    yield HashChange(
                        kind=ChangeKind.REPLICA,
                        topic=topic.name,
                        sentence=f"each partition of topic {topic.name} had {counted(keep, 'replica')}; now {widest}",
                    )

    def moved_replicas(self) -> Iterator[HashChange]:
        by_rack = {rack: broker for broker, rack in sorted(self.image.brokers.items(), reverse=True)}
        for topic in self.topics:
            for number, replicas in enumerate(topic.replicas):
                here = [self.image.brokers.get(broker) for broker in replicas]
                for others, change in _moves(here, by_rack):
                    changed = (*topic.replicas[:number], others, *topic.replicas[number + 1 :])
                    if self.matches_with(replace(topic, replicas=changed)):
                        yield HashChange(
                            kind=ChangeKind.REPLICA,
                            topic=topic.name,
                            partition=number,
                            sentence=f"partition {number} of topic {topic.name} {change}",
                        )


def _moves(racks: list[str | None], by_rack: Mapping[str | None, int]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield replicas of a partition with one moved, removed or added, and a description.

    A replica is given as a broker of its rack.
    """
    brokers = [by_rack[rack] for rack in racks if rack is not None]
    kept = [rack for rack in racks if rack is not None]
    others = [(rack, broker) for rack, broker in by_rack.items() if rack is not None]
    for at, rack in enumerate(kept):
        if rack in kept[:at]:
            continue  # the order of replicas does not count
        rest = (*brokers[:at], *brokers[at + 1 :])
        for other, broker in others:
            if other != rack:
                yield (*rest, broker), f"had a replica in rack {other} instead of {rack}"
        yield (
            rest,
            f"had no replica in rack {rack}" if rack not in kept[at + 1 :] else f"had one replica fewer in rack {rack}",
        )
    for other, broker in others:
        yield (*brokers, broker), f"had one more replica, in rack {other}"


def topic_differences(
    stored: ConsumerGroupPartitionMetadataValue, names: Iterable[str], image: MetadataImage
) -> Iterator[HashChange]:
    """Yield differences between a record of type 4 and the group's current topics.

    Racks are compared if the record has them (Kafka 3.7 to 3.9).
    """
    kept = {topic.topic_name: topic for topic in stored.topics}
    present = {name: image.topics[name] for name in names if name in image.topics}
    for name in sorted({*kept, *present}):
        then, now = kept.get(name), present.get(name)
        if then is None:
            yield HashChange(
                kind=ChangeKind.TOPIC, topic=name, sentence=f"topic {name} did not exist, or was not subscribed to"
            )
        elif now is None:
            yield HashChange(kind=ChangeKind.TOPIC, topic=name, sentence=f"topic {name} existed and was subscribed to")
        else:
            yield from _differences(then, now, image)


def _differences(then: TopicMetadata, now: TopicImage, image: MetadataImage) -> Iterator[HashChange]:
    name = now.name
    if then.topic_id != now.id:
        yield HashChange(
            kind=ChangeKind.TOPIC_ID, topic=name, sentence=f"topic {name} had id {then.topic_id}; now it has {now.id}"
        )
    if then.num_partitions != now.partitions:
        yield HashChange(
            kind=ChangeKind.PARTITIONS,
            topic=name,
            sentence=f"topic {name} had {counted(then.num_partitions, 'partition')}; now it has {now.partitions:,}",
        )
    racks = image.racks(now)
    for partition in then.partition_metadata:
        if partition.partition >= now.partitions:
            continue
        before, after = sorted(set(partition.racks)), sorted(set(racks[partition.partition]))
        if before != after:
            yield HashChange(
                kind=ChangeKind.RACK,
                topic=name,
                partition=partition.partition,
                sentence=f"partition {partition.partition} of topic {name} was in {_racks(before)}; "
                f"now it is in {_racks(after)}",
            )


def _racks(racks: list[str]) -> str:
    return f"rack{'' if len(racks) == 1 else 's'} {', '.join(racks)}" if racks else "no rack"
