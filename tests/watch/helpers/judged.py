"""Random histories on Kafka's own coordinator, whose log says what each rebalance was.

Kafka's records go to the observer's replay, as a follower of the log would get them. Kafka's log
lines of the same step are the judge: "Bumped group epoch to 5" and "Assignment received from leader
… for generation 3" say that there was a rebalance, and the lines before say why.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from quorate.assignors import Topic, Topology
from quorate.codecs import Uuid
from quorate.codecs.log.raw import Markers, RawBlock
from quorate.coordinator.state import ConsumerGroup
from quorate.watch import (
    AssignorChanged,
    EventKind,
    MemberJoined,
    MemberLeft,
    MemberTimedOut,
    NewTopicId,
    PartitionsChanged,
    RacksChanged,
    RegexResolved,
    Rejoined,
    StaticBounce,
    SubscriptionChanged,
    TopicsChanged,
    UnknownCause,
    WatchEvent,
    WatchLimits,
)
from quorate.watch.partition import FollowedPartition
from quorate.watch.topics import KnownTopics
from tests.coordinator.classic_scripts import NamedDuel
from tests.oracle.client import Oracle

Json = dict[str, Any]

LINE = re.compile(r"GroupMetadataManager - \[oracle topic=__consumer_offsets partition=0\] (.*)")
BUMPED = re.compile(r"\[GroupId (?P<group>.*?)\](?: \[MemberId .*?\])? Bumped group epoch to (?P<number>\d+)")
ASSIGNED = re.compile(r"Assignment received from leader .* for group (?P<group>\S+) for generation (?P<number>\d+)\.")
EMPTY = re.compile(r"Group (?P<group>\S+) with generation (?P<number>\d+) is now empty\.")

HINTS: list[tuple[re.Pattern[str], type]] = [
    (re.compile(r"\[GroupId (?P<group>.*?)\] Static member with instance id .* re-joins"), StaticBounce),
    (re.compile(r"\[GroupId (?P<group>.*?)\] .* joins the consumer group using"), MemberJoined),
    (re.compile(r"\[GroupId (?P<group>.*?)\] .* fenced from the group because .*session"), MemberLeft),
    (re.compile(r"\[GroupId (?P<group>.*?)\] .* fenced from the group because it failed to trans"), MemberTimedOut),
    (re.compile(r"\[GroupId (?P<group>.*?)\] (Static m|M)ember .* left the consumer group"), MemberLeft),
    (re.compile(r"\[GroupId (?P<group>.*?)\] Scanned .* topics to refresh regular expressions"), RegexResolved),
    (re.compile(r"Preparing to rebalance group (?P<group>\S+) .*reason: Adding new member"), MemberJoined),
    (re.compile(r"Preparing to rebalance group (?P<group>\S+) .*reason: (r|R)emoving "), MemberLeft),
    (re.compile(r"Preparing to rebalance group (?P<group>\S+) .*reason: .*(explicit|LeaveGroup)"), MemberLeft),
    (re.compile(r"Preparing to rebalance group (?P<group>\S+) .*reason: (U|u)pdating metadata"), SubscriptionChanged),
    (re.compile(r"Preparing to rebalance group (?P<group>\S+) .*reason: .*(eader|static)"), Rejoined),
    (re.compile(r"joins group (?P<group>\S+) in .*Replacing previously mapped"), StaticBounce),
    (re.compile(r"joins group (?P<group>\S+) in .*(Adding to the group now|added)"), MemberJoined),
    (re.compile(r"joins group (?P<group>\S+) in state .* added the member"), MemberJoined),
    (re.compile(r"\[Group (?P<group>\S+)\] Member .* has left group"), MemberLeft),
    (re.compile(r"Member .* in group (?P<group>\S+) has failed"), MemberLeft),
    (re.compile(r"Group (?P<group>\S+) removed (dynamic|static)? ?members who haven't joined"), MemberLeft),
]  # fmt: skip


class JudgedDuel(NamedDuel):
    """A duel whose records an observer follows. `found`: disagreements, `judged`: rebalances.

    `unknown`: rebalances whose cause the observer does not find, because only Kafka's cached state
    explains them, and Kafka's log does. Raises nothing by itself. After the first write that fails
    nothing is judged, as Kafka logs a rebalance before it writes it.
    """

    def __init__(self, oracle: Oracle, *, note: str = "") -> None:
        super().__init__(oracle, note=note)
        self.found: list[str] = []
        self.judged = 0
        self.unknown = 0
        self.topics = KnownTopics()
        self.partition = FollowedPartition(0, self.topics, WatchLimits(stuck_ms=1 << 40))
        self._offset = 0
        self._last_ms = 0
        self._position = os.fstat(oracle._stderr.fileno()).st_size
        self._hints: dict[str, set[type]] = defaultdict(set)
        self._changed: dict[str, set[type]] = defaultdict(set)
        self._images: list[set[type]] = []
        self._rejoins = False
        self._brokers: dict[int, str | None] = {}
        self._known_topics: dict[str, tuple[str, Any]] = {}
        self._judging = True
        self._classic: set[str] = set()
        self._ended: set[tuple[str, int]] = set()
        self._began: dict[tuple[str, int], WatchEvent] = {}

    def op(self, op: str, *, names: str | None = None, **fields: Any) -> Json:
        if op == "failNextAppend":
            self._judging = False
        if op == "image":
            self._set_image(fields)
        self._rejoins = self._is_member(fields.get("body") or {})
        kafka = super().op(op, names=names, **fields)
        lines = list(self._lines())
        if self._judging:
            self._judge(fields, kafka, lines)
        return kafka

    # ---- what the observer sees

    def _events(self, kafka: Json) -> Iterator[list[WatchEvent]]:
        """Follow the records of a step, one write after the other."""
        records = list(kafka.get("records") or ())
        writes = [(event["n"], event["atMs"]) for event in kafka.get("events") or () if event.get("n")]
        rest = len(records) - sum(count for count, _ in writes)
        if rest:
            writes.append((rest, kafka["now"]))
        for count, at_ms in writes:
            some, records = records[:count], records[count:]
            self._last_ms = max(self._last_ms + 1, at_ms)
            yield self._follow(some)

    def _follow(self, records: list[Json]) -> list[WatchEvent]:
        plain = [record for record in records if "control" not in record]
        ended = [record for record in records if "control" in record]
        if plain:
            offsets = list(range(self._offset, self._offset + len(plain)))
            self._offset += len(plain)
            values = [None if one["value"] is None else bytes.fromhex(one["value"]) for one in plain]
            self.partition.load(
                RawBlock.of(
                    pa.array([bytes.fromhex(one["key"]) for one in plain], pa.binary()),
                    pa.array(values, pa.binary()),
                    offset=offsets,
                    timestamp_ms=[self._last_ms] * len(plain),
                    producer_id=[one.get("producerId", -1) for one in plain],
                )
            )  # fmt: skip
        for one in ended:
            nothing = pa.array([], pa.binary())
            markers = Markers(
                row=np.array([0]),
                offset=np.array([self._offset]),
                timestamp_ms=np.array([self._last_ms]),
                producer_id=np.array([one["producerId"]]),
                commit=np.array([one["control"] == "COMMIT"]),
            )
            self._offset += 1
            self.partition.load(RawBlock.of(nothing, nothing, markers=markers))
        return self.partition.finish().events

    # ---- what Kafka's log says

    def _lines(self) -> Iterator[str]:
        descriptor = self.oracle._stderr.fileno()
        size = os.fstat(descriptor).st_size
        text = os.pread(descriptor, size - self._position, self._position).decode("utf-8", "replace")
        self._position = size
        for line in text.splitlines():
            if (match := LINE.search(line)) is not None:
                yield match[1]

    def _judge(self, fields: Json, kafka: Json, lines: list[str]) -> None:
        self._note_request(fields, kafka)
        expected: list[tuple[str, int, set[type]]] = []
        for line in lines:
            for pattern, cause in HINTS:
                if (match := pattern.search(line)) is not None:
                    self._hints[match["group"]].add(cause)
                    if not line.startswith("[GroupId "):
                        self._classic.add(match["group"])
                    break
            for pattern in (BUMPED, ASSIGNED, EMPTY):
                if (match := pattern.match(line)) is not None:
                    group = match["group"]
                    expected.append((group, int(match["number"]), self._hints.pop(group, set())))
        found = [event for events in self._events(kafka) for event in events]
        began = [one for one in found if one.kind is EventKind.REBALANCE_BEGAN]
        seen = [(one.group_id, one.epoch) for one in began]
        wanted = [(group, number) for group, number, _ in expected]
        if sorted(seen) != sorted(wanted):
            self._disagree(fields, lines, f"Kafka's log has rebalances {wanted}, the observer {seen}")
            return
        self.judged += len(seen)
        for one in found:
            place = (one.group_id, one.epoch or 0)
            if one.kind is EventKind.REBALANCE_ENDED:
                if self._began.pop(place, None) is None:
                    self._disagree(fields, lines, f"{place} ended without a begin, or twice")
            elif one.kind is EventKind.REBALANCE_BEGAN:
                if place in self._began:
                    self._disagree(fields, lines, f"{place} began twice")
                self._began[place] = one
        for group, number, hints in expected:
            (one,) = [each for each in began if (each.group_id, each.epoch) == (group, number)]
            allowed = self._allowed(group, hints, one)
            if isinstance(one.cause, UnknownCause) and UnknownCause not in allowed:
                self.unknown += 1
            elif not any(isinstance(one.cause, cause) for cause in allowed):
                names = sorted(cause.__name__ for cause in allowed)
                self._disagree(
                    fields, lines, f"{group} {number}: cause {one.cause!r}, Kafka's log allows {names}; {one.facts}"
                )
            self._changed.pop(group, None)
        for group in [group for group in self._hints if group not in self._classic]:
            del self._hints[group]

    def _is_member(self, body: Json) -> bool:
        group = self.ours.shard.state.groups.get(body.get("groupId") or "")
        return isinstance(group, ConsumerGroup) and body.get("memberId") in group.members

    def _allowed(self, group: str, hints: set[type], one: WatchEvent) -> set[type]:
        """Return the classes of causes that agree with Kafka's log.

        A member that is gone before the rebalance ends is in no record, so that a classic group
        then has no cause in the records, or the next one.
        """
        # Kafka notices changed topics at the next refresh, perhaps after other rebalances.
        images = set().union(*self._images)
        state = self.ours.shard.state.groups.get(group)
        if isinstance(state, ConsumerGroup) and len(state.assignor_votes) > 1:
            self._changed[group].add(AssignorChanged)  # of equally preferred ones, without a change
        if one.sentence.startswith("rebalance to generation"):
            return hints | {Rejoined, SubscriptionChanged, AssignorChanged} | images
        if MemberJoined in hints and self._rejoins:  # Kafka's log calls that a join, too
            hints = hints - {MemberJoined} | self._changed[group] | images
        if StaticBounce in hints:  # with another subscription
            hints = hints | self._changed[group]
        if hints & {StaticBounce, RegexResolved}:  # the hash is computed again, too
            hints = hints | images
        return hints or self._changed[group] | images or {UnknownCause}

    def _note_request(self, fields: Json, kafka: Json) -> None:
        body = fields.get("body") or {}
        if body.get("subscribedTopicNames") is not None or body.get("subscribedTopicRegex") is not None:
            self._changed[body.get("groupId", "")] |= {SubscriptionChanged, RegexResolved}
        if body.get("serverAssignor") is not None:  # since Kafka 4.4 it increments the epoch
            self._changed[body.get("groupId", "")].add(AssignorChanged)

    def _disagree(self, fields: Json, lines: list[str], what: str) -> None:
        self.found.append(f"{what}\n  step {json.dumps(fields)[:400]}\n  " + "\n  ".join(lines))

    # ---- topics

    def _set_image(self, fields: Json) -> None:
        if "brokers" in fields:
            self._brokers = {one["id"]: one.get("rack") for one in fields["brokers"]}
        if "topics" in fields:
            self._known_topics = {one["name"]: (one["id"], one["partitions"]) for one in fields["topics"]}
        before = {} if self.topics.topology is None else {one.name: one for one in self.topics.topology.topics}
        topology = Topology(
            Topic(
                name=name,
                partitions=partitions if isinstance(partitions, int) else len(partitions),
                racks=()
                if isinstance(partitions, int)
                else tuple(tuple(self._brokers.get(broker) for broker in replicas) for replicas in partitions),
                id=Uuid.parse(topic_id),
            )
            for name, (topic_id, partitions) in self._known_topics.items()
        )
        self.topics.set(topology)
        after = {one.name: one for one in topology.topics}
        kinds: set[type] = set()
        self._images.append(kinds)
        for name in before.keys() | after.keys():
            old, new = before.get(name), after.get(name)
            if old is None or new is None:
                kinds |= {TopicsChanged, RegexResolved}
            elif old.id != new.id:
                kinds.add(NewTopicId)
            elif old.partitions != new.partitions:
                kinds.add(PartitionsChanged)
            elif old.racks != new.racks:
                kinds.add(RacksChanged)
