"""Decides the partition counts of internal topics (KIP-1071), in the order of Kafka's maps.

1. Repartition topics have the declared count, else that of the largest source of a subtopology
   that writes to them.
2. Copartitioned repartition topics get the count of the group's other topics.
3. Changelogs have the count of the subtopology's largest source.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, in_java_order
from quorate.codecs.messages.streams_group import Subtopology
from quorate.coordinator.image import MetadataImage
from quorate.coordinator.streams.statuses import (
    InternalTopologyError,
    InvalidTopologyError,
    TopicConfigurationError,
)


class PartitionCounts:
    """Counts of existing topics, and decided ones of topics that may be missing."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.decided: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        """Return the count of a topic. That of an existing topic overrides the decided one."""
        topic = self._image.topics.get(name)
        return self.decided.get(name) if topic is None else topic.partitions

    def require(self, name: str, text: str = "Number of partitions must be set for topic {}") -> int:
        """Return the count of a topic. Raises `InternalTopologyError` if it is unknown."""
        count = self.get(name)
        if count is None:
            raise InternalTopologyError(text.format(name))
        return count


CopartitionGroups = Sequence[Sequence[Collection[str]]]
"""The groups of each subtopology, as sets of names in Java's order."""


def copartition_groups(subtopologies: Iterable[Subtopology]) -> CopartitionGroups:
    """Return the copartition groups with names.

    Raises `InternalTopologyError` if an index is out of range.
    """
    return [
        [_names(one, group.source_topics, group.repartition_source_topics) for group in one.copartition_groups]
        for one in subtopologies
    ]


def _names(subtopology: Subtopology, sources: Iterable[int], repartition: Iterable[int]) -> Collection[str]:
    internal = [topic.name for topic in subtopology.repartition_source_topics]
    found: JavaHashSet[str] = JavaHashSet()
    for names, indexes in ((subtopology.source_topics, sources), (internal, repartition)):
        for index in indexes:
            if not 0 <= index < len(names):
                raise InternalTopologyError(f"Index {index} out of bounds for length {len(names)}")
            found.add(names[index])
    return list(found)


def decide_partition_counts(
    subtopologies: Collection[Subtopology], groups: CopartitionGroups, counts: PartitionCounts
) -> None:
    """Decide the counts of all internal topics, into `counts`.

    Raises `TopicConfigurationError`, `InvalidTopologyError`, `InternalTopologyError`.
    """
    counts.decided |= _of_repartition_topics(subtopologies, counts)
    fixed, flexible = (
        _set(
            topic.name
            for one in subtopologies
            for topic in one.repartition_source_topics
            if bool(topic.partitions) == declared
        )
        for declared in (True, False)
    )
    for names in (names for of_one in groups for names in of_one):
        counts.decided |= _copartitioned(names, fixed, flexible, counts)
    counts.decided |= _of_changelogs(subtopologies, counts)


def _of_repartition_topics(subtopologies: Collection[Subtopology], counts: PartitionCounts) -> dict[str, int]:
    found = {
        topic.name: topic.partitions
        for one in subtopologies
        for topic in one.repartition_source_topics
        if topic.partitions
    }
    waiting = [(sink, one) for one in subtopologies for sink in one.repartition_sink_topics]
    while waiting:
        left = []
        progress = False
        for sink, one in waiting:
            if sink in found:
                continue
            known = [found[topic.name] for topic in one.repartition_source_topics if topic.name in found]
            known += [count for name in one.source_topics if (count := counts.get(name)) is not None]
            if known:
                found[sink] = max(known)
                progress = True
            else:
                left.append((sink, one))
        if left and not progress:
            raise InvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
        waiting = left
    if any(topic.name not in found for one in subtopologies for topic in one.repartition_source_topics):
        raise InvalidTopologyError(
            "Failed to compute number of partitions for all repartition topics, "
            "because a repartition source topic is never used as a sink topic."
        )
    return found


def _copartitioned(
    names: Collection[str], fixed: Collection[str], flexible: Collection[str], counts: PartitionCounts
) -> dict[str, int]:
    """Return the count of a group for each of its repartition topics."""
    text = "Number of partitions is not set for topic: {}"
    internal = _map((name, counts.require(name, text)) for name in names if name in fixed or name in flexible)
    others = _map((name, counts.require(name, text)) for name in names if name not in internal)
    if not names:
        return {}
    if others:
        size = _same(others.values(), others)
    elif fixed:
        # Kafka compares the declared counts of the whole topology, not only of the group.
        size = _same((counts.require(name, text) for name in fixed), internal)
    else:
        size = max(internal.values())
        if not size:
            raise InvalidTopologyError(
                f"All topics in the copartition group had undefined partition number: [{', '.join(internal)}]"
            )
    for name, count in internal.items():
        if name in fixed and count != size:
            raise TopicConfigurationError.incorrectly_partitioned(
                f"Number of partitions [{count}] of repartition topic [{name}] "
                f"doesn't match number of partitions [{size}] of the source topic."
            )
    return dict.fromkeys(internal, size)


def _same(sizes: Iterable[int], shown: Mapping[str, int]) -> int:
    """Return the size that all have. Raises `TopicConfigurationError` with the topics `shown`."""
    first, *rest = sizes
    if any(size != first for size in rest):
        pairs = ", ".join(f"{name}={shown[name]}" for name in in_java_order(shown))
        raise TopicConfigurationError.incorrectly_partitioned(
            f"Following topics do not have the same number of partitions: [{{{pairs}}}]"
        )
    return first


def _of_changelogs(subtopologies: Collection[Subtopology], counts: PartitionCounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in subtopologies:
        names = [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        sizes = [counts.require(name, "No partition count for source topic {}") for name in names]
        if not sizes:
            raise InvalidTopologyError(f"No source topics found for subtopology {one.subtopology_id}")
        found.update((topic.name, max(sizes)) for topic in one.state_changelog_topics)
    return found


def _set(names: Iterable[str]) -> list[str]:
    """Return names in the order of a HashSet to which they are added."""
    found: JavaHashSet[str] = JavaHashSet()
    for name in names:
        found.add(name)
    return list(found)


def _map(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return pairs in the order of a HashMap into which they are put."""
    found: JavaHashMap[str, int] = JavaHashMap()
    for name, count in pairs:
        found.put(name, count)
    return dict(found.items())
