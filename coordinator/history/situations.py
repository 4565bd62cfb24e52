"""A group as input for assignors, from records of `__consumer_offsets`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.assignors import Member, Topic, TopicPartition, Topology
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs import Uuid, open_nested
from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE, OpenedBytes
from quorate.codecs.errors import InputError
from quorate.codecs.messages.classic_group import GroupMetadataValue
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from quorate.codecs.messages.offsets import OffsetCommitKey
from quorate.codecs.messages.protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from quorate.codecs.printable import listed, suggestion, time_text
from quorate.codecs.records import as_kafka_reads
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, CoordinatorState, ShareGroup, StreamsGroup

UNIFORM = "uniform"
"""The first of `group.consumer.assignors`, the default assignor."""


@dataclass(kw_only=True)
class Known:
    """What is known about topics: from a file or metadata (`topology`), and from records.

    `recorded`: topics in records of type 4.
    """

    topology: Topology | None = None
    lags: Mapping[TopicPartition, int] | None = None
    names: dict[Uuid, str] = field(default_factory=dict)
    recorded: dict[str, Topic] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    """Topic → minimum number of partitions, by committed offsets."""

    def __post_init__(self) -> None:
        if self.topology is not None:
            self.names |= {topic.id: topic.name for topic in self.topology.topics if topic.id is not None}


class SituationReplay:
    """Replays the records of one group.

    `apply` takes all records of its partition, as those of other groups may have topic names.
    """

    def __init__(self, group_id: str, known: Known) -> None:
        self.group_id = group_id
        self.known = known
        self.seen: dict[str, None] = {}
        """The ids of all groups."""
        self.fullest: tuple[int, int] = (0, 0)
        """The maximum number of members, and until when it last had them (ms).

        Records that were written together have the same timestamp.
        """
        self._time_ms = -1
        self._state = CoordinatorState()

    def apply(self, record: object, timestamp_ms: int) -> None:
        """Replay a record; entries without a record are skipped."""
        readable = as_kafka_reads(record)
        if readable is None:
            return
        key, value = readable.key, readable.value
        if isinstance(key, ConsumerGroupPartitionMetadataKey):
            self._learn(value)
        group = getattr(key, "group_id", None) or getattr(key, "group", None)
        if group is not None:
            self.seen[group] = None
        if group != self.group_id:
            return
        if timestamp_ms > self._time_ms:
            self._time_ms = timestamp_ms
            count = self._count()
            if count and count >= self.fullest[0]:
                self.fullest = count, timestamp_ms
        if isinstance(key, OffsetCommitKey) and value is not None:
            least = self.known.least
            least[key.topic] = max(least.get(key.topic, 0), key.partition + 1)
        self._state.replay(readable)

    def _learn(self, value: Any) -> None:
        if not isinstance(value, ConsumerGroupPartitionMetadataValue):
            return
        for topic in value.topics:
            # 3.7 to 3.9 also wrote racks, in no particular order.
            racks = {one.partition: tuple(one.racks) for one in topic.partition_metadata}
            self.known.names.setdefault(topic.topic_id, topic.topic_name)
            self.known.recorded[topic.topic_name] = Topic(
                name=topic.topic_name,
                partitions=topic.num_partitions,
                id=topic.topic_id,
                racks=tuple(racks.get(number, ()) for number in range(topic.num_partitions)) if racks else (),
            )

    def _count(self) -> int:
        group = self._state.groups.get(self.group_id)
        return len(group.members) if isinstance(group, ClassicGroup | ConsumerGroup) else 0

    def situation(self, source: str) -> GroupSituation:
        """Return the group as it is now.

        Raises `InputError` if it does not exist, has no members, or a topic id has no known name.
        """
        group = self._state.groups.get(self.group_id)
        if isinstance(group, ShareGroup | StreamsGroup):
            raise InputError(
                f"{source}: {self.group_id} is a {group.kind.lower()} group", "assign requires a consumer group"
            )
        if isinstance(group, ConsumerGroup) and group.members:
            return self._consumer(source, group)
        if isinstance(group, ClassicGroup) and group.metadata is not None and group.members:
            return self._classic_group(source, group.metadata)
        raise InputError(*self._no_members(source))

    def _no_members(self, source: str) -> tuple[str, ...]:
        if self.group_id not in self.seen:
            hint = suggestion(self.group_id, self.seen, f"there are {listed(list(self.seen))}")
            return f"{source}: unknown group {self.group_id}", hint if self.seen else "the log has no groups"
        most, when = self.fullest
        if not most:
            return (
                f"{source}: {self.group_id} never had members, only committed offsets",
                "describe the group in FILE",
            )
        return (
            f"{source}: {self.group_id} has no members at the end",
            f"it last had {most:,} just before {time_text(when)} (UTC): use --until {when} to assign it as of then",
        )

    # ---- classic groups

    def _classic_group(self, source: str, value: GroupMetadataValue) -> GroupSituation:
        if value.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise InputError(
                f"{source}: {self.group_id} is a group of protocol type {value.protocol_type!r}",
                "assign requires a consumer group",
            )
        members: dict[str, Member] = {}
        for one in open_nested(value).members:
            subscription = one.subscription.opened.message if isinstance(one.subscription, OpenedBytes) else None
            if not isinstance(subscription, ConsumerProtocolSubscription):
                raise InputError(f"{source}: cannot decode the subscription of {one.member_id} in {self.group_id}")
            assignment = one.assignment.opened.message if isinstance(one.assignment, OpenedBytes) else None
            owned = (
                [(at.topic, number) for at in assignment.assigned_partitions for number in at.partitions]
                if isinstance(assignment, ConsumerProtocolAssignment)
                else []
            )
            members[one.member_id] = Member(
                topics=subscription.topics,
                rack=subscription.rack_id or None,
                instance_id=one.group_instance_id,
                owned=owned,
                generation=value.generation if owned else -1,
            )
        topology, notes = self._topology(members)
        return GroupSituation(
            source=source,
            group_id=self.group_id,
            protocol="classic",
            assignor=value.protocol,
            members=members,
            topology=topology,
            current={member_id: member.owned for member_id, member in members.items()},
            lags=self.known.lags,
            notes=notes,
        )

    # ---- groups of KIP-848

    def _consumer(self, source: str, group: ConsumerGroup) -> GroupSituation:
        metadata = {member_id: member.metadata for member_id, member in group.members.items()}
        topics = {member_id: list(group.subscribed_topics(value)) for member_id, value in metadata.items()}
        names = self._names(source, group, topics)
        members = {
            member_id: Member(
                topics=list(dict.fromkeys(topics[member_id])),
                rack=value.rack_id or None,
                instance_id=value.instance_id,
                owned=[(names[topic_id], number) for topic_id, number in _target(group, member_id)],
                generation=group.assignment_epoch,
            )
            for member_id, value in metadata.items()
        }
        wanted = [value.server_assignor for value in metadata.values() if value.server_assignor]
        topology, notes = self._topology(members)
        unresolved = sorted(
            {value.subscribed_topic_regex for value in metadata.values() if value.subscribed_topic_regex}
            - group.regexes.keys()
        )
        if unresolved:
            notes = (*notes, f"/{unresolved[0]}/ is not resolved yet, and matches no topics")
        return GroupSituation(
            source=source,
            group_id=self.group_id,
            protocol="consumer",
            assignor=max(wanted, key=wanted.count) if wanted else UNIFORM,
            members=members,
            topology=topology,
            current={member_id: member.owned for member_id, member in members.items()},
            lags=self.known.lags,
            notes=notes,
        )

    def _names(self, source: str, group: ConsumerGroup, topics: Mapping[str, Sequence[str]]) -> dict[Uuid, str]:
        """Return the names of topic ids in targets: known, or the only possible ones.

        Raises `InputError`.
        """
        names = dict(self.known.names)
        could: dict[Uuid, set[str]] = {}
        for member_id in group.members:
            for topic_id in {topic_id for topic_id, _ in _target(group, member_id)} - names.keys():
                could.setdefault(topic_id, set(topics[member_id])).intersection_update(topics[member_id])
        known = set(names.values())
        progress = True
        while could and progress:
            progress = False
            for topic_id, candidates in list(could.items()):
                candidates -= known
                if len(candidates) == 1:
                    (names[topic_id],) = candidates
                    known |= candidates
                    del could[topic_id]
                    progress = True
        if could:
            topic_id, candidates = next(iter(could.items()))
            raise InputError(
                f"{source}: the log has only ids for some topics of {self.group_id}, such as {topic_id}",
                f"it is one of {listed(sorted(candidates))}" if candidates else "no member subscribes to it",
                "use --topology FILE, with topics: {NAME: {id: ID, partitions: N}}",
            )
        return names

    # ---- topics

    def _topology(self, members: Mapping[str, Member]) -> tuple[Topology, tuple[str, ...]]:
        """Return the topics that members subscribe to or own, and notes on guesses."""
        if self.known.topology is not None:
            missing = sum(self.known.topology.number(*at) < 0 for member in members.values() for at in member.owned)
            are = "is" if missing == 1 else "are"
            note = f"{missing:,} of the assigned partitions {are} missing in the topology, and left out"
            return self.known.topology, (note,) if missing else ()
        most: dict[str, int] = {}
        for member in members.values():
            for topic, number in member.owned:
                most[topic] = max(most.get(topic, 0), number + 1)
        ids = {name: topic_id for topic_id, name in self.known.names.items()}
        found: dict[str, Topic] = {}
        guessed = []
        for name in dict.fromkeys([*(topic for member in members.values() for topic in member.topics), *most]):
            recorded = self.known.recorded.get(name)
            least = max(most.get(name, 0), self.known.least.get(name, 0))
            if recorded is not None and recorded.partitions >= least:
                found[name] = recorded
            elif least:
                found[name] = Topic(name=name, partitions=least, id=ids.get(name))
                guessed.append(name)
        notes = []
        if guessed:
            notes.append(
                f"numbers of partitions are guessed from assignments and commits ({listed(guessed)}); "
                "use --topology FILE for actual ones"
            )
        if not any(any(racks) for topic in found.values() for racks in topic.racks):
            notes.append("the log has no racks of replicas, so locality is unknown; use --topology FILE")
        return Topology(found.values()), tuple(notes)


def _target(group: ConsumerGroup, member_id: str) -> Iterator[tuple[Uuid, int]]:
    for topic in group.targets.get(member_id, ()):
        for number in topic.partitions:
            yield topic.topic_id, number
