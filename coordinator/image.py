"""What the coordinator knows of the cluster: brokers with racks, topics with ids and replicas.

Immutable; a change is another image.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

from quorate.assignors import Topic, Topology
from quorate.codecs import Uuid

__all__ = ["MetadataDelta", "MetadataImage", "TopicImage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic: `replicas[i]` are the broker ids that partition i is assigned to, the leader's first, whether they are up or not.

    `leadership`: goes up when leaders or replicas in sync change. Kafka takes the topic for changed
    then, and looks at its racks again (KAFKA-17747).
    """

    name: str
    id: Uuid
    replicas: tuple[tuple[int, ...], ...]
    leadership: int = 0

    @property
    def partitions(self) -> int:
        """How many partitions there are; they are numbered from 0."""
        return len(self.replicas)


@dataclass(frozen=True, kw_only=True)
class MetadataImage:
    """Brokers that are registered, with their racks, and topics by name.

    `version`: grows with each change (in Kafka, the offset of the metadata log).
    """

    brokers: Mapping[int, str | None] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    version: int = 0

    EMPTY: ClassVar["MetadataImage"]

    @cached_property
    def topics_by_id(self) -> Mapping[Uuid, TopicImage]:
        """The same topics by id."""
        return {topic.id: topic for topic in self.topics.values()}

    def with_brokers(self, brokers: Mapping[int, str | None]) -> Self:
        """The image with these brokers instead."""
        return replace(self, brokers=dict(brokers), version=self.version + 1)

    def with_topics(self, topics: Iterable[TopicImage]) -> Self:
        """The image with these topics instead.

        Raises `ValueError` for a name or id that is given twice.
        """
        given = list(topics)
        by_name = {topic.name: topic for topic in given}
        if len(by_name) != len(given) or len({topic.id for topic in given}) != len(given):
            raise ValueError("a topic name or id is given twice")
        return replace(self, topics=by_name, version=self.version + 1)

    def with_changed(self, changed: Iterable[TopicImage], gone: Iterable[str] = ()) -> Self:
        """The image with these topics, new or instead of those of their names, and without some.

        Takes no step for each topic that stays as it is.
        """
        topics = dict(self.topics)
        for name in gone:
            topics.pop(name, None)
        topics.update((topic.name, topic) for topic in changed)
        return replace(self, topics=topics, version=self.version + 1)

    def racks(self, topic: TopicImage) -> list[tuple[str, ...]]:
        """For each partition the racks of its replicas, repeated where replicas share one.

        Brokers that are not registered or have no rack add none.
        """
        return list(map(_RacksOf(self.brokers).__getitem__, topic.replicas))

    def topology(self, names: Sequence[str]) -> Topology:
        """Those of the topics that exist, for assignors, in the order given."""
        return Topology(
            Topic(
                name=name,
                partitions=topic.partitions,
                id=topic.id,
                racks=tuple(tuple(self.brokers.get(broker) for broker in replicas) for replicas in topic.replicas),
            )
            for name in names
            if (topic := self.topics.get(name)) is not None
        )


MetadataImage.EMPTY = MetadataImage()


class _RacksOf(dict[tuple[int, ...], tuple[str, ...]]):
    """Replicas → racks. Topics have far fewer sets of replicas than partitions."""

    def __init__(self, brokers: Mapping[int, str | None]) -> None:
        super().__init__()
        self._brokers = brokers

    def __missing__(self, replicas: tuple[int, ...]) -> tuple[str, ...]:
        found = tuple(rack for broker in replicas if (rack := self._brokers.get(broker)) is not None)
        self[replicas] = found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """What is different in a newer image, as far as groups care.

    `changed`: names of topics that are new or have another id, other partitions or other replicas;
    `created`: of those, the new ones; `deleted`: topics as they were, also those that were created
    anew under their name. A broker's rack alone changes no topic (KAFKA-17747 looks at topics
    only).
    """

    changed: frozenset[str]
    created: frozenset[str]
    deleted: tuple[TopicImage, ...]
    brokers_changed: bool

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> Self:
        """What happened from one image to another."""
        known = old.topics
        # Most topics are the same object in both, and comparing fields is what takes long where
        # there are thousands.
        others = [name for name, topic in new.topics.items() if known.get(name) is not topic]
        changed = {name for name in others if known.get(name) != new.topics[name]}
        created = {name for name in changed if name not in known or known[name].id != new.topics[name].id}
        suspects = (known.keys() - new.topics.keys()) | created
        deleted: tuple[TopicImage, ...] = ()
        if suspects:  # in the order that they had
            deleted = tuple(
                topic for name, topic in known.items() if name in suspects and topic.id not in new.topics_by_id
            )
        return cls(
            changed=frozenset(changed),
            created=frozenset(created),
            deleted=deleted,
            brokers_changed=dict(old.brokers) != dict(new.brokers),
        )
