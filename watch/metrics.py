"""Metrics of groups for Prometheus, computed on each scrape from what an observer knows.

Gauges are of the moment of the scrape. Counters count from the start of this process, as Prometheus
expects: events of the kept history, from before, are not in them. The number of groups with series
of their own is limited. A group keeps its place, so series do not come and go with the lag.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from threading import Lock
from typing import Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from quorate.codecs.errors import InputError
from quorate.watch.model import EventKind, GroupMoment, GroupSummary, Watched, WatchEvent

Detail = Literal["group", "topic", "partition"]
"""The smallest unit that has series of its own."""

BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

LABEL_LENGTH = 200
"""Longer label values are cut, and end with a hash of the whole."""

BATCH = 1_000


class MetricsError(InputError):
    """An option of the metrics is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Which groups have series of their own.

    `groups`: a regex that their whole id must match. `limit`: how many groups, at most. `detail`:
    whether topics or partitions of these groups have series, too; `detail_limit`: how many of them,
    at most. `quorate_watch_left_out` counts what has none. Raises `MetricsError`.
    """

    groups: str = ".*"
    limit: int = 1_000
    detail: Detail = "group"
    detail_limit: int = 20_000

    def __post_init__(self) -> None:
        try:
            re.compile(self.groups)
        except re.error as error:
            raise MetricsError(
                f"the regex {self.groups!r} of groups with metrics is not valid: {error}", "such as: orders-.*|billing"
            ) from None
        if self.limit < 0 or self.detail_limit < 0:
            raise MetricsError("a limit of metrics is negative", "use 0 for no series of single groups")
        if self.detail not in get_args(Detail):
            raise MetricsError(f"the detail {self.detail!r} of metrics is unknown", "use group, topic or partition")


class Metrics:
    """Metrics of what `watched` knows."""

    def __init__(self, watched: Watched, options: MetricsOptions | None = None) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(WatchCollector(watched, options or MetricsOptions()))

    def scrape(self, accept: str = "") -> tuple[str, bytes]:
        """Return the content type and the text: OpenMetrics if `accept` names it."""
        encode, kind = choose_encoder(accept)
        return kind, encode(self._registry)


@dataclass(slots=True)
class _Counted:
    """What happened to one group since the start."""

    events: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    seconds: float = 0.0

    def add(self, event: WatchEvent) -> None:
        self.events[event.kind] += 1
        if event.kind is EventKind.REBALANCE_BEGAN:
            self.causes[event.cause.name if event.cause else "unknown"] += 1
        elif event.kind is EventKind.REBALANCE_ENDED and event.duration_ms is not None:
            self.buckets[bisect_left(BUCKETS_S, event.duration_ms / 1000)] += 1
            self.seconds += event.duration_ms / 1000


class WatchCollector(Collector):
    """Yields all metrics of an observer. Counts events from its creation."""

    def __init__(self, watched: Watched, options: MetricsOptions) -> None:
        self._watched = watched
        self._options = options
        self._regex = re.compile(options.groups)
        self._counted: dict[str, _Counted] = {}
        self._lock = Lock()
        newest = watched.events(limit=1)
        self._last_id = newest[0].id if newest else 0

    def describe(self) -> list[Metric]:
        """Return nothing: metrics depend on the observer."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        with self._lock:
            groups = self._watched.groups()
            matching = [group for group in groups if self._regex.fullmatch(group.group_id)]
            self._admit([group.group_id for group in matching])
            self._count_events()
            shown = [group for group in matching if group.group_id in self._counted]
            left_out = {"groups": len(matching) - len(shown)}
            yield from self._of_observer()
            yield from _of_all(groups)
            yield from _of_groups(shown)
            yield from self._of_events()
            if self._options.detail != "group":
                yield from self._details(shown, left_out)
            family = GaugeMetricFamily(
                "quorate_watch_left_out", "What has no series of its own, because of a limit.", labels=["what"]
            )
            for what, count in left_out.items():
                family.add_metric([what], count)
            yield family

    def _admit(self, names: list[str]) -> None:
        """Give groups a place; deleted groups keep theirs until another group needs it."""
        absent = list(self._counted.keys() - set(names))
        for name in names:
            if name in self._counted:
                continue
            if len(self._counted) >= self._options.limit:
                if not absent:
                    return
                del self._counted[absent.pop()]
            self._counted[name] = _Counted()

    def _count_events(self) -> None:
        while events := self._watched.events(after_id=self._last_id, newest_first=False, limit=BATCH):
            for event in events:
                if event.group_id in self._counted:
                    self._counted[event.group_id].add(event)
            self._last_id = events[-1].id

    def _of_observer(self) -> Iterator[Metric]:
        status = self._watched.status()
        yield _gauge("quorate_watch_caught_up", "Whether all existing records are read.", int(status.caught_up))
        yield _gauge(
            "quorate_watch_delay_seconds", "Age of the last record read, while more wait.", status.late_ms / 1000
        )
        yield _gauge("quorate_watch_problems", "Current problems of the observer.", len(status.errors))
        if status.since_ms is not None:
            yield _gauge("quorate_watch_history_start_seconds", "Begin of the kept history.", status.since_ms / 1000)
        yield CounterMetricFamily("quorate_watch_records", "Records read.", value=status.records)
        read = GaugeMetricFamily("quorate_watch_next_offset", "Next offset to read.", labels=["topic", "partition"])
        for place, offset in sorted(status.read.items()):
            topic, _, partition = place.rpartition("-")
            read.add_metric([topic, partition], offset)
        yield read

    def _of_events(self) -> Iterator[Metric]:
        events = CounterMetricFamily("quorate_watch_events", "Events of groups, by kind.", labels=["group", "kind"])
        causes = CounterMetricFamily("quorate_watch_rebalances", "Rebalances that began.", labels=["group", "cause"])
        seconds = HistogramMetricFamily(
            "quorate_watch_rebalance_seconds", "Duration of rebalances that ended.", labels=["group"]
        )
        for name, counted in sorted(self._counted.items()):
            for kind, number in sorted(counted.events.items()):
                events.add_metric([_label(name), kind], number)
            for cause, number in sorted(counted.causes.items()):
                causes.add_metric([_label(name), cause], number)
            if any(counted.buckets):
                bounds = [*map(str, map(float, BUCKETS_S)), "+Inf"]
                buckets = list(zip(bounds, accumulate(counted.buckets), strict=True))
                seconds.add_metric([_label(name)], buckets, counted.seconds)
        yield events
        yield causes
        yield seconds

    def _details(self, shown: list[GroupSummary], left_out: dict[str, int]) -> Iterator[Metric]:
        unit = self._options.detail
        labels = ["group", "topic", "partition"][: 3 if unit == "partition" else 2]
        of = f"quorate_watch_{unit}"
        records = GaugeMetricFamily(f"{of}_lag_records", f"Lag of a {unit}, in records.", labels=labels)
        seconds = GaugeMetricFamily(f"{of}_lag_seconds", f"Lag of a {unit}, by timestamps of records.", labels=labels)
        count, left_out[f"{unit}s"] = 0, 0
        for group in shown:
            moment = self._watched.group(group.group_id)
            for where, lag_records, lag_ms in _lags(moment, unit) if moment else ():
                count += 1
                if count > self._options.detail_limit:
                    left_out[f"{unit}s"] += 1
                    continue
                values = [_label(group.group_id), *map(_label, where)]
                if lag_records is not None:
                    records.add_metric(values, lag_records)
                if lag_ms is not None:
                    seconds.add_metric(values, lag_ms / 1000)
        yield records
        yield seconds


def _of_all(groups: Iterable[GroupSummary]) -> Iterator[Metric]:
    family = GaugeMetricFamily("quorate_watch_groups", "Groups, by kind and state.", labels=["kind", "state"])
    for (kind, state), number in sorted(Counter((group.kind, group.state) for group in groups).items()):
        family.add_metric([kind, state], number)
    yield family


def _of_groups(groups: list[GroupSummary]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "quorate_watch_group_info", "1 for each group.", labels=["group", "kind", "state", "assignor"]
    )
    for group in groups:
        info.add_metric([_label(group.group_id), group.kind, group.state, _label(group.assignor or "")], 1)
    yield info
    values: tuple[tuple[str, str, dict[str, float | None]], ...] = (
        ("lag_records", "Lag of a group, in records.", {g.group_id: g.lag_records for g in groups}),
        (
            "lag_seconds",
            "Largest lag of a group's partitions, by timestamps of records.",
            {g.group_id: None if g.lag_ms is None else g.lag_ms / 1000 for g in groups},
        ),
        ("members", "Members of a group.", {g.group_id: g.members for g in groups}),
        ("partitions", "Partitions that are assigned or committed.", {g.group_id: g.partitions for g in groups}),
        ("epoch", "Epoch, or generation, of a group.", {g.group_id: g.epoch for g in groups}),
        (
            "locality_ratio",
            "Share of assigned partitions with a replica in their member's rack.",
            {g.group_id: g.locality for g in groups},
        ),
        (
            "last_rebalance_seconds",
            "Time of the last rebalance.",
            {g.group_id: None if g.last_rebalance_ms is None else g.last_rebalance_ms / 1000 for g in groups},
        ),
    )
    for name, help_, by_group in values:
        family = GaugeMetricFamily(f"quorate_watch_group_{name}", help_, labels=["group"])
        for group_id, value in by_group.items():
            if value is not None:
                family.add_metric([_label(group_id)], value)
        yield family
    commits = CounterMetricFamily("quorate_watch_group_commits", "Offset commits read.", labels=["group"])
    for group in groups:
        commits.add_metric([_label(group.group_id)], group.commits)
    yield commits


def _lags(moment: GroupMoment, unit: Detail) -> Iterator[tuple[list[str], int | None, int | None]]:
    """Yield labels, the lag in records (a sum) and in time (a maximum)."""
    if unit == "partition":
        for row in moment.partitions:
            yield [row.topic, str(row.partition)], row.lag_records, row.lag_ms
        return
    for topic in sorted({row.topic for row in moment.partitions}):
        rows = [row for row in moment.partitions if row.topic == topic]
        records = [row.lag_records for row in rows if row.lag_records is not None]
        times = [row.lag_ms for row in rows if row.lag_ms is not None]
        yield [topic], sum(records) if records else None, max(times, default=None)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=value)


def _label(text: str) -> str:
    if len(text) <= LABEL_LENGTH:
        return text
    return f"{text[:LABEL_LENGTH]}…{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
