"""Groups as they are now, and as they were at any moment, from the collector and the store."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from quorate.watch.collector import Collector, ObservedGroup
from quorate.watch.lag_history import LagHistory
from quorate.watch.model import EventKind, GroupMoment, GroupSummary, PartitionRow, Place, TopicRow, WatchEvent
from quorate.watch.states import Header, Members, header_of, member_rows, members_of, summary_of
from quorate.watch.store import WatchStore
from quorate.watch.topics import KnownTopics

_Committed = Mapping[Place, tuple[int, int, int | None, int | None]]
"""Offset, time of the commit, end offset and lag in time."""


class Moments:
    """Builds summaries and moments of groups. Thread-safe."""

    def __init__(self, collector: Collector, store: WatchStore, topics: KnownTopics, lags: LagHistory) -> None:
        self._collector = collector
        self._store = store
        self._topics = topics
        self._lags = lags
        self._headers: dict[str, tuple[tuple[object, object], Header]] = {}
        self._rebalances: Counter[str] = Counter()
        self._last_rebalance: dict[str, int] = {}
        for group_id, (count, last) in store.rebalances().items():
            self._rebalances[group_id], self._last_rebalance[group_id] = count, last

    def note(self, events: Iterable[WatchEvent]) -> None:
        """Count the rebalances of new events."""
        for one in events:
            if one.kind is EventKind.REBALANCE_ENDED:
                self._rebalances[one.group_id] += 1
                self._last_rebalance[one.group_id] = one.at_ms

    def groups(self, at_ms: int | None) -> list[GroupSummary]:
        """See `Watched.groups`."""
        if at_ms is None:
            commits = self._collector.commits()
            return [self._summary(group, commits) for group in self._collector.groups(offsets=False)]
        lags, counts = self._store.last_lags(at_ms), self._store.rebalances(at_ms)
        return [
            self._summary_then(group_id, header, lags, counts)
            for group_id, header in sorted(self._store.headers(at_ms).items())
        ]

    def _summary(self, group: ObservedGroup, commits: Mapping[str, int]) -> GroupSummary:
        records, ms = self._lags.of_groups.get(group.group_id, (None, None))
        return summary_of(
            group.group_id,
            self._header(group),
            lag_records=records,
            lag_ms=ms,
            rebalances=self._rebalances[group.group_id],
            last_rebalance_ms=self._last_rebalance.get(group.group_id),
            commits=commits.get(group.group_id, 0),
            spark=tuple(self._lags.sparks.get(group.group_id, ())),
        )

    def _header(self, group: ObservedGroup) -> Header:
        key = group.view, self._topics.topology
        known = self._headers.get(group.group_id)
        if known is None or known[0][0] is not key[0] or known[0][1] is not key[1]:
            known = key, header_of(group.view, self._collector.locality(group.view))
            self._headers[group.group_id] = known
        return known[1]

    @staticmethod
    def _summary_then(
        group_id: str,
        header: Header,
        lags: Mapping[str, tuple[int | None, int | None]],
        counts: Mapping[str, tuple[int, int]],
    ) -> GroupSummary:
        records, ms = lags.get(group_id, (None, None))
        count, last = counts.get(group_id, (0, None))
        return summary_of(group_id, header, lag_records=records, lag_ms=ms, rebalances=count, last_rebalance_ms=last)

    def group(self, group_id: str, at_ms: int | None) -> GroupMoment | None:
        """See `Watched.group`."""
        found = self._now(group_id) if at_ms is None else self._then(group_id, at_ms)
        if found is None:
            return None
        summary, members, committed = found
        rows = member_rows(members, self._topics.name)
        owners = {place: row for row in rows for place in row.assigned}
        partitions = []
        for place in sorted(committed.keys() | owners.keys()):
            offset, committed_ms, end, lag_ms = committed.get(place, (None, None, None, None))
            owner = owners.get(place)
            racks = self._topics.racks(place)
            partitions.append(
                PartitionRow(
                    topic=place[0],
                    partition=place[1],
                    member_id=None if owner is None else owner.member_id,
                    committed=offset,
                    committed_ms=committed_ms,
                    end=end,
                    lag_records=None if end is None or offset is None else max(0, end - offset),
                    lag_ms=lag_ms,
                    leader_rack=racks[0] if racks else None,
                    owner_rack=None if owner is None else owner.rack,
                )
            )
        return GroupMoment(
            group_id=group_id,
            at_ms=time.time_ns() // 1_000_000 if at_ms is None else at_ms,
            summary=summary,
            members=rows,
            partitions=tuple(partitions),
        )

    def _now(self, group_id: str) -> tuple[GroupSummary, Members, _Committed] | None:
        group = self._collector.group(group_id)
        if group is None:
            return None
        lags = self._lags
        committed = {
            place: (one.offset, one.at_ms, lags.ends.get(place), lags.lag_ms.get((group_id, place)))
            for place, one in group.committed.items()
        }
        return self._summary(group, self._collector.commits()), members_of(group.view), committed

    def _then(self, group_id: str, at_ms: int) -> tuple[GroupSummary, Members, _Committed] | None:
        state = self._store.state(group_id, at_ms)
        if state is None:
            return None
        header, members = state
        lags, counts = self._store.last_lags(at_ms, group_id), self._store.rebalances(at_ms, group_id)
        committed = {
            (topic, number): (offset, committed_ms, end, lag_ms)
            for topic, number, offset, committed_ms, end, lag_ms in self._store.offsets(group_id, at_ms)
        }
        return self._summary_then(group_id, header, lags, counts), members, committed

    def topics(self) -> list[TopicRow]:
        """See `Watched.topics`."""
        groups: dict[str, set[str]] = {}
        for group in self._collector.groups():
            names = {topic for topic, _ in group.committed} | set(group.view.topics or ())
            for member in group.view.members.values():
                names |= {self._topics.labels().topic(topic) for topic, _ in member.assigned}
            for name in names:
                groups.setdefault(name, set()).add(group.group_id)
        topology = self._topics.topology
        counts = {} if topology is None else {topic.name: topic.partitions for topic in topology.topics}
        return [
            TopicRow(topic=name, partitions=counts.get(name), groups=tuple(sorted(ids)))
            for name, ids in sorted(groups.items())
        ]
