"""`Observer`: watches the groups of a cluster, or of a copy of its logs.

Longer than other modules, because the methods of `Watched` with their parameters are one class.
"""

import tempfile
import threading
import time
from collections.abc import Collection, Sequence
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
    TopicRow,
    UpgradeFinding,
    WatchEvent,
    WatchStatus,
)
from quorate.watch.outputs import Output
from quorate.watch.problems import Problems

if TYPE_CHECKING:
    from quorate.watch.collector import Collector
    from quorate.watch.files import FilesThread
    from quorate.watch.lag_history import LagHistory
    from quorate.watch.lags import Ends, Lags
    from quorate.watch.live import LiveCluster, LogThread, Sampler, StatesThread
    from quorate.watch.moments import Moments
    from quorate.watch.store import WatchStore
    from quorate.watch.topics import KnownTopics


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
        if state == "":
            raise InputError("state is empty: give a folder, or None for history that is lost at the end")
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
        self._lags: LagHistory | None = None
        self._moments: Moments | None = None
        self._first_id = 0
        self._returned: set[int] = set()

    # ---- start and end

    def start(self) -> None:
        """Open the store and start the threads."""
        try:
            from quorate.watch.collector import Collector
            from quorate.watch.lag_history import LagHistory
            from quorate.watch.moments import Moments
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
            self._lags = LagHistory(self._collector, self._store, self._limits, *self._keep)
            self._moments = Moments(self._collector, self._store, self._topics, self._lags)
            self._first_id = self._store.last_event_id()
            self._start_threads(self._collector, self._topics, self._lags)
        except BaseException:
            self.close()
            raise

    def _start_threads(self, collector: "Collector", topics: "KnownTopics", lags: "LagHistory") -> None:
        if self._cluster is None:
            from quorate.watch.files import FilesThread

            self._files = FilesThread(self._paths, self._topology, collector, topics, self._problems, self._stop, lags)
            self._files.start()
            return
        from quorate.watch.live import LogThread, Sampler, StatesThread

        topics.refresh()
        for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE):
            self._logs.append(LogThread(self._cluster, topic, collector, self._problems, self._stop))
        self._sampler = Sampler(
            self._cluster, topics, self._problems, self._stop, self._interval_s, lags.wanted, self._on_sample
        )
        self._states = StatesThread(self._cluster, collector, self._problems, self._stop, self._limits)
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
        if self._moments is not None:
            self._moments.note(events)
        for one in events:
            for output in self._outputs:
                output.take(one, is_old=is_old and self._live is not None)
        self._bump()

    def _bump(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _on_sample(self, ends: "Ends", lags: "Lags") -> None:
        assert self._lags is not None
        self._lags.take(ends, lags)
        self._bump()

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

    def _opened(self) -> tuple["Collector", "WatchStore", "KnownTopics", "Moments"]:
        if self._collector is None or self._store is None or self._topics is None or self._moments is None:
            raise QuorateError("the observer is not running: use `with Observer(...)`, or call start()")
        return self._collector, self._store, self._topics, self._moments

    def status(self) -> WatchStatus:
        """See `Watched.status`."""
        collector, store, _, _ = self._opened()
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

    def groups(self, *, at_ms: int | None = None) -> list[GroupSummary]:
        """See `Watched.groups`."""
        *_, moments = self._opened()
        return moments.groups(at_ms)

    def group(self, group_id: str, *, at_ms: int | None = None) -> GroupMoment | None:
        """See `Watched.group`."""
        *_, moments = self._opened()
        return moments.group(group_id, at_ms)

    def ownership(self, group_id: str, *, from_ms: int, to_ms: int) -> list[OwnershipSpan]:
        """See `Watched.ownership`."""
        from quorate.watch.spans import ownership

        _, store, topics, _ = self._opened()
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
        _, store, *_ = self._opened()
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
        _, store, *_ = self._opened()
        return store.lags(group_id, from_ms, to_ms, points)

    def difference(self, group_id: str, *, from_ms: int, to_ms: int) -> list[str]:
        """See `Watched.difference`."""
        from quorate.watch.spans import difference

        _, store, topics, _ = self._opened()
        before, after = store.state(group_id, from_ms), store.state(group_id, to_ms)
        old, new = (
            {(topic, number): offset for topic, number, offset, *_ in store.offsets(group_id, at_ms)}
            for at_ms in (from_ms, to_ms)
        )
        return difference(group_id, before, after, old, new, topics)

    def topics(self) -> list[TopicRow]:
        """See `Watched.topics`."""
        *_, moments = self._opened()
        return moments.topics()

    def upgrade_findings(self, release: str) -> list[UpgradeFinding]:
        """See `Watched.upgrade_findings`."""
        collector, _, topics, _ = self._opened()
        return collector.upgrade_findings(release, topics.topology)

    def commits(self) -> dict[str, int]:
        """Return group id → number of commits that were read since the start."""
        collector, *_ = self._opened()
        return collector.commits()


_CLOSE_S = 15.0
