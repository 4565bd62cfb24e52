"""Compare the speed of our assignors with Kafka's and kafka-python's.

The groups are those of Kafka's JMH benchmarks, and Java is warmed up. A row of a client-side
assignor is one `assign` of members and topics, which the leader of a group has; in Java, one
`assign` of the cluster and the subscriptions. A row of a server-side assignor is one `assign_group`
of a prepared `GroupSpec`; in Java, one `assign` of prepared maps and sets. "with GroupSpec"
includes its construction from members. Cached values, such as the order of members, are computed
again in each call. Both figures are the smaller of two: the least average time of several rounds,
and the thread's CPU time, which excludes the load of other processes. Our median time is shown,
too. Members of `sticky` have owned partitions in their user data, which both sides decode. Groups
of streams-sticky have tasks instead of partitions. The module is longer than others, because all
families share the groups and the clock.
"""

import argparse
import gc
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _groups import Cell, fresh, grid, group, members_of, topology_of
from _measure import JAVA, SMOKE_JAVA, USUAL_JAVA, java, need_java
from _report import Report
from _task_groups import TaskCell, task_cells

from quorate.assignors import Assignor, GroupSpec, Member
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.registry import client_assignor, server_assignor
from quorate.assignors.streams import StickyTaskAssignor

S = TypeVar("S")
C = TypeVar("C", Cell, TaskCell)

ASSIGNORS_OF_KAFKA = (
    "client-range",
    "client-roundrobin",
    "client-sticky",
    "client-cooperative-sticky",
    "server-uniform",
    "server-range",
)
OWN_ASSIGNORS = ("client-lag-aware", "server-rack-aware-uniform")
TASK_ASSIGNOR = "streams-sticky"
FAMILIES = (*ASSIGNORS_OF_KAFKA, TASK_ASSIGNOR, *OWN_ASSIGNORS, "kafka-python")

DEFAULT_POINTS = (
    (100, 10, 100),
    (1000, 5, 100),
    (1000, 10, 100),
    (1000, 50, 100),
    (1000, 10, 1000),
    (5000, 10, 100),
    (10_000, 10, 100),
    (10_000, 10, 1000),
)
LARGEST_POINT = (10_000, 10, 100)
POINTS_WITH_RACKS = ((1000, 10, 100), LARGEST_POINT)
SMALL_POINTS = ((10, 1, 1), (10, 5, 5), (10, 10, 10))
"""Groups as most are: up to 100 partitions."""
SMALLEST_POINT = SMALL_POINTS[-1]
"""The only point of a smoke run."""


def assignor_of(family: str) -> Assignor:
    side, _, name = family.partition("-")
    return client_assignor(name) if side == "client" else server_assignor(name)


def uses_owned_partitions(family: str) -> bool:
    """Return whether an assignor uses owned partitions, which incremental rounds have."""
    return family not in ("client-range", "client-roundrobin", "server-range")


def is_server_side(family: str) -> bool:
    """Return whether a coordinator runs the assignor, and not the leader of a group."""
    return family.startswith("server")


def cells(family: str, report: Report) -> Iterator[Cell]:
    """Yield the cells of a run."""
    if report.smoke:
        yield from (
            Cell(*SMALLEST_POINT, incremental=uses_owned_partitions(family)),
            Cell(*SMALLEST_POINT, homogeneous=False, racks="rf1"),
        )
        return
    if report.quick:
        yield from _quick(family)
        return
    yield from _small(family)
    for point in grid() if report.options.grid else DEFAULT_POINTS:
        for homogeneous in (True, False):
            for incremental in (False, True) if uses_owned_partitions(family) else (False,):
                # Only client-side assignors use racks, and only if not all partitions are in all
                # racks (as with rf3).
                racks = (
                    ("none", "rf3", "rf1") if point in POINTS_WITH_RACKS and family.startswith("client") else ("none",)
                )
                for rack in racks:
                    cell = Cell(*point, homogeneous, incremental, rack)
                    if not _too_slow_for_java(family, cell):
                        yield cell


def _small(family: str) -> Iterator[Cell]:
    for point in SMALL_POINTS:
        for incremental in (False, True) if uses_owned_partitions(family) else (False,):
            yield Cell(*point, incremental=incremental)


def _quick(family: str) -> Iterator[Cell]:
    """Yield a few cells that Java computes quickly."""
    yield from _small(family)
    yield Cell(*LARGEST_POINT, incremental=uses_owned_partitions(family))
    if family == "client-range":
        yield Cell(*LARGEST_POINT, homogeneous=False)
        yield Cell(*LARGEST_POINT, racks="rf1")
    elif "sticky" in family:
        yield Cell(100, 10, 100, homogeneous=False)
        yield Cell(500, 10, 100, homogeneous=False, incremental=True)
    else:
        yield Cell(*LARGEST_POINT, homogeneous=False, incremental=uses_owned_partitions(family))


def _too_slow_for_java(family: str, cell: Cell) -> bool:
    """Return whether Kafka's general sticky algorithm takes minutes.

    It takes seconds for 1,000 members with 10 partitions each.
    """
    if cell.homogeneous or "sticky" not in family:
        return False
    return cell.partitions > 10_000 or cell.topics > 100 or cell.racks != "none"


def goal(family: str, cell: Cell) -> str:
    """Return the goal of the ratio."""
    if family == "client-range" or (family == "server-uniform" and not cell.homogeneous):
        return "ratio ≥ 1"
    if "sticky" in family and not cell.homogeneous and cell.incremental:
        return "ratio ≥ 10"
    return "ratio ≥ 0.33" if cell.partitions >= 10_000 else ""


# ---- measuring


@dataclass
class Times:
    """Average milliseconds of a call in each round: elapsed, and CPU time of this thread."""

    wall: list[float]
    cpu: list[float]

    @property
    def least(self) -> float:
        """The figure to report, by the same rule as Java's."""
        return min(*self.wall, statistics.median(self.cpu))

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    def __add__(self, other: "Times") -> "Times":
        return Times(self.wall + other.wall, self.cpu + other.cpu)


def rounds(report: Report, assign: Callable[[S], Any], prepared: S, *, copy: Callable[[S], S] = fresh) -> Times:
    """Run five rounds of 40 ms or more, or three of slow calls; in a smoke run, one call each.

    `copy`: prepares the argument of each call.
    """
    gc.collect()
    min_s = report.pick(0.04, quick=0.04, smoke=0.0)
    times = Times([], [])
    started = time.perf_counter()
    while len(times.wall) < 3 or (len(times.wall) < 5 and time.perf_counter() - started < 1):
        wall, cpu, calls = 0.0, 0.0, 0
        while calls == 0 or wall < min_s:
            without_caches = copy(prepared)
            cpu_begin, begin = time.thread_time(), time.perf_counter()
            assign(without_caches)
            wall += time.perf_counter() - begin
            cpu += time.thread_time() - cpu_begin
            calls += 1
        times += Times([wall / calls * 1e3], [cpu / calls * 1e3])
        if time.perf_counter() - started > 12:
            break
    return times


def kafka(report: Report, program: Sequence[str], requested: Sequence[C]) -> dict[C, float]:
    """Return Kafka's milliseconds for each cell, from one JVM.

    `program`: the oracle's class, and its first arguments.
    """
    warm_ms = report.pick(7000, quick=2000, smoke=0)
    options = (f"-Dprewarm={warm_ms}", *(USUAL_JAVA if warm_ms else SMOKE_JAVA))
    lines = java(*program, *(cell.argument for cell in requested), options=options)
    return {cell: line["least_s"] * 1e3 for cell, line in zip(requested, lines, strict=True)}


def _members(family: str, cell: Cell) -> dict[str, Member]:
    return members_of(cell, assignor_of(family), user_data=family == "client-sticky")


def _prepared(family: str, cell: Cell) -> GroupSpec:
    return group(_members(family, cell), cell)


def with_group(family: str, cell: Cell) -> float:
    """Return the least seconds of three runs from members to the assignment."""
    assignor, members = assignor_of(family), _members(family, cell)
    topology = topology_of(cell.members, cell.ratio, cell.topics, cell.racks)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        assignor.assign(members, topology)
        times.append(time.perf_counter() - begin)
    return min(times)


# ---- families


def compare_with_java(report: Report, family: str) -> None:
    """Measure every cell, ours before and after Java, as the load of the machine may change."""
    compared = list(cells(family, report))
    assignor = assignor_of(family)
    ours: dict[Cell, Times] = {}

    def times(cell: Cell) -> Times:
        if is_server_side(family):
            return rounds(report, assignor.assign_group, _prepared(family, cell))
        topology = topology_of(cell.members, cell.ratio, cell.topics, cell.racks)
        return rounds(report, lambda members: assignor.assign(members, topology), _members(family, cell), copy=dict)

    for cell in compared:
        ours[cell] = times(cell)
    peer = kafka(report, ("oracle.Bench", family), compared)
    for cell in compared:
        ours[cell] += times(cell)
        report.cost(
            f"{family}: {cell}",
            ours[cell].least,
            peer[cell],
            JAVA,
            "ms",
            goal(family, cell),
            median=ours[cell].median,
            **({"with_Group": with_group(family, cell) * 1e3} if is_server_side(family) else {}),
        )
    if report.quick:
        return
    for incremental in (False, True):
        for racks in ("none", "rf1"):
            cell = Cell(
                *report.pick(LARGEST_POINT, quick=LARGEST_POINT, smoke=SMALLEST_POINT), False, incremental, racks
            )
            if _too_slow_for_java(family, cell):
                _measure_without_java(report, family, cell, ", Java takes minutes")


def compare_tasks_with_java(report: Report) -> None:
    """Measure the task assignor of streams groups, ours before and after Java."""
    compared = list(task_cells(quick=report.quick, smoke=report.smoke))

    def times(cell: TaskCell) -> Times:
        configs, topology = cell.configs, cell.topology
        assign = StickyTaskAssignor().assign
        return rounds(report, lambda specs: assign(specs, configs, topology), cell.specs(), copy=dict)

    ours = {cell: times(cell) for cell in compared}
    peer = kafka(report, ("oracle.StreamsBench",), compared)
    for cell in compared:
        ours[cell] += times(cell)
        report.cost(
            f"{TASK_ASSIGNOR}: {cell}",
            ours[cell].least,
            peer[cell],
            JAVA,
            "ms",
            median=ours[cell].median,
        )


def measure_lag_aware(report: Report, family: str) -> None:
    """Measure `lag-aware`, which Kafka does not have."""
    points = report.pick(
        ((1000, 100, 100), LARGEST_POINT, (10_000, 10, 1000)), quick=(LARGEST_POINT,), smoke=(SMALLEST_POINT,)
    )
    for point in points:
        for homogeneous in (True,) if report.quick else (True, False):
            for incremental in (False, True) if uses_owned_partitions(family) and not report.quick else (False,):
                _measure_without_java(report, family, Cell(*point, homogeneous, incremental))
        everything: dict[str, Any] = {
            "locality": "replica",
            "local_tolerance": 0.1,
            "spread_idle": True,
            "shuffle": True,
        }
        _measure_without_java(
            report, family, Cell(*point, racks="rf1"), ", local, partitions without lag spread", **everything
        )
        if report.quick:
            return
        _measure_without_java(report, family, Cell(*point, incremental=True), ", at most 1,000 move", max_moved=1000)


def rack_aware_cells(report: Report) -> Iterator[Cell]:
    """Yield groups of equal, of different, and of entirely different subscriptions."""
    if report.smoke:
        yield Cell(*SMALLEST_POINT, incremental=True, racks="rf1")
        yield Cell(*SMALLEST_POINT, homogeneous=False, racks="rf1", own_topics=3)
        return
    if report.quick:
        yield Cell(*LARGEST_POINT, racks="rf1")
        yield Cell(*LARGEST_POINT, incremental=True, racks="rf1")
        yield Cell(10_000, 10, 1000, False, racks="rf1", own_topics=20)
        return
    for incremental in (False, True):
        for point in ((1000, 100, 100), LARGEST_POINT, (10_000, 10, 1000)):
            for homogeneous in (True, False):
                for racks in ("none", "rf1"):
                    yield Cell(*point, homogeneous, incremental, racks)
        yield Cell(10_000, 10, 1000, False, incremental, "rf1", own_topics=20)


def compare_with_uniform(report: Report, family: str) -> None:
    """Measure `rack-aware-uniform` and our `uniform`, each with its own assignment as owned.

    `uniform` ignores the racks. Only these rows have groups in which all subscriptions differ.
    """
    peer = "server-uniform"
    for cell in rack_aware_cells(report):
        ours, theirs = Times([], []), Times([], [])
        for _ in range(report.pick(2, quick=1, smoke=1)):
            ours += rounds(report, _assign(family, cell), _prepared(family, cell))
            theirs += rounds(report, _assign(peer, cell), _prepared(peer, cell))
        goal = "< 1,000 ms" if cell.own_topics else "ratio ≥ 0.33" if cell.homogeneous else ""
        report.cost(
            f"{family}: {cell}",
            ours.least,
            theirs.least,
            "uniform",
            "ms",
            goal,
            median=ours.median,
            with_Group=with_group(family, cell) * 1e3,
            uniform_with_Group=with_group(peer, cell) * 1e3,
        )


def _measure_without_java(report: Report, family: str, cell: Cell, how: str = "", **options: Any) -> None:
    times = rounds(report, _assign(family, cell, **options), _prepared(family, cell))
    report.cost(
        f"{family}: {cell}{how}",
        times.least,
        None,
        "",
        "ms",
        "< 1,000 ms" if family == "client-lag-aware" else "",
        median=times.median,
    )


@cache
def _lags(partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return realistic lags: many are 0, some are large."""
    rng = np.random.default_rng(169)
    return np.where(rng.random(partitions) < 0.3, 0, rng.lognormal(6, 2, partitions)).astype(np.int64)


def _assign(family: str, cell: Cell, **options: Any) -> Callable[[GroupSpec], Any]:
    assignor = assignor_of(family)
    if isinstance(assignor, LagAwareAssignor):
        by_lag, lags = LagAwareAssignor(**options), _lags(cell.partitions)
        return lambda group: by_lag.assign_group(group, lags=lags)
    return assignor.assign_group


def growth(report: Report, family: str) -> None:
    """Measure how time grows from 12,500 to 100,000 partitions, with members in proportion.

    An exponent of 1 is growth like P log P. It is the median of the slopes between doublings, so
    one disturbed measurement does not matter.
    """
    most, ratio, topics = report.pick(LARGEST_POINT, quick=LARGEST_POINT, smoke=(80, 10, 10))
    for homogeneous in (True, False):
        for incremental in (False, True) if uses_owned_partitions(family) else (False,):
            steps = []
            for members in (most // 8, most // 4, most // 2, most):
                cell = Cell(members, ratio, topics, homogeneous, incremental)
                steps.append((cell.partitions, rounds(report, _assign(family, cell), _prepared(family, cell)).least))
            slopes = [
                math.log(time_b / time_a) / math.log(b * math.log(b) / (a * math.log(a)))
                for (a, time_a), (b, time_b) in pairwise(steps)
            ]
            what = f"{family}: growth{'' if homogeneous else ', heterogeneous'}{', incremental' if incremental else ''}"
            report.cost(what, statistics.median(slopes), 1.0, "P log P", "exponent", "ratio ≥ 0.8")


def memory(report: Report, family: str) -> None:
    """Measure peak memory of an assignment, without and with the group, including NumPy arrays."""
    for homogeneous in (True, False):
        cell = Cell(
            *report.pick(LARGEST_POINT, quick=LARGEST_POINT, smoke=SMALLEST_POINT),
            homogeneous,
            uses_owned_partitions(family),
        )
        members = _members(family, cell)
        assign = _assign(family, cell)
        gc.collect()
        tracemalloc.start()
        prepared = group(members, cell)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assign(prepared)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        report.cost(f"{family}: peak memory, {cell}", (peak - held) / 1e6, None, "", "MB", with_Group=peak / 1e6)


# ---- kafka-python


def compare_with_kafka_python(report: Report) -> None:
    """Compare with kafka-python's assignors, from members to the assignment on both sides."""
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    name = "kafka-python"
    peers = {
        "client-range": RangePartitionAssignor,
        "client-roundrobin": RoundRobinPartitionAssignor,
        "client-sticky": StickyPartitionAssignor,
    }
    cell = Cell(*report.pick((500, 10, 50), quick=(200, 10, 20), smoke=SMALLEST_POINT))
    topology = topology_of(cell.members, cell.ratio, cell.topics, "none")
    for family, peer in peers.items():
        members = _members(family, cell)
        ours = with_group(family, cell)
        joined = [_joined(name, member.topics) for name, member in members.items()]
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            peer().assign(_Cluster(topology), joined)
            times.append(time.perf_counter() - begin)
        ours = min(ours, with_group(family, cell))
        wanted = "ratio ≥ 20" if family == "client-sticky" else "ratio ≥ 1"
        report.cost(f"{family}: {cell}, with GroupSpec", ours * 1e3, min(times) * 1e3, name, "ms", wanted)


class _Cluster:
    """The part of kafka-python's ClusterMetadata that its assignors use."""

    def __init__(self, topology: Any) -> None:
        self._partitions = {topic.name: set(range(topic.partitions)) for topic in topology.topics}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)

    def topics(self) -> set[str]:
        return set(self._partitions)


def _joined(member_id: str, topics: Sequence[str]) -> SimpleNamespace:
    """Return a member in the form that kafka-python's coordinator passes to an assignor."""
    return SimpleNamespace(
        member_id=member_id, group_instance_id=None, metadata=SimpleNamespace(topics=list(topics), user_data=b"")
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="measure only this family; may be given more than once"
    )
    parser.add_argument("--grid", action="store_true", help="all cells of Kafka's grid that Java computes in seconds")
    report = Report("quorate.assignors", __doc__ or "", parser)
    need_java()
    few = (
        "client-range",
        "client-sticky",
        "server-uniform",
        TASK_ASSIGNOR,
        "client-lag-aware",
        "server-rack-aware-uniform",
        "kafka-python",
    )
    for family in report.options.family or report.pick(FAMILIES, quick=few, smoke=few):
        if family == "kafka-python":
            compare_with_kafka_python(report)
            continue
        if family == TASK_ASSIGNOR:
            compare_tasks_with_java(report)
            continue
        if family in ASSIGNORS_OF_KAFKA:
            compare_with_java(report, family)
        elif family == "client-lag-aware":
            measure_lag_aware(report, family)
        else:
            compare_with_uniform(report, family)
        if not report.quick:
            growth(report, family)
            memory(report, family)
    report.finish()


if __name__ == "__main__":
    main()
