"""Required partition counts of a streams group's internal topics (KIP-1071).

Internal topics are changelog and repartition topics.
Kafka computes them when members send heartbeats, and checks that the topics exist; until then it
describes the topology without them.
"""

from collections.abc import Collection, Iterable, Mapping

from quorate.codecs.errors import QuorateError
from quorate.codecs.messages.streams_group import CopartitionGroup, StreamsGroupTopologyValue, Subtopology
from quorate.coordinator.image import MetadataImage

__all__ = ["TopologyProblem", "internal_topics", "needed_topics"]


class TopologyProblem(QuorateError):
    """The topology cannot run: topics are missing, or partition counts differ or are unknown."""


def internal_topics(topology: StreamsGroupTopologyValue, image: MetadataImage) -> Mapping[str, int]:
    """Return internal topic → required number of partitions, after checking that the topics exist.

    Raises `TopologyProblem`.
    """
    wanted = needed_topics(topology, image)
    for name, partitions in wanted.items():
        found = image.topics.get(name)
        if found is None or found.partitions != partitions:
            actual = "is missing" if found is None else f"has {found.partitions} partitions"
            raise TopologyProblem(f"internal topic {name} {actual}, but requires {partitions}")
    return wanted


def needed_topics(topology: StreamsGroupTopologyValue, image: MetadataImage) -> Mapping[str, int]:
    """Return internal topic → required number of partitions, also of missing topics.

    Raises `TopologyProblem`.
    """
    subtopologies = topology.subtopologies
    missing = {name for subtopology in subtopologies for name in subtopology.source_topics if name not in image.topics}
    if missing:
        raise TopologyProblem(f"source topics are missing: {', '.join(sorted(missing))}")
    counts = _Counts(image)
    counts.decided.update(_repartition_topics(subtopologies, counts))
    declared = {
        topic.name: topic.partitions for subtopology in subtopologies for topic in subtopology.repartition_source_topics
    }
    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            counts.decided.update(_copartitioned(_names(subtopology, group), declared, counts))
    for subtopology in subtopologies:
        most = max(map(counts.need, _sources(subtopology)), default=None)
        if most is None:
            raise TopologyProblem(f"subtopology {subtopology.subtopology_id} has no source topics")
        counts.decided.update({topic.name: most for topic in subtopology.state_changelog_topics})
    return {
        topic.name: topic.partitions or counts.decided[topic.name]
        for subtopology in subtopologies
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    }


class _Counts:
    """Existing or required numbers of partitions of topics."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.decided: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        topic = self.image.topics.get(name)
        return self.decided.get(name) if topic is None else topic.partitions

    def need(self, name: str) -> int:
        count = self.get(name)
        if count is None:
            raise TopologyProblem(f"missing topic {name}")
        return count


def _sources(subtopology: Subtopology) -> list[str]:
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _repartition_topics(subtopologies: Collection[Subtopology], counts: _Counts) -> Mapping[str, int]:
    """Return the partition counts of repartition topics.

    That is the declared count, else that of the largest source of a subtopology that writes to the
    topic. A source may be a repartition topic, too.
    """
    found = {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions
    }
    waiting = [
        (sink, subtopology)
        for subtopology in subtopologies
        for sink in subtopology.repartition_sink_topics
        if sink not in found
    ]
    while waiting:
        left = []
        for sink, one in waiting:
            if sink in found:
                continue
            upstream = [found.get(topic.name) for topic in one.repartition_source_topics]
            sizes = [size for size in (*upstream, *map(counts.get, one.source_topics)) if size is not None]
            if sizes:
                found[sink] = max(sizes)
            else:
                left.append((sink, one))
        if len(left) == len(waiting):
            raise TopologyProblem("cannot determine the partition counts of repartition topics; they may form a loop")
        waiting = left
    for one in subtopologies:
        for topic in one.repartition_source_topics:
            if topic.name not in found:
                raise TopologyProblem(f"no subtopology writes to repartition topic {topic.name}")
    return found


def _names(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    return {subtopology.source_topics[number] for number in group.source_topics} | {
        subtopology.repartition_source_topics[number].name for number in group.repartition_source_topics
    }


def _copartitioned(names: Iterable[str], declared: Mapping[str, int], counts: _Counts) -> Mapping[str, int]:
    """Return the equal partition counts of the repartition topics in a copartition group."""
    internal = {name: counts.need(name) for name in names if name in declared}
    external = {name: counts.need(name) for name in names if name not in declared}
    fixed = {counts.need(name) for name, partitions in declared.items() if partitions}
    if not internal and not external:
        return {}
    sizes = set(external.values()) if external else fixed or {max(internal.values())}
    if len(sizes) > 1:
        raise TopologyProblem(f"copartitioned topics have different numbers of partitions: {sorted(names)}")
    (size,) = sizes
    for name, partitions in internal.items():
        if declared[name] and partitions != size:
            raise TopologyProblem(f"repartition topic {name} has {partitions} partitions, its copartition group {size}")
    return dict.fromkeys(internal, size)
