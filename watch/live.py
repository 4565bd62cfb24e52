"""Follows a running cluster: threads that read the coordinator topics, metadata, and lags.

Joins no group, and commits and writes nothing. A cluster that cannot be reached is a current
problem, after which reading continues where it stopped.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.errors import InputError, QuorateError
from quorate.codecs.live import LivePoll, poll_live
from quorate.codecs.live_batches import block_of_polled, leader_epochs
from quorate.codecs.live_connect import LiveError, explain_error, where_text
from quorate.codecs.printable import duration_text
from quorate.watch.collector import Collector
from quorate.watch.lags import Ends, Lags, TimestampReader
from quorate.watch.limits import WatchLimits
from quorate.watch.metadata import LiveTopics, live_topics, open_admin, without_leader
from quorate.watch.model import EventKind, WatchEvent
from quorate.watch.problems import Problems
from quorate.watch.threads import ObserverThread
from quorate.watch.topics import KnownTopics

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from quorate.assignors import Topology

RETRY_S = 1.0

_STATES_S = 0.5
"""Time between two lists of groups, the precision of the begin of a classic rebalance."""

_TURN_S = 0.1
"""Time in which a thread notices that it should stop."""

LATE_MS = 5_000
"""Records that are read later than this are a problem, if more are waiting."""

PERMISSIONS = (
    f"DESCRIBE and READ on {CONSUMER_OFFSETS} and {SHARE_GROUP_STATE} are required; "
    "DESCRIBE and READ on the groups' topics for their lags"
)


class LiveCluster:
    """The metadata of a cluster, and a reader of lags. Connections are opened when needed.

    `topics`: those that `topology` read last.
    """

    def __init__(self, servers: Sequence[str], config: Mapping[str, Any], connect_timeout_ms: int) -> None:
        self.servers = list(servers)
        self.config = dict(config)
        self.connect_timeout_ms = connect_timeout_ms
        self.where = where_text(servers, config)
        self.lags = TimestampReader(servers, config, connect_timeout_ms)
        self.topics: LiveTopics | None = None
        self._lock = threading.Lock()
        self._admin: KafkaAdminClient | None = None
        self._closing: Any = None

    def check(self) -> str:
        """Check that the logs can be read, and return the id of the cluster.

        A topic that does not exist yet is no error. Raises `InputError` and `LiveError`.
        """
        with self._opened("reading groups") as admin:
            cluster_id = str(admin.describe_cluster()["cluster_id"])
            for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE):
                for found in admin.describe_topics([topic]):
                    operations = found.get("authorized_operations")
                    if found["error_code"] in _REFUSED or (operations and "READ" not in operations):
                        refused = "describe" if found["error_code"] else "read"
                        raise InputError(f"{self.where}: this client is not allowed to {refused} {topic}", PERMISSIONS)
        return cluster_id

    def topology(self) -> "Topology":
        """Return all visible topics. Raises `InputError` and `LiveError`."""
        with self._opened("reading metadata") as admin:
            self.topics = topics = live_topics(admin, None)
        return topics.topology

    def preparing(self) -> list[str]:
        """Return classic groups whose rebalance has begun. Raises `InputError` and `LiveError`."""
        with self._opened("listing groups") as admin:
            return [group["group_id"] for group in admin.list_groups(states_filter=list(_PREPARING))]

    @contextmanager
    def _opened(self, doing: str) -> Iterator["KafkaAdminClient"]:
        """Yield the admin client, which stays open unless an error occurs."""
        with self._lock:
            if self._closing is None:
                self._closing = open_admin(
                    self.servers, self.config, self.connect_timeout_ms, doing, required=PERMISSIONS
                )
                try:
                    self._admin, _ = self._closing.__enter__()
                except BaseException:
                    self._closing = None
                    raise
            assert self._admin is not None
            try:
                yield self._admin
            except BaseException as error:
                manager, self._closing = self._closing, None
                if not manager.__exit__(type(error), error, error.__traceback__):
                    raise

    def close(self) -> None:
        """Close all connections."""
        self.lags.close()
        with self._lock:
            if self._closing is not None:
                self._closing.__exit__(None, None, None)
                self._closing = None


_REFUSED = frozenset({29, 30, 31})
"""Codes of authorization errors: topic, group, cluster."""

_PREPARING = ("PREPARING_REBALANCE", "COMPLETING_REBALANCE")


class LogThread(ObserverThread):
    """A thread that follows one coordinator topic, and gives its records to the collector.

    `caught_up`: all records that existed at the start are read. `late_ms`: the age of the last
    record, while more are waiting.
    """

    def __init__(
        self, cluster: LiveCluster, topic: str, collector: Collector, problems: Problems, stop: threading.Event
    ) -> None:
        self.topic = topic
        self.caught_up = False
        self.late_ms = 0
        self._cluster = cluster
        self._collector = collector
        self._problems = problems
        self._stop = stop
        super().__init__(topic, self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (LiveError, InputError) as error:
                missing = "does not exist" in str(error)
                if missing:
                    self.caught_up = True
                if not (missing and self.topic == SHARE_GROUP_STATE):
                    self._problems.set(self.topic, str(error).replace("\n", "; "))
            except QuorateError as error:
                self._problems.set(self.topic, f"{self.topic}: {error}")
            except Exception as error:  # noqa: BLE001  # kafka-python raises what it meets
                self._problems.set(self.topic, f"{self.topic}: {type(error).__name__}: {explain_error(error)}")
            self._stop.wait(RETRY_S)

    def _follow(self) -> None:
        polls = poll_live(
            self._cluster.servers,
            topic=self.topic,
            start_offsets=self._collector.next_offsets(self.topic),
            connect_timeout_ms=self._cluster.connect_timeout_ms,
            on_notice=self._notice,
            **self._cluster.config,
        )
        with closing(polls):
            for poll in polls:
                self._problems.clear(self.topic)
                try:
                    self._take(poll)
                except BaseException:
                    self._collector.reload()  # so that nothing is half taken
                    raise
                self.caught_up |= poll.caught_up
                if self._stop.is_set():
                    return

    def _take(self, poll: LivePoll) -> None:
        newest_ms = -1
        for number, records in poll.records.items():
            if not records:
                continue
            if records[0].offset < self._collector.next_offsets(self.topic).get(number, 0):
                self._collector.start_again(self.topic, number)
            self._collector.take(block_of_polled(records, self.topic, number), leader_epochs(records))
            newest_ms = max(newest_ms, records[-1].timestamp)
        now_ms = time.time_ns() // 1_000_000
        self._collector.flush(now_ms, is_live=True)
        self.late_ms = max(0, now_ms - newest_ms) if poll.waiting and newest_ms >= 0 else 0
        if self.caught_up and self.late_ms >= LATE_MS:
            text = f"{self.topic} is read {self.late_ms / 1000:,.0f} s late: {poll.waiting:,} records are waiting"
            self._problems.set(f"{self.topic} late", text)
        else:
            self._problems.clear(f"{self.topic} late")

    def _notice(self, text: str) -> None:
        if "connected again" in text:
            self._problems.clear(f"{self.topic} leaders")
        else:
            self._problems.set(f"{self.topic} leaders", text)


class StatesThread(ObserverThread):
    """A thread that lists classic groups whose rebalance has begun, which no record shows.

    Reports groups that do not complete it.
    """

    def __init__(
        self, cluster: LiveCluster, collector: Collector, problems: Problems, stop: threading.Event, limits: WatchLimits
    ) -> None:
        self._cluster = cluster
        self._collector = collector
        self._problems = problems
        self._stop = stop
        self._limits = limits
        self._stuck: set[str] = set()
        super().__init__("states", self._run)

    def _run(self) -> None:
        while not self._stop.wait(_STATES_S):
            now_ms = time.time_ns() // 1_000_000
            try:
                groups = self._cluster.preparing()
            except Exception as error:  # noqa: BLE001  # as above
                self._problems.set("states", f"groups could not be listed: {str(error).splitlines()[0]}")
                continue
            self._problems.clear("states")
            since = self._collector.note_preparing(groups, now_ms)
            self._stuck &= since.keys()
            stuck = {one for one, at in since.items() if now_ms - at >= self._limits.stuck_ms} - self._stuck
            self._stuck |= stuck
            self._collector.add_events(
                WatchEvent(
                    at_ms=since[group_id] + self._limits.stuck_ms,
                    seen_ms=now_ms,
                    group_id=group_id,
                    kind=EventKind.STUCK,
                    sentence=f"members have not rejoined within {duration_text(self._limits.stuck_ms)}",
                )
                for group_id in sorted(stuck)
            )


class Sampler(ObserverThread):
    """A thread that reads metadata, end offsets and lags, every `interval_s` seconds.

    `on_sample` gets the committed offsets that were wanted, with the results.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        topics: KnownTopics,
        problems: Problems,
        stop: threading.Event,
        interval_s: float,
        wanted: Callable[[], set[tuple[tuple[str, int], int]]],
        on_sample: Callable[[Ends, Lags], None],
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._problems = problems
        self._stop = stop
        self._interval_s = interval_s
        self._wanted = wanted
        self._on_sample = on_sample
        self._wake = threading.Event()
        self._done = threading.Condition()
        self._busy = False
        self._count = 0
        super().__init__("lags", self._run)

    def sample_now(self, timeout_s: float) -> bool:
        """Sample at once; returns whether it succeeded within the time."""
        with self._done:
            wanted = self._count + 2 if self._busy else self._count + 1
            self._wake.set()
            return self._done.wait_for(lambda: self._count >= wanted or self._stop.is_set(), timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                with self._done:
                    self._busy = True
                    self._wake.clear()
                try:
                    self.sample()
                    self._problems.clear("lags")
                    with self._done:
                        self._count += 1
                        self._done.notify_all()
                except QuorateError as error:
                    self._problems.set("lags", f"lags could not be read: {str(error).splitlines()[0]}")
                except Exception as error:  # noqa: BLE001  # as above
                    self._problems.set(
                        "lags", f"lags could not be read: {type(error).__name__}: {explain_error(error)}"
                    )
                with self._done:
                    self._busy = False
                until = began + self._interval_s
                while not self._stop.is_set() and not self._wake.wait(_TURN_S) and time.monotonic() < until:
                    pass
        finally:
            self._cluster.lags.close()

    def sample(self) -> None:
        """Read once."""
        self._topics.refresh(force=True)
        topics = self._cluster.topics
        assert topics is not None
        committed = self._wanted()
        readable = topics.with_leader(place for place, _ in committed)
        wanted = {one for one in committed if one[0] in readable}
        if leaderless := topics.leaderless.intersection(place for place, _ in committed):
            self._problems.set("leaderless", f"lags are unknown: {without_leader(leaderless)}")
        else:
            self._problems.clear("leaderless")
        ends = self._cluster.lags.ends({place for place, _ in wanted})
        lags = self._cluster.lags.lags(wanted, ends, max(1.0, self._interval_s * 0.8))
        if lags.refused:
            names = ", ".join(lags.refused[:5])
            self._problems.set("refused", f"not allowed to read {names}: lags in time need READ on the topic")
        if lags.missing:
            self._problems.set(
                "slow",
                f"lags in time of {lags.missing:,} of {len(wanted):,} committed offsets could not be read in time",
            )
        else:
            self._problems.clear("slow")
        self._on_sample(ends, lags)
