"""Takes the records of coordinator topics, and writes what follows from them to the store.

A flush is one transaction: positions, records, states, events. Then events are handed out. Where
records come from is not part of this module.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from quorate.assignors import Topology
from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.errors import InputError
from quorate.codecs.log.raw import RawBlock
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.history import GroupView
from quorate.coordinator.history.group_rows import finding_rows
from quorate.coordinator.history.replay import ReplayedGroup, ReplayedGroups
from quorate.coordinator.state import CoordinatorGroup, ShareGroup
from quorate.watch.limits import WatchLimits
from quorate.watch.locality import cross_rack_share
from quorate.watch.model import UpgradeFinding, WatchEvent
from quorate.watch.partition import FollowedPartition, PartitionChanges
from quorate.watch.shares import FollowedShares
from quorate.watch.states import Members, header_of, members_of
from quorate.watch.store import WatchStore
from quorate.watch.topics import KnownTopics


class CommittedPlace(NamedTuple):
    """A committed offset, or the start offset of a share group, and when it was written."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A group as it is now, with its committed offsets by topic and partition."""

    group_id: str
    view: GroupView
    committed: Mapping[tuple[str, int], CommittedPlace]


class Collector:
    """Replays the logs of one cluster. All methods may be called by any thread.

    `on_events`: is called after each flush, with the new events.
    """

    def __init__(
        self,
        store: WatchStore,
        topics: KnownTopics,
        limits: WatchLimits,
        on_events: Callable[[Sequence[WatchEvent]], None],
    ) -> None:
        self.lock = threading.RLock()
        self.records = 0
        self._store = store
        self._topics = topics
        self._limits = limits
        self._on_events = on_events
        self._partitions: dict[int | None, FollowedPartition] = {}
        self._shares: dict[int | None, FollowedShares] = {}
        self._dirty: set[tuple[str, int | None]] = set()
        self._events: list[WatchEvent] = []
        self._last: dict[str, tuple[GroupView, Members]] = {}
        self._preparing: dict[str, int] = {}
        self._restore()

    def reload(self) -> None:
        """Continue from what the store has, after an error in between."""
        with self.lock:
            self._partitions.clear()
            self._shares.clear()
            self._dirty.clear()
            self._events.clear()
            self._last.clear()
            self._restore()

    def _restore(self) -> None:
        for (topic, stored), next_offset in self._store.positions().items():
            number = None if stored == _UNKNOWN else stored
            chunks, pending = self._store.chunks(topic, stored), self._store.pending(topic, stored)
            if topic == SHARE_GROUP_STATE:
                self._share(number).restore(chunks, next_offset)
            elif topic == CONSUMER_OFFSETS:
                self._partition(number).restore(chunks, pending, next_offset, self._store.tracker)

    def _partition(self, number: int | None) -> FollowedPartition:
        found = self._partitions.get(number)
        if found is None:
            found = FollowedPartition(number, self._topics, self._limits, self._preparing)
            self._partitions[number] = found
        return found

    def _share(self, number: int | None) -> FollowedShares:
        found = self._shares.get(number)
        if found is None:
            found = self._shares[number] = FollowedShares(number, self._topics)
        return found

    # ---- records

    def next_offsets(self, topic: str) -> dict[int, int]:
        """Return where to continue, by partition."""
        followed: Mapping[int | None, Any] = self._shares if topic == SHARE_GROUP_STATE else self._partitions
        with self.lock:
            return {number: one.next_offset for number, one in followed.items() if number is not None}

    def take(self, block: RawBlock, leader_epochs: Sequence[tuple[int, int]] = ()) -> None:
        """Replay a block of whole batches; offsets that were read before are left out."""
        if not len(block) and not len(block.markers):
            return
        with self.lock:
            share = block.topic == SHARE_GROUP_STATE
            followed = self._share(block.partition) if share else self._partition(block.partition)
            first = min([*block.offset[:1].tolist(), *block.markers.offset[:1].tolist()])
            last = max([*block.offset[-1:].tolist(), *block.markers.offset[-1:].tolist()])
            if last < followed.next_offset:
                return
            if first < followed.next_offset:
                block = block.since(followed.next_offset)
            self.records += len(block)
            self._dirty.add((block.topic, block.partition))
            if isinstance(followed, FollowedPartition):
                followed.load(block, leader_epochs)
            else:
                for row in range(len(block)):
                    self._events += followed.take(
                        int(block.offset[row]),
                        int(block.timestamp_ms[row]),
                        block.keys.bytes_at(row),
                        block.values.bytes_at(row),
                    )

    def start_again(self, topic: str, number: int) -> None:
        """Forget a partition whose log was deleted and created again."""
        with self.lock:
            followed: dict[int | None, Any] = self._shares if topic == SHARE_GROUP_STATE else self._partitions
            followed.pop(number, None)
            with self._store.transaction():
                self._store.forget(topic, number)

    def note_preparing(self, groups: Collection[str], now_ms: int) -> dict[str, int]:
        """Note which classic groups rebalance now. Returns since when, by group id."""
        with self.lock:
            for group_id in self._preparing.keys() - set(groups):
                del self._preparing[group_id]
            for group_id in groups:
                self._preparing.setdefault(group_id, now_ms)
            return dict(self._preparing)

    def add_events(self, events: Iterable[WatchEvent]) -> None:
        """Add events that do not follow from records, for the next flush."""
        with self.lock:
            self._events += events

    def flush(self, now_ms: int, *, is_live: bool) -> list[WatchEvent]:
        """Write everything that was taken. Returns the new events, with ids.

        `now_ms`: the time at which events were seen; the wall clock, if the logs are live.
        """
        with self.lock:
            changes: list[tuple[str, int | None, PartitionChanges]] = []
            for number, one in self._partitions.items():
                part = one.finish(now_ms if is_live else None)
                if (CONSUMER_OFFSETS, number) in self._dirty or part.events:
                    changes.append((CONSUMER_OFFSETS, number, part))
            changes += [
                (SHARE_GROUP_STATE, number, share.finish())
                for number, share in self._shares.items()
                if (SHARE_GROUP_STATE, number) in self._dirty
            ]
            events = [event for _, _, part in changes for event in part.events] + self._events
            self._events = []
            self._dirty.clear()
            written: list[WatchEvent] = []
            if changes or events or self._topics.has_new_names:
                with self._store.transaction():
                    for topic, number, part in changes:
                        self._write(topic, _UNKNOWN if number is None else number, part)
                    for event in sorted(events, key=lambda event: event.at_ms):
                        seen = replace(event, seen_ms=now_ms)
                        written.append(replace(seen, id=self._store.put_event(seen)))
                    if self._topics.has_new_names:
                        self._store.put_names(self._topics.learned())
        if changes or written:
            self._on_events(written)
        return written

    def _write(self, topic: str, number: int, part: PartitionChanges) -> None:
        self._store.put_rows(topic, number, part.rows())
        if part.pending is not None:
            self._store.put_pending(topic, number, part.pending)
        self._store.put_position(topic, number, part.next_offset)
        for group_id, at_ms, state in part.states:
            if state is None:
                self._last.pop(group_id, None)
                self._store.put_state(group_id, at_ms, None, {})
                continue
            old, known = self._last.get(group_id, (None, None))
            members = members_of(state, old, known)
            self._last[group_id] = state, members
            self._store.put_state(group_id, at_ms, header_of(state, self.locality(state)), members)
        for group_id, body in part.trackers.items():
            self._store.put_tracker(group_id, body)

    def locality(self, state: GroupView) -> float | None:
        """Return the share of assigned partitions with a replica in their member's rack."""
        remote = cross_rack_share(state, self._topics)
        return None if remote is None else 1 - remote

    # ---- groups as they are now

    def group(self, group_id: str) -> ObservedGroup | None:
        """Return a group with its offsets; `None` if it does not exist."""
        with self.lock:
            for one in self._partitions.values():
                group: CoordinatorGroup | None = one.history.state.groups.get(group_id)
                if group is not None:
                    committed = self._committed(one, group_id)
                    return ObservedGroup(group_id=group_id, view=one.view(group_id, group), committed=committed)
        return None

    def groups(self, *, offsets: bool = True) -> list[ObservedGroup]:
        """Return all groups, sorted by id; with their offsets, if requested."""
        with self.lock:
            found = [
                ObservedGroup(
                    group_id=group_id,
                    view=one.view(group_id, group),
                    committed=self._committed(one, group_id) if offsets else {},
                )
                for one in self._partitions.values()
                for group_id, group in one.history.state.groups.items()
            ]
        return sorted(found, key=lambda one: one.group_id)

    def take_committed(self) -> set[str]:
        """Return the groups whose offsets changed since the last call."""
        with self.lock:
            followed: list[FollowedPartition | FollowedShares] = [*self._partitions.values(), *self._shares.values()]
            found = {group_id for one in followed for group_id in one.committed}
            for one in followed:
                one.committed.clear()
            return found

    def offset_columns(self, group_id: str) -> list[tuple[str, list[int], list[int], list[int]]]:
        """Return topic, partitions, offsets and times of commits of a group, by topic."""
        with self.lock:
            one = next((one for one in self._partitions.values() if group_id in one.history.state.groups), None)
            if one is None:
                return []
            if not isinstance(one.history.state.groups[group_id], ShareGroup):
                return [(topic, *found.columns()) for topic, found in sorted(one.offsets.topics(group_id))]
            committed = self._committed(one, group_id)
        return [
            (
                topic,
                [number for _, number in places],
                [committed[place].offset for place in places],
                [committed[place].at_ms for place in places],
            )
            for topic, some in groupby(sorted(committed), key=itemgetter(0))
            for places in [list(some)]
        ]

    def commits(self) -> dict[str, int]:
        """Return group id → number of commits that were read."""
        with self.lock:
            return {
                group_id: count for one in self._partitions.values() for group_id, count in one.commit_counts.items()
            }

    def upgrade_findings(self, release: str, topology: Topology | None) -> list[UpgradeFinding]:
        """Return the effects of an upgrade to a release. Raises `InputError`."""
        try:
            version = KafkaVersion.parse(release)
        except ValueError as error:
            raise InputError(str(error), "use a release such as 4.3.1") from None
        with self.lock:
            found = ReplayedGroups(
                groups=[
                    ReplayedGroup(partition=number, history=one.history, view=one.view(group_id, group))
                    for number, one in self._partitions.items()
                    for group_id, group in sorted(one.history.state.groups.items())
                ],
                names=self._topics.names,
                topology=topology,
                histories={number: one.history for number, one in self._partitions.items()},
            )
            return [
                UpgradeFinding(group_id=row["group"], kind=row["type"], finding=row["finding"], sentence=row["what"])
                for row in finding_rows(found, version, "bidirectional", None)
            ]

    def _committed(self, one: FollowedPartition, group_id: str) -> dict[tuple[str, int], CommittedPlace]:
        found = {
            (topic, number): CommittedPlace(offset, ms)
            for topic, partitions in one.offsets.topics(group_id)
            for number, offset, ms in zip(*partitions.columns(), strict=True)
        }
        labels = self._topics.labels()
        is_share = isinstance(one.history.state.groups.get(group_id), ShareGroup)
        for share in self._shares.values() if is_share else ():
            for key, state in share.history.shard.states.items():
                if key.group_id == group_id and state.start_offset >= 0:
                    written_ms = share.history.written_ms.get(key, -1)
                    found[labels.topic(key.topic_id), key.partition] = CommittedPlace(state.start_offset, written_ms)
        return found


_UNKNOWN = -1
"""Number in the store for a log whose partition is not known."""
