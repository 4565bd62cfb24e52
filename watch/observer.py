"""`Observer`: watches the groups of a cluster, or of a copy of its logs."""

import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.errors import InputError, QuorateError
from quorate.codecs.live_connect import check_connection, where_text
from quorate.codecs.printable import time_text
from quorate.watch.limits import WatchLimits
from quorate.watch.matching import Condition
from quorate.watch.model import (
    EventKind,
    GroupMoment,
    GroupSummary,
    LagSample,
    OwnershipSpan,
    PartitionRow,
    Place,
    TopicRow,
    UpgradeFinding,
    WatchEvent,
    WatchStatus,
)
from quorate.watch.outputs import Output
from quorate.watch.problems import Problems

if TYPE_CHECKING:
    from quorate.watch.collector import Collector, ObservedGroup
    from quorate.watch.files import FilesThread
    from quorate.watch.lags import Ends, Lags
    from quorate.watch.live import LiveCluster, LogThread, Sampler, StatesThread
    from quorate.watch.store import WatchStore
    from quorate.watch.topics import KnownTopics

__all__ = ["NotObserved", "Observer"]

SPARK = 60
"""Recent lag samples in a summary."""

OFFSETS_EVERY_MS = 5 * 60_000
"""Time between two kept copies of the committed offsets of a group."""

RETAIN_EVERY_MS = 10 * 60_000


class NotObserved(QuorateError, TimeoutError):
    """No event matched within the time. The message lists the events that were seen."""


class Observer:
    """Watches the groups of a running cluster, from a thread of its own; implements `Watched`.

    Joins no group, commits nothing, and writes nothing to the cluster. Use it as a context manager,
    or call `start` and `close`.

    ```python
    with Observer("localhost:9092") as observer:
        consumer.close()
        event = observer.wait_for(rebalance(group="orders", cause=MemberLeft))
        print(event.sentence, event.duration_ms, event.moved)
    ```

    `bootstrap_servers`: HOST:PORT, several separated by commas or in a sequence. `state`: folder in
    which the history is kept; without one, it is lost at the end. `interval_s`: time between two
    samples of lags. `keep_ms` and `keep_bytes`: how much history is kept. `outputs`: get each
    event. Further options are those of kafka-python's clients.

    `start` raises `InputError` and `LiveError` if the cluster cannot be read. Needs pyarrow
    (`pip install quorate[watch]`).
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        state: str | Path | None = None,
        interval_s: float = 10.0,
        limits: WatchLimits | None = None,
        keep_ms: int | None = 7 * 24 * 3_600_000,
        keep_bytes: int | None = None,
        outputs: Sequence[Output] = (),
        connect_timeout_ms: int = 10_000,
        **kafka_python_config: Any,
    ) -> None:
        given = bootstrap_servers
        listed = given.split(",") if isinstance(given, str) else list(given)
        config = {"client_id": "quorate"} | kafka_python_config
        check_connection(listed, config)
        self._setup(where_text(listed, config), state, limits, keep_ms, keep_bytes, outputs)
        self._live: tuple[list[str], dict[str, Any], int] | None = listed, config, connect_timeout_ms
        self._interval_s = interval_s

    @classmethod
    def of_files(
        cls,
        *paths: str | Path,
        state: str | Path | None = None,
        topology: str | Path | None = None,
        limits: WatchLimits | None = None,
        keep_ms: int | None = None,
        keep_bytes: int | None = None,
        outputs: Sequence[Output] = (),
    ) -> Self:
        """Return an observer of a copy of logs: segments, partitions' folders, log directories.

        `topology`: file that describes topics with their racks. Lags are unknown.
        """
        found = cls.__new__(cls)
        found._setup(", ".join(map(str, paths)), state, limits, keep_ms, keep_bytes, outputs)
        found._paths = [str(path) for path in paths]
        found._topology = None if topology is None else str(topology)
        return found

    def _setup(
        self,
        source: str,
        state: str | Path | None,
        limits: WatchLimits | None,
        keep_ms: int | None,
        keep_bytes: int | None,
        outputs: Sequence[Output],
    ) -> None:
        self._source = source
        self._state = state
        self._limits = limits or WatchLimits()
        self._keep = keep_ms, keep_bytes
        self._outputs = outputs
        self._live = None
        self._interval_s = 10.0
        self._paths: list[str] = []
        self._topology: str | None = None
        self._problems = Problems()
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._version = 1
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._cluster: LiveCluster | None = None
        self._logs: list[LogThread] = []
        self._sampler: Sampler | None = None
        self._states: StatesThread | None = None
        self._files: FilesThread | None = None
        self._store: WatchStore | None = None
        self._collector: Collector | None = None
        self._topics: KnownTopics | None = None
        self._headers: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._ends: dict[Place, int] = {}
        self._lag_ms: dict[tuple[str, Place], int] = {}
        self._group_lags: dict[str, tuple[int | None, int | None]] = {}
        self._sparks: dict[str, deque[int]] = {}
        self._rebalances: Counter[str] = Counter()
        self._last_rebalance: dict[str, int] = {}
        self._over: set[str] = set()
        self._kept_offsets: dict[str, tuple[int, Any]] = {}
        self._retained_ms = 0
        self._first_id = 0
        self._returned: set[int] = set()

    # ---- start and end

    def start(self) -> None:
        """Open the store and start the threads."""
        try:
            from quorate.watch.collector import Collector
            from quorate.watch.store import WatchStore
            from quorate.watch.topics import KnownTopics
        except ImportError as error:
            raise InputError(
                f"watching needs the package {error.name or 'pyarrow'}", "install it: pip install 'quorate[watch]'"
            ) from error
        source = self._source
        try:
            if self._live is not None:
                from quorate.watch.live import LiveCluster

                self._cluster = LiveCluster(*self._live)
                source = f"cluster {self._cluster.check()}"
            if self._state is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="quorate-watch-", ignore_cleanup_errors=True)
            folder = Path(self._temporary.name if self._temporary is not None else self._state or "")
            self._store = WatchStore(folder, source)
            self._topics = KnownTopics(self._cluster.topology if self._cluster is not None else None)
            self._topics.restore(self._store.names())
            self._collector = Collector(self._store, self._topics, self._limits, self._on_events)
            self._first_id = self._store.last_event_id()
            for group_id, (count, last) in self._store.rebalances().items():
                self._rebalances[group_id], self._last_rebalance[group_id] = count, last
            kinds = (EventKind.LAG_OVER, EventKind.LAG_UNDER)
            for found in self._store.events(kinds=kinds, newest_first=False, limit=1 << 30):
                (self._over.add if found.kind is EventKind.LAG_OVER else self._over.discard)(found.group_id)
            self._start_threads()
        except BaseException:
            self.close()
            raise

    def _start_threads(self) -> None:
        assert self._collector is not None
        assert self._topics is not None
        if self._cluster is None:
            from quorate.watch.files import FilesThread

            self._files = FilesThread(
                self._paths, self._topology, self._collector, self._topics, self._problems, self._stop, self._on_part
            )
            self._files.start()
            return
        from quorate.watch.live import LogThread, Sampler, StatesThread

        self._topics.refresh()
        for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE):
            self._logs.append(LogThread(self._cluster, topic, self._collector, self._problems, self._stop))
        self._sampler = Sampler(
            self._cluster, self._topics, self._problems, self._stop, self._interval_s, self._wanted, self._on_sample
        )
        self._states = StatesThread(self._cluster, self._collector, self._problems, self._stop, self._limits)
        for log in self._logs:
            log.start()
        self._sampler.start()
        self._states.start()

    def close(self) -> None:
        """Stop the threads, and close the connections and the store."""
        self._stop.set()
        threads = [*self._logs, *(one for one in (self._sampler, self._states, self._files) if one is not None)]
        for thread in threads:
            thread.join(_CLOSE_S)
        if self._cluster is not None:
            self._cluster.close()
        for output in self._outputs:
            output.close()
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._temporary is not None:
            self._temporary.cleanup()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- called by threads

    def _on_events(self, events: Sequence[WatchEvent]) -> None:
        is_old = not self.is_caught_up
        for one in events:
            if one.kind is EventKind.REBALANCE_ENDED:
                self._rebalances[one.group_id] += 1
                self._last_rebalance[one.group_id] = one.at_ms
            for output in self._outputs:
                output.take(one, is_old=is_old and self._live is not None)
        self._bump()

    def _bump(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _wanted(self) -> set[tuple[Place, int]]:
        assert self._collector is not None
        return {(place, one.offset) for group in self._collector.groups() for place, one in group.committed.items()}

    def _on_sample(self, ends: "Ends", lags: "Lags") -> None:
        assert self._collector is not None
        assert self._store is not None
        now_ms = time.time_ns() // 1_000_000
        groups = self._collector.groups()
        self._ends = dict(ends.end)
        lag_ms: dict[tuple[str, Place], int] = {}
        rows: list[tuple[str, int | None, int | None]] = []
        for group in groups:
            by_partition = [
                max(0, ends.end[place] - one.offset) for place, one in group.committed.items() if place in ends.end
            ]
            for place, one in group.committed.items():
                found = lags.of.get((place, one.offset))
                if found is None and lags.missing:
                    found = self._lag_ms.get((group.group_id, place))
                if found is not None:
                    lag_ms[group.group_id, place] = found
            times = [lag_ms[group.group_id, place] for place in group.committed if (group.group_id, place) in lag_ms]
            total, most = sum(by_partition) if by_partition else None, max(times, default=None)
            if total is not None or most is not None:
                rows.append((group.group_id, total, most))
        self._lag_ms = lag_ms
        self._group_lags = {group_id: (records, ms) for group_id, records, ms in rows}
        for group_id, records, ms in rows:
            spark = self._sparks.setdefault(group_id, deque(maxlen=SPARK))
            spark.append(ms if ms is not None else records or 0)
        events = list(self._lag_events(now_ms))
        with self._store.transaction():
            self._store.put_lags(now_ms, rows)
        self._keep_offsets(now_ms, groups)
        self._retain(now_ms)
        self._collector.add_events(events)
        self._collector.flush(now_ms, is_live=True)
        self._bump()

    def _lag_events(self, now_ms: int) -> Iterable[WatchEvent]:
        limit = self._limits.lag_ms
        for group_id, (records, ms) in self._group_lags.items():
            if limit is None or ms is None or (ms > limit) == (group_id in self._over):
                continue
            is_over = ms > limit
            (self._over.add if is_over else self._over.discard)(group_id)
            yield WatchEvent(
                id=0,
                at_ms=now_ms,
                seen_ms=now_ms,
                group_id=group_id,
                kind=EventKind.LAG_OVER if is_over else EventKind.LAG_UNDER,
                sentence=f"the lag is {ms / 1000:,.1f} s, {'over' if is_over else 'not over'} {limit / 1000:g} s",
                facts=() if records is None else (f"lag in records: {records:,}",),
            )

    def _keep_offsets(self, now_ms: int, groups: Iterable["ObservedGroup"]) -> None:
        """Keep a copy of the offsets of groups that have committed since the last one."""
        assert self._store is not None
        bodies = []
        for group in groups:
            at_ms, before = self._kept_offsets.get(group.group_id, (-OFFSETS_EVERY_MS, None))
            if now_ms - at_ms < OFFSETS_EVERY_MS:
                continue
            body: dict[str, list[Any]] = {}
            for (topic, number), one in sorted(group.committed.items()):
                end, ms = self._ends.get((topic, number)), self._lag_ms.get((group.group_id, (topic, number)))
                body.setdefault(topic, []).append([number, one.offset, one.at_ms, end, ms])
            self._kept_offsets[group.group_id] = now_ms, hash(str(body))
            if hash(str(body)) != before:
                bodies.append((group.group_id, body))
        if bodies:
            with self._store.transaction():
                self._store.put_offsets(now_ms, bodies)

    def _retain(self, now_ms: int) -> None:
        keep_ms, keep_bytes = self._keep
        if now_ms - self._retained_ms >= RETAIN_EVERY_MS:
            assert self._store is not None
            self._retained_ms = now_ms
            self._store.retain(None if keep_ms is None else now_ms - keep_ms, keep_bytes)

    def _on_part(self, now_ms: int) -> None:
        """Keep offsets while files are read, by the time of their records."""
        if self._collector is not None:
            self._keep_offsets(now_ms, self._collector.groups())

    # ---- waiting

    @property
    def is_caught_up(self) -> bool:
        """Whether all records that existed at the start are read."""
        if self._files is not None:
            return self._files.is_done
        return bool(self._logs) and all(one.caught_up for one in self._logs)

    def problems(self) -> tuple[str, ...]:
        """Return the current problems, as sentences."""
        return self._problems.sentences()

    def wait_until_caught_up(self, timeout_s: float = 60.0) -> None:
        """Wait for the records that existed at the start. Raises `NotObserved`."""
        until = time.monotonic() + timeout_s
        while not self.is_caught_up:
            left = until - time.monotonic()
            if left <= 0 or self._stop.is_set():
                problems = "; ".join(self._problems.sentences())
                raise NotObserved(f"{self._source}: not read within {timeout_s:g} s{problems and ': '}{problems}")
            with self._changed:
                self._changed.wait(min(left, 0.1))

    def wait_for(self, condition: Condition, timeout_s: float = 60.0) -> WatchEvent:
        """Return the first event that matches, of those since the start.

        Each event is returned once. Raises `NotObserved` after the timeout.
        """
        until = time.monotonic() + timeout_s
        while True:
            version = self._version
            found = self._found(condition)
            if found is not None:
                self._returned.add(found.id)
                return found
            left = until - time.monotonic()
            if left <= 0 or self._stop.is_set():
                raise NotObserved(self._seen(timeout_s))
            self.wait(version, left)

    def _found(self, condition: Condition) -> WatchEvent | None:
        after = self._first_id
        while chunk := self.events(after_id=after, newest_first=False, limit=1_000):
            for one in chunk:
                if one.id not in self._returned and condition(one):
                    return one
            after = chunk[-1].id
        return None

    def _seen(self, timeout_s: float) -> str:
        recent = self.events(after_id=self._first_id, limit=10) if self._store is not None else []
        lines = [f"  {time_text(one.at_ms)} {one.kind} {one.group_id}: {one.sentence}" for one in reversed(recent)]
        problems = [f"  problem: {sentence}" for sentence in self._problems.sentences()]
        return "\n".join([f"no event matched within {timeout_s:g} s; the last ones were:", *lines, *problems])

    def sample(self, timeout_s: float = 60.0) -> None:
        """Read lags now, after what has been committed before. Raises `NotObserved`."""
        if self._sampler is not None and not self._sampler.sample_now(timeout_s):
            problems = "; ".join(self._problems.sentences())
            raise NotObserved(f"lags were not read within {timeout_s:g} s{problems and ': '}{problems}")

    def wait(self, after: int, timeout_s: float) -> int:
        """See `Watched.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > after or self._stop.is_set(), timeout_s)
            return self._version

    # ---- reading

    def _opened(self) -> tuple["Collector", "WatchStore", "KnownTopics"]:
        if self._collector is None or self._store is None or self._topics is None:
            raise QuorateError("the observer is not running: use `with Observer(...)`, or call start()")
        return self._collector, self._store, self._topics

    def status(self) -> WatchStatus:
        """See `Watched.status`."""
        collector, store, _ = self._opened()
        read = {
            f"{topic}-{number}": offset
            for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE)
            for number, offset in sorted(collector.next_offsets(topic).items())
        }
        return WatchStatus(
            mode="files" if self._live is None else "live",
            caught_up=self.is_caught_up,
            late_ms=max((one.late_ms for one in self._logs), default=0),
            read=read,
            records=collector.records,
            errors=self._problems.sentences(),
            since_ms=store.since_ms(),
            source=self._source,
        )

    def _header(self, group: "ObservedGroup") -> dict[str, Any]:
        from quorate.watch.states import header_of

        collector, _, topics = self._opened()
        key = (group.view, topics.topology)
        known = self._headers.get(group.group_id)
        if known is None or known[0][0] is not key[0] or known[0][1] is not key[1]:
            known = self._headers[group.group_id] = key, header_of(group.view, collector.locality(group.view))
        return known[1]

    def groups(self, *, at_ms: int | None = None) -> list[GroupSummary]:
        """See `Watched.groups`."""
        from quorate.watch.states import summary_of

        collector, store, _ = self._opened()
        if at_ms is None:
            commits = collector.commits()
            return [self._summary(group, commits) for group in collector.groups(offsets=False)]
        lags, counts = store.last_lags(at_ms), store.rebalances(at_ms)
        found = []
        for group_id, header in sorted(store.headers(at_ms).items()):
            records, ms = lags.get(group_id, (None, None))
            count, last = counts.get(group_id, (0, None))
            found.append(
                summary_of(group_id, header, lag_records=records, lag_ms=ms, rebalances=count, last_rebalance_ms=last)
            )
        return found

    def _summary(self, group: "ObservedGroup", commits: Mapping[str, int]) -> GroupSummary:
        from quorate.watch.states import summary_of

        records, ms = self._group_lags.get(group.group_id, (None, None))
        return summary_of(
            group.group_id,
            self._header(group),
            lag_records=records,
            lag_ms=ms,
            rebalances=self._rebalances[group.group_id],
            last_rebalance_ms=self._last_rebalance.get(group.group_id),
            commits=commits.get(group.group_id, 0),
            spark=tuple(self._sparks.get(group.group_id, ())),
        )

    def group(self, group_id: str, *, at_ms: int | None = None) -> GroupMoment | None:
        """See `Watched.group`."""
        from quorate.watch.states import member_rows, members_of, summary_of

        collector, store, topics = self._opened()
        offsets: dict[Place, tuple[int, int, int | None, int | None]]
        if at_ms is None:
            group = collector.group(group_id)
            if group is None:
                return None
            members = members_of(group.view)
            summary = self._summary(group, collector.commits())
            offsets = {
                place: (one.offset, one.at_ms, self._ends.get(place), self._lag_ms.get((group_id, place)))
                for place, one in group.committed.items()
            }
        else:
            found = store.state(group_id, at_ms)
            if found is None:
                return None
            header, members = found
            records, ms = store.last_lags(at_ms, group_id).get(group_id, (None, None))
            count, last = store.rebalances(at_ms, group_id).get(group_id, (0, None))
            summary = summary_of(
                group_id, header, lag_records=records, lag_ms=ms, rebalances=count, last_rebalance_ms=last
            )
            offsets = {
                (topic, number): (offset, committed_ms, end, ms)
                for topic, rows in (store.offsets(group_id, at_ms) or {}).items()
                for number, offset, committed_ms, end, ms in rows
            }
        rows = member_rows(members, topics.name)
        owners = {place: row for row in rows for place in row.assigned}
        partitions = []
        for place in sorted(offsets.keys() | owners.keys()):
            offset, committed_ms, end, lag_ms = offsets.get(place, (None, None, None, None))
            owner = owners.get(place)
            racks = topics.racks(place)
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
        now_ms = time.time_ns() // 1_000_000
        return GroupMoment(
            group_id=group_id,
            at_ms=now_ms if at_ms is None else at_ms,
            summary=summary,
            members=rows,
            partitions=tuple(partitions),
        )

    def ownership(self, group_id: str, *, from_ms: int, to_ms: int) -> list[OwnershipSpan]:
        """See `Watched.ownership`."""
        from quorate.watch.spans import ownership

        _, store, topics = self._opened()
        return ownership(store.states(group_id, from_ms, to_ms), topics.name, from_ms, to_ms)

    def events(
        self,
        *,
        group_id: str | None = None,
        kinds: Collection[EventKind] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        after_id: int | None = None,
        limit: int = 500,
        newest_first: bool = True,
    ) -> list[WatchEvent]:
        """See `Watched.events`."""
        _, store, _ = self._opened()
        return store.events(
            group_id=group_id,
            kinds=kinds,
            from_ms=from_ms,
            to_ms=to_ms,
            after_id=after_id,
            limit=limit,
            newest_first=newest_first,
        )

    def lag(self, group_id: str, *, from_ms: int, to_ms: int, points: int = 200) -> list[LagSample]:
        """See `Watched.lag`."""
        _, store, _ = self._opened()
        return store.lags(group_id, from_ms, to_ms, points)

    def difference(self, group_id: str, *, from_ms: int, to_ms: int) -> list[str]:
        """See `Watched.difference`."""
        from quorate.watch.spans import difference

        _, store, topics = self._opened()
        before, after = store.state(group_id, from_ms), store.state(group_id, to_ms)
        return difference(
            group_id, before, after, store.offsets(group_id, from_ms), store.offsets(group_id, to_ms), topics
        )

    def topics(self) -> list[TopicRow]:
        """See `Watched.topics`."""
        collector, _, known = self._opened()
        groups: dict[str, set[str]] = {}
        for group in collector.groups():
            names = {topic for topic, _ in group.committed} | set(group.view.topics or ())
            for member in group.view.members.values():
                names |= {known.labels().topic(topic) for topic, _ in member.assigned}
            for name in names:
                groups.setdefault(name, set()).add(group.group_id)
        topology = known.topology
        counts = {} if topology is None else {topic.name: topic.partitions for topic in topology.topics}
        return [
            TopicRow(topic=name, partitions=counts.get(name), groups=tuple(sorted(ids)))
            for name, ids in sorted(groups.items())
        ]

    def upgrade_findings(self, release: str) -> list[UpgradeFinding]:
        """See `Watched.upgrade_findings`."""
        collector, _, topics = self._opened()
        return collector.upgrade_findings(release, topics.topology)

    def commits(self) -> dict[str, int]:
        """Return group id → number of commits that were read since the start."""
        collector, _, _ = self._opened()
        return collector.commits()


_CLOSE_S = 15.0
